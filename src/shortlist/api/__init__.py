"""The functions that `shortlist` exports: fit, open, evaluate and compare recommenders."""

from shortlist.api.comparing import ComparisonTable, compare
from shortlist.api.fitting import fit
from shortlist.api.measuring import Metrics, evaluate
from shortlist.api.recommender import Recommender, open_recommender

__all__ = ["ComparisonTable", "Metrics", "Recommender", "compare", "evaluate", "fit", "open_recommender"]
