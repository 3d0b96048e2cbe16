"""Metrics: functions of a ranking and the truth, with a value for each query."""

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
from shortlist.metrics.beyond_accuracy import beyond_accuracy, coverage, exposure, gini, mean_popularity
from shortlist.metrics.breakdown import by_activity, by_popularity, popularity_bands
from shortlist.metrics.comparison import SIGNIFICANCE, Comparison, PairedTest, compare, holm
from shortlist.metrics.evaluation import KS, Evaluation, EvaluationSet, evaluate, evaluate_set, values_at
from shortlist.metrics.hits import Hits, find_hits
from shortlist.metrics.intervals import Interval, bootstrap
from shortlist.metrics.pairwise import PairCounts, auc, llpauc, opauc

__all__ = [
    "AT_K",
    "KS",
    "SIGNIFICANCE",
    "Comparison",
    "Evaluation",
    "EvaluationSet",
    "Hits",
    "Interval",
    "PairCounts",
    "PairedTest",
    "auc",
    "average_precision",
    "beyond_accuracy",
    "bootstrap",
    "by_activity",
    "by_popularity",
    "compare",
    "coverage",
    "dcg",
    "evaluate",
    "evaluate_set",
    "exposure",
    "f1",
    "find_hits",
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
