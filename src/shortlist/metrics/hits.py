"""The ranks of relevant items in lists, from which metrics at K are computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shortlist.data import BoolArray, FloatArray, IntArray, Interactions
from shortlist.errors import InputError
from shortlist.ranking import Ranking, RowItems

_TABLE_CELLS = 2**24
"""Maximum cells of the lookup table (16 MB): lists are processed in chunks."""


@dataclass(frozen=True, eq=False)
class Gains:
    """Gains ``2^y − 1`` of graded items: of the hits, and of all relevant items, best first within each query."""

    gain_H: FloatArray
    ideal_row_P: IntArray
    ideal_rank_P: IntArray
    ideal_gain_P: FloatArray


@dataclass(frozen=True, eq=False)
class Hits:
    """The hits of R lists, ordered by list and rank.

    ``row_H`` is the list of each hit, ``rank_H`` its rank from 1, ``item_H`` the item; ``relevant_R`` is |T|, the
    number of relevant items of each query, in the list or not. ``gains`` is None unless items are graded.
    """

    row_H: IntArray
    rank_H: IntArray
    item_H: IntArray
    relevant_R: IntArray
    gains: Gains | None = None

    @property
    def n_rows(self) -> int:
        """Number of lists."""
        return len(self.relevant_R)

    def within(self, k: int) -> BoolArray:
        """Whether each hit is among the first K ranks."""
        return self.rank_H <= k


def find_hits(ranking: Ranking, truth: Interactions | RowItems) -> Hits:
    """Find the listed items that are in the truth.

    Only the first occurrence of an item in a list is a hit. A relevant item that was excluded from the list cannot be a
    hit but still counts in |T|.

    >>> truth = Interactions.from_pairs([0, 0, 1], [2, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> lists = Ranking(np.array([0, 1]), np.array([[1, 2], [0, -1]]), np.array([[0.9, 0.1], [0.5, -np.inf]]))
    >>> hits = find_hits(lists, truth)
    >>> hits.row_H.tolist(), hits.rank_H.tolist(), hits.relevant_R.tolist()
    ([0], [2], [2, 1])
    """
    rows = truth if isinstance(truth, RowItems) else RowItems.of(truth, ranking.queries_R)
    relevant_R = rows.counts()
    if not relevant_R.all():
        raise InputError("metrics: expected queries with at least one relevant item, received some with none")
    parts = list(_look_up(ranking, rows))
    row_H, place_H = (np.concatenate([part[side] for part in parts] or [np.empty(0, np.int64)]) for side in (0, 1))
    item_H = ranking.items_RK[row_H, place_H]
    first_H = np.sort(np.unique(row_H * rows.n_items + item_H, return_index=True)[1])
    row_H, place_H, item_H = row_H[first_H], place_H[first_H], item_H[first_H]
    return Hits(row_H, place_H + 1, item_H, relevant_R, _gains(rows, row_H, item_H))


def _look_up(ranking: Ranking, rows: RowItems) -> Iterator[tuple[IntArray, IntArray]]:
    """Row and position of every listed item that is in the truth, chunk by chunk."""
    n_rows = max(1, _TABLE_CELLS // (rows.n_items + 1))
    is_true_RI = np.zeros((min(n_rows, len(rows)), rows.n_items + 1), np.bool_)  # the last is for −1
    for start in range(0, len(rows), n_rows):
        pairs = rows.pairs_of(np.arange(start, min(start + n_rows, len(rows))))
        items_RK = ranking.items_RK[start : start + n_rows]
        is_true_RI[pairs] = True
        row_H, place_H = np.nonzero(is_true_RI[np.arange(len(items_RK))[:, None], items_RK])
        is_true_RI[pairs] = False
        yield row_H + start, place_H


def _gains(rows: RowItems, row_H: IntArray, item_H: IntArray) -> Gains | None:
    """The gains of hits and of ideal lists; None unless items are graded."""
    if rows.grades_P is None:
        return None
    row_P, place_P = rows.places_of(np.arange(len(rows)))
    item_P, gain_P = rows.items_P[place_P], np.exp2(rows.grades_P[place_P]) - 1
    key_P = row_P * rows.n_items + item_P
    by_key = np.argsort(key_P)
    found_H = by_key[np.searchsorted(key_P[by_key], row_H * rows.n_items + item_H)]
    best_first = np.lexsort((-gain_P, row_P))
    counts_R = rows.counts()
    rank_P = np.arange(len(row_P)) - np.repeat(np.cumsum(counts_R) - counts_R, counts_R) + 1
    return Gains(gain_P[found_H], row_P[best_first], rank_P, gain_P[best_first])
