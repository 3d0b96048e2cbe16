"""Recommendation lists from a run: for known users and for histories."""

from shortlist.recommend.recommend import Skipped, recommend, recommend_parts, recommend_to, similar

__all__ = ["Skipped", "recommend", "recommend_parts", "recommend_to", "similar"]
