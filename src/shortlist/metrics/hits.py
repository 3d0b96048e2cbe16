"""Where the items that people took stand in their lists: all that metrics at K need to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shortlist.data import BoolArray, IntArray, Interactions
from shortlist.errors import InputError
from shortlist.ranking import Ranking

_TABLE_CELLS = 2**24
"""Cells of the lookup table at most (16 MB): users are taken in portions."""


@dataclass(frozen=True, eq=False)
class Hits:
    """The hits of R lists, ordered by list and rank.

    ``row_H`` is the list of each hit, ``rank_H`` its rank from 1, ``item_H`` the item; ``relevant_R`` is |T|, how many
    items each user took, found or not.
    """

    row_H: IntArray
    rank_H: IntArray
    item_H: IntArray
    relevant_R: IntArray

    @property
    def n_rows(self) -> int:
        """Number of lists."""
        return len(self.relevant_R)

    def within(self, k: int) -> BoolArray:
        """Which hits stand in the first K places."""
        return self.rank_H <= k


def find_hits(ranking: Ranking, truth: Interactions) -> Hits:
    """Look the listed items up in the truth.

    Only the first appearance of an item in a list can be a hit. An item that stands in the truth but was excluded from
    the list can never be one, and still counts in |T|.

    >>> truth = Interactions.from_pairs([0, 0, 1], [2, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> lists = Ranking(np.array([0, 1]), np.array([[1, 2], [0, -1]]), np.array([[0.9, 0.1], [0.5, -np.inf]]))
    >>> hits = find_hits(lists, truth)
    >>> hits.row_H.tolist(), hits.rank_H.tolist(), hits.relevant_R.tolist()
    ([0], [2], [2, 1])
    """
    relevant_R = truth.user_counts()[ranking.users_R]
    if not relevant_R.all():
        raise InputError("metrics: expected users with at least one item in the truth, received some with none")
    parts = list(_look_up(ranking, truth))
    row_H, place_H = (np.concatenate([part[side] for part in parts] or [np.empty(0, np.int64)]) for side in (0, 1))
    item_H = ranking.items_RK[row_H, place_H]
    first_H = np.sort(np.unique(row_H * truth.n_items + item_H, return_index=True)[1])
    return Hits(row_H[first_H], place_H[first_H] + 1, item_H[first_H], relevant_R)


def _look_up(ranking: Ranking, truth: Interactions) -> Iterator[tuple[IntArray, IntArray]]:
    """Row and place of every listed item that is in the truth, portion by portion."""
    n_rows = max(1, _TABLE_CELLS // (truth.n_items + 1))
    is_true_RI = np.zeros((min(n_rows, len(ranking.users_R)), truth.n_items + 1), np.bool_)  # the last is for places −1
    for start in range(0, len(ranking.users_R), n_rows):
        pairs = truth.pairs_of(ranking.users_R[start : start + n_rows])
        items_RK = ranking.items_RK[start : start + n_rows]
        is_true_RI[pairs] = True
        row_H, place_H = np.nonzero(is_true_RI[np.arange(len(items_RK))[:, None], items_RK])
        is_true_RI[pairs] = False
        yield row_H + start, place_H
