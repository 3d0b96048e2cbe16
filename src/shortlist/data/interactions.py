"""Who met what: the one form in which interactions travel through the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from shortlist.errors import InputError

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Interactions:
    """Frozen user × item pairs in CSR form, with the ids that people know.

    ``indices[indptr[u]:indptr[u + 1]]`` are the items of user ``u``, ascending and without repeats. ``user_ids`` and
    ``item_ids`` are sorted: the order of indices is the order of ids. ``weights`` and ``times`` follow ``indices``.

    >>> met = Interactions.from_pairs([0, 0, 1], [2, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> met.n_users, met.n_items, met.n_pairs
    (2, 3, 3)
    >>> met.row(0).tolist()
    [0, 2]
    """

    indptr: IntArray
    indices: IntArray
    user_ids: pl.Series
    item_ids: pl.Series
    weights: FloatArray | None = None
    times: IntArray | None = None

    def __post_init__(self) -> None:
        for array in (self.indptr, self.indices, self.weights, self.times):
            if array is not None:
                array.flags.writeable = False

    @classmethod
    def from_pairs(
        cls,
        users: Sequence[int] | IntArray,
        items: Sequence[int] | IntArray,
        *,
        user_ids: Sequence[Any] | pl.Series,
        item_ids: Sequence[Any] | pl.Series,
        weights: FloatArray | None = None,
        times: IntArray | None = None,
    ) -> Interactions:
        """From pairs of indices in any order. Pairs must not repeat."""
        users_P, items_P = np.asarray(users, np.int64), np.asarray(items, np.int64)
        user_series, item_series = pl.Series("user_id", user_ids), pl.Series("item_id", item_ids)
        key_P = users_P * len(item_series) + items_P
        if not bool(np.all(key_P[1:] > key_P[:-1])):
            if weights is None and times is None:
                key_P = np.sort(key_P)  # several times faster than an order
                users_P, items_P = np.divmod(key_P, len(item_series))
            else:
                order = np.argsort(key_P, kind="stable")
                key_P, users_P, items_P = key_P[order], users_P[order], items_P[order]
                weights = None if weights is None else weights[order]
                times = None if times is None else times[order]
            if bool(np.any(key_P[1:] == key_P[:-1])):
                raise InputError("interactions: expected each (user, item) pair once, received repeated pairs")
        counts = np.bincount(users_P, minlength=len(user_series))
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(indptr, items_P.astype(np.int32), user_series, item_series, weights, times)

    @property
    def n_users(self) -> int:
        """Number of users, those without a pair included."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue, those without a pair included."""
        return len(self.item_ids)

    @property
    def n_pairs(self) -> int:
        """Number of (user, item) pairs."""
        return len(self.indices)

    def row(self, user: int) -> IntArray:
        """The items of one user, ascending."""
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    def user_counts(self) -> IntArray:
        """Items per user."""
        return np.diff(self.indptr)

    def item_counts(self) -> IntArray:
        """Users per item."""
        return np.bincount(self.indices, minlength=self.n_items)

    def users_of_pairs(self) -> IntArray:
        """The user of every pair, in the order of ``indices``."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.user_counts())

    def pairs_of(self, users: IntArray) -> tuple[IntArray, IntArray]:
        """Row number (a position in ``users``) and item of every pair of the given users."""
        row_P, pair_P = self.positions_of(users)
        return row_P, self.indices[pair_P]

    def positions_of(self, users: IntArray) -> tuple[IntArray, IntArray]:
        """Row number (a position in ``users``) and number among all pairs of every pair of the given users."""
        counts = self.indptr[users + 1] - self.indptr[users]
        row_P = np.repeat(np.arange(len(users)), counts)
        first_P = np.repeat(self.indptr[users] - (np.cumsum(counts) - counts), counts)
        return row_P, first_P + np.arange(len(row_P))

    def select(self, keep_P: BoolArray) -> Interactions:
        """The same users and items with only the pairs that are kept."""
        kept = np.concatenate([[0], np.cumsum(keep_P)])
        return replace(
            self,
            indptr=kept[self.indptr],
            indices=self.indices[keep_P],
            weights=None if self.weights is None else self.weights[keep_P],
            times=None if self.times is None else self.times[keep_P],
        )
