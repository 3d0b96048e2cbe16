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
from shortlist.metrics.evaluation import KS, Evaluation, evaluate, values_at
from shortlist.metrics.hits import Hits, find_hits
from shortlist.metrics.intervals import Interval, bootstrap
from shortlist.metrics.pairwise import Standing, auc, llpauc, opauc

__all__ = [
    "AT_K",
    "KS",
    "Evaluation",
    "Hits",
    "Interval",
    "Standing",
    "auc",
    "average_precision",
    "bootstrap",
    "dcg",
    "evaluate",
    "f1",
    "find_hits",
    "hit_rate",
    "llpauc",
    "mrr",
    "ndcg",
    "opauc",
    "pair_recall",
    "precision",
    "recall",
    "values_at",
]
