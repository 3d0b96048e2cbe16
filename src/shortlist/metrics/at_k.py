"""Metrics of the first K ranks. Each is a function of the hits and K that gives a value for each query.

T are the relevant items of a query, r the ranks of the hits, h = #{r ≤ K}. DCG and NDCG use grades y, if there are
any, as gains 2^y − 1; all other metrics use binary relevance. A metric never depends on items after rank K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from shortlist.data import FloatArray, IntArray
from shortlist.metrics.hits import Gains, Hits

AtK = Callable[[Hits, int], FloatArray]


def _sum_per_query(hits: Hits, k: int, value_H: FloatArray) -> FloatArray:
    in_top_k_H = hits.within(k)
    return np.asarray(np.bincount(hits.row_H[in_top_k_H], value_H[in_top_k_H], minlength=hits.n_rows), np.float64)


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
    """Discounted cumulative gain, Σ_{r ≤ K} g_r / log₂(1 + r), with gains g of 1, or of 2^y − 1 for grades y."""
    discount_H = 1 / np.log2(1.0 + hits.rank_H)
    return _sum_per_query(hits, k, discount_H if hits.gains is None else hits.gains.gain_H * discount_H)


def ndcg(hits: Hits, k: int) -> FloatArray:
    """DCG divided by that of the best possible list (Järvelin and Kekäläinen, 2002)."""
    if hits.gains is not None:
        return dcg(hits, k) / _graded_ideal(hits.gains, hits.n_rows, k)
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2.0, k + 2)))])
    ideal_R: FloatArray = ideal[np.minimum(hits.relevant_R, k)]
    return dcg(hits, k) / ideal_R


def _graded_ideal(gains: Gains, n_rows: int, k: int) -> FloatArray:
    """DCG@K of relevant items in the order of their gains."""
    first_P = gains.ideal_rank_P <= k
    value_P = gains.ideal_gain_P[first_P] / np.log2(1.0 + gains.ideal_rank_P[first_P])
    return np.asarray(np.bincount(gains.ideal_row_P[first_P], value_P, minlength=n_rows), np.float64)


def recall(hits: Hits, k: int) -> FloatArray:
    """h / |T|: the fraction of the relevant items in the list."""
    return _count(hits, k) / hits.relevant_R


def pair_recall(hits: Hits, k: int) -> FloatArray:
    """Recall of pairs rather than queries, Σ_u h / Σ_u |T| (Tang et al., CROLoss, CIKM 2022, Eq. 5).

    The value of a query is h divided by the *mean* |T| of all queries, so that the mean of the values is the recall of
    pairs.
    """
    return _count(hits, k) / hits.relevant_R.mean() if hits.n_rows else np.empty(0)


def precision(hits: Hits, k: int) -> FloatArray:
    """h / K: the fraction of relevant items in the list."""
    return _count(hits, k) / k


def f1(hits: Hits, k: int) -> FloatArray:
    """Harmonic mean of precision and recall, 2h / (K + |T|)."""
    return 2 * _count(hits, k) / (k + hits.relevant_R)


def hit_rate(hits: Hits, k: int) -> FloatArray:
    """1 if the list has a relevant item, else 0."""
    return (_count(hits, k) > 0).astype(np.float64)


def mrr(hits: Hits, k: int) -> FloatArray:
    """1 / rank of the first hit, 0 if there is none among the first K."""
    row_F, rank_F = _first_rank(hits)
    value_R = np.zeros(hits.n_rows)
    value_R[row_F] = np.where(rank_F <= k, 1 / rank_F, 0.0)
    return value_R


def average_precision(hits: Hits, k: int) -> FloatArray:
    """Mean over min(K, |T|) of the precision at the rank of each hit; its mean over queries is MAP@K."""
    return _sum_per_query(hits, k, _order(hits) / hits.rank_H) / np.minimum(hits.relevant_R, k)


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
