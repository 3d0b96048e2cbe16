"""Recommendation lists from a run: for known users and for histories."""

from shortlist.recommend.recommend import recommend, recommend_to, similar

__all__ = ["recommend", "recommend_to", "similar"]
