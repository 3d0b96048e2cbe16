"""The items of queries: relevant items and excluded items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shortlist.data import FloatArray, IntArray, Interactions
from shortlist.errors import InputError


@dataclass(frozen=True, eq=False)
class RowItems:
    """A set of items for each of R queries, optionally graded, in CSR form.

    Query r has the items of row ``row_R[r]``: ``items_P[indptr[row]:indptr[row + 1]]``. Several queries can share a
    row.

    >>> rows = RowItems.of_lists([[4, 2], [], [3]], n_items=5)
    >>> rows.counts().tolist(), [part.tolist() for part in rows.pairs_of(np.array([2, 0]))]
    ([2, 0, 1], [[0, 1, 1], [3, 4, 2]])
    """

    indptr: IntArray
    items_P: IntArray
    row_R: IntArray
    n_items: int
    grades_P: FloatArray | None = None
    """The grade of each item; None for binary relevance."""

    @classmethod
    def of(cls, interactions: Interactions, users_R: IntArray) -> RowItems:
        """The items of the given users, one query per user."""
        return cls(interactions.indptr, interactions.indices, users_R, interactions.n_items)

    @classmethod
    def of_lists(
        cls, items: Sequence[Sequence[int]], n_items: int, grades: Sequence[Sequence[float]] | None = None
    ) -> RowItems:
        """One list of items per query; graded items are kept if their grade is above 0."""
        counts_R = [len(row) for row in items]
        items_P = np.array([item for row in items for item in row], np.int64)
        grades_P = None if grades is None else np.array([grade for row in grades for grade in row], np.float64)
        if grades_P is not None:
            if len(grades_P) != len(items_P):
                raise InputError(f"grades: expected one for each of {len(items_P)} items, received {len(grades_P)}")
            row_P = np.repeat(np.arange(len(items)), counts_R)[grades_P > 0]
            items_P, grades_P = items_P[grades_P > 0], grades_P[grades_P > 0]
            counts_R = np.bincount(row_P, minlength=len(items)).tolist()
        indptr = np.concatenate([[0], np.cumsum(counts_R)]).astype(np.int64)
        return cls(indptr, items_P, np.arange(len(items)), n_items, grades_P)

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.row_R)

    def counts(self) -> IntArray:
        """Number of items of each query."""
        return self.indptr[self.row_R + 1] - self.indptr[self.row_R]

    def pairs_of(self, queries: IntArray) -> tuple[IntArray, IntArray]:
        """For every item of the given queries, the position of its query in ``queries``, and the item."""
        place_P, pair_P = self.places_of(queries)
        return place_P, self.items_P[pair_P]

    def places_of(self, queries: IntArray) -> tuple[IntArray, IntArray]:
        """For each item of the given queries, the position of its query in ``queries`` and its index in ``items_P``."""
        row = self.row_R[queries]
        counts = self.indptr[row + 1] - self.indptr[row]
        place_P = np.repeat(np.arange(len(row)), counts)
        first_P = np.repeat(self.indptr[row] - (np.cumsum(counts) - counts), counts)
        return place_P, first_P + np.arange(len(place_P))


Excluded = Interactions | RowItems | Sequence[Interactions | RowItems] | None
"""Items to exclude from lists: interactions, if queries are indices of users, or the items of each query."""


def excluded_rows(exclude: Excluded, queries: object) -> tuple[RowItems, ...]:
    """The excluded items of each query; for interactions, queries are indices of users."""
    if exclude is None:
        return ()
    parts = (exclude,) if isinstance(exclude, Interactions | RowItems) else tuple(exclude)
    return tuple(part if isinstance(part, RowItems) else RowItems.of(part, np.asarray(queries)) for part in parts)
