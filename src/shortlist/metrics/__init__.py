"""Metrics: functions of a ranking and the truth, with a value for each user."""

from shortlist.metrics.at_k import (
    AT_K,
    average_precision,
    dcg,
    f1,
    hit_rate,
    mrr,
    ndcg,
    pair_recall,
    precision,
    recall,
)
from shortlist.metrics.beyond_accuracy import catalogue, coverage, exposure, gini, mean_popularity
from shortlist.metrics.breakdown import by_activity, by_popularity, popularity_bands
from shortlist.metrics.comparison import SIGNIFICANCE, Comparison, Pair, compare, format_p, holm
from shortlist.metrics.evaluation import KS, Evaluation, evaluate, values_at
from shortlist.metrics.hits import Hits, find_hits
from shortlist.metrics.intervals import Interval, bootstrap
from shortlist.metrics.pairwise import Standing, auc, llpauc, opauc

__all__ = [
    "AT_K",
    "KS",
    "SIGNIFICANCE",
    "Comparison",
    "Evaluation",
    "Hits",
    "Interval",
    "Pair",
    "Standing",
    "auc",
    "average_precision",
    "bootstrap",
    "by_activity",
    "by_popularity",
    "catalogue",
    "compare",
    "coverage",
    "dcg",
    "evaluate",
    "exposure",
    "f1",
    "find_hits",
    "format_p",
    "gini",
    "hit_rate",
    "holm",
    "llpauc",
    "mean_popularity",
    "mrr",
    "ndcg",
    "opauc",
    "pair_recall",
    "popularity_bands",
    "precision",
    "recall",
    "values_at",
]
