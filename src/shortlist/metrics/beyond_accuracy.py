"""Beyond-accuracy metrics of the lists of all users: coverage, Gini and popularity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shortlist.data import IntArray
from shortlist.ranking import Ranking


def exposure(ranking: Ranking, k: int, n_items: int) -> IntArray:
    """The number of lists in which each item is among the first K."""
    items_RK = ranking.items_RK[:, :k]
    return np.bincount(items_RK[items_RK >= 0], minlength=n_items)


def coverage(ranking: Ranking, k: int, n_items: int) -> float:
    """The fraction of the catalogue that is in at least one list."""
    return float(np.count_nonzero(exposure(ranking, k, n_items)) / n_items)


def gini(ranking: Ranking, k: int, n_items: int) -> float:
    """The inequality of the items' exposure: 0 if all are equal, near 1 if one item has all.

    Σ_i (2i − n − 1) e_i / (n Σ_i e_i), with e the n items' exposures in ascending order; NaN if the lists are empty.

    >>> lists = Ranking(np.arange(2), np.array([[0, 1], [0, 1]]), np.zeros((2, 2)))
    >>> gini(lists, 2, n_items=2), gini(lists, 2, n_items=4), gini(lists, 1, n_items=4)
    (0.0, 0.5, 0.75)
    """
    ascending_I = np.sort(exposure(ranking, k, n_items))
    total = int(ascending_I.sum())
    weight_I = 2 * np.arange(1, n_items + 1) - n_items - 1
    return float(weight_I @ ascending_I / (n_items * total)) if total else float("nan")


def mean_popularity(ranking: Ranking, k: int, popularity_I: IntArray) -> float:
    """The mean popularity of the recommended items, over all filled ranks; NaN if the lists are empty."""
    exposure_I = exposure(ranking, k, len(popularity_I))
    total = int(exposure_I.sum())
    return float(exposure_I @ popularity_I / total) if total else float("nan")


def beyond_accuracy(ranking: Ranking, ks: Sequence[int], popularity_I: IntArray) -> dict[str, float]:
    """Coverage, Gini and mean popularity at each K, by name: ``coverage@20``."""
    n_items = len(popularity_I)
    return {
        **{f"coverage@{k}": coverage(ranking, k, n_items) for k in ks},
        **{f"gini@{k}": gini(ranking, k, n_items) for k in ks},
        **{f"popularity@{k}": mean_popularity(ranking, k, popularity_I) for k in ks},
    }
