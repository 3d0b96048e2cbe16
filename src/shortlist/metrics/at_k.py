"""Metrics of the first K places. Each is a function of the hits and K that gives a value for each user.

With T the items that a user took, r the ranks of the hits and h = #{r ≤ K}. Relevance is binary. A metric never depends
on what stands below place K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from shortlist.data import FloatArray, IntArray
from shortlist.metrics.hits import Hits

AtK = Callable[[Hits, int], FloatArray]


def _sum_per_user(hits: Hits, k: int, value_H: FloatArray) -> FloatArray:
    within_H = hits.within(k)
    return np.asarray(np.bincount(hits.row_H[within_H], value_H[within_H], minlength=hits.n_rows), np.float64)


def _count(hits: Hits, k: int) -> IntArray:
    return np.bincount(hits.row_H[hits.within(k)], minlength=hits.n_rows)


def _first_rank(hits: Hits) -> tuple[IntArray, IntArray]:
    """The lists with a hit, and the rank of the first."""
    row_F, first_F = np.unique(hits.row_H, return_index=True)
    return row_F, hits.rank_H[first_F]


def _order(hits: Hits) -> IntArray:
    """1 for the first hit of a list, 2 for the second, …"""
    row_F, first_F = np.unique(hits.row_H, return_index=True)
    start_R = np.zeros(hits.n_rows, np.int64)
    start_R[row_F] = first_F
    return np.arange(1, len(hits.row_H) + 1) - start_R[hits.row_H]


def dcg(hits: Hits, k: int) -> FloatArray:
    """Discounted cumulative gain, Σ_{r ≤ K} 1 / log₂(1 + r)."""
    return _sum_per_user(hits, k, 1 / np.log2(1.0 + hits.rank_H))


def ndcg(hits: Hits, k: int) -> FloatArray:
    """DCG over the best that was possible, Σ_{r ≤ min(K, |T|)} 1 / log₂(1 + r) (Järvelin and Kekäläinen, 2002)."""
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2.0, k + 2)))])
    ideal_R: FloatArray = ideal[np.minimum(hits.relevant_R, k)]
    return dcg(hits, k) / ideal_R


def recall(hits: Hits, k: int) -> FloatArray:
    """h / |T|: the share of what the user took that the list shows."""
    return _count(hits, k) / hits.relevant_R


def pair_recall(hits: Hits, k: int) -> FloatArray:
    """Recall of pairs rather than users, Σ_u h / Σ_u |T| (Tang et al., CROLoss, CIKM 2022, Eq. 5).

    A user's value is h over the *mean* |T| of the users at hand, so that the mean of the values is the recall of pairs.
    """
    return _count(hits, k) / hits.relevant_R.mean() if hits.n_rows else np.empty(0)


def precision(hits: Hits, k: int) -> FloatArray:
    """h / K: the share of the list that the user took."""
    return _count(hits, k) / k


def f1(hits: Hits, k: int) -> FloatArray:
    """Harmonic mean of the user's precision and recall, 2h / (K + |T|)."""
    return 2 * _count(hits, k) / (k + hits.relevant_R)


def hit_rate(hits: Hits, k: int) -> FloatArray:
    """1 if the list shows anything that the user took."""
    return (_count(hits, k) > 0).astype(np.float64)


def mrr(hits: Hits, k: int) -> FloatArray:
    """1 / rank of the first hit, 0 if there is none in K places."""
    row_F, rank_F = _first_rank(hits)
    value_R = np.zeros(hits.n_rows)
    value_R[row_F] = np.where(rank_F <= k, 1 / rank_F, 0.0)
    return value_R


def average_precision(hits: Hits, k: int) -> FloatArray:
    """Mean over min(K, |T|) of the precision at the rank of each hit; its mean over users is MAP@K."""
    return _sum_per_user(hits, k, _order(hits) / hits.rank_H) / np.minimum(hits.relevant_R, k)


AT_K: Mapping[str, AtK] = MappingProxyType(
    {
        "ndcg": ndcg,
        "dcg": dcg,
        "recall": recall,
        "pair_recall": pair_recall,
        "precision": precision,
        "f1": f1,
        "hit_rate": hit_rate,
        "mrr": mrr,
        "map": average_precision,
    }
)
"""The metrics at K by name."""
