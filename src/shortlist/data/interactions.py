"""Immutable CSR user-item interactions with external ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from shortlist.data.events import EventLog, Events, first_of_runs, freeze, index_array, order_events
from shortlist.errors import InputError

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Frozen user × item pairs in CSR form, with external ids.

    ``indices[indptr[u]:indptr[u + 1]]`` are the items of user ``u``, ascending and without repeats. ``user_ids`` and
    ``item_ids`` are sorted: the order of indices is the order of ids. ``weights`` and ``times`` are aligned with
    ``indices``. :attr:`events` has the order of the source table and its repeats.

    >>> interactions = Interactions.from_pairs([0, 0, 1], [2, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> interactions
    Interactions(2 users, 3 items, 3 pairs)
    >>> interactions.row(0).tolist()
    [0, 2]
    """

    indptr: IntArray
    indices: IntArray
    user_ids: pl.Series
    item_ids: pl.Series
    weights: FloatArray | None = None
    times: IntArray | None = None
    log: EventLog | None = None
    """The rows of the source table, stored if they have repeats or another order than the pairs."""

    def __post_init__(self) -> None:
        freeze(self.indptr, self.indices, self.weights, self.times)

    def __repr__(self) -> str:
        weights = "" if self.weights is None else f", weights {self.weights.min():g} to {self.weights.max():g}"
        return f"Interactions({self.n_users:,} users, {self.n_items:,} items, {self.n_pairs:,} pairs{weights})"

    def _repr_html_(self) -> str:
        from shortlist.data.display import describe_interactions, html_table

        return html_table("Interactions", describe_interactions(self))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str | None = None,
        item: str | None = None,
        weight: str | None = None,
        time: str | None = None,
        min_rating: float | None = None,
        core: int = 0,
    ) -> Interactions:
        """From a DataFrame of any library: pandas, polars (eager or lazy), an Arrow table, a DuckDB relation.

        Columns that are not given are inferred from usual names; ``"-"`` reads no weight or time. Rows with a weight
        below ``min_rating`` are dropped, repeated pairs are merged, then the ``core``-core is computed. Every value is
        checked; an error names the column and the position of the row, counted from 0.

        >>> frame = pl.DataFrame({"customer": ["ann", "bob", "ann"], "sku": [7, 7, 3], "date": ["2024-05-31"] * 3})
        >>> interactions = Interactions.from_frame(frame)
        >>> interactions.item_ids.gather(interactions.history(0)).to_list()
        [7, 3]
        >>> Interactions.from_frame(frame, user="client")
        Traceback (most recent call last):
        ...
        shortlist.errors.InputError: polars DataFrame: expected a column 'client' for the user, received the columns
        customer, sku, date
        """
        from shortlist.data.columns import Columns
        from shortlist.data.prepare import from_frame

        return from_frame(frame, Columns(user, item, weight, time), min_rating=min_rating, core=core)

    @classmethod
    def from_events(
        cls,
        users: Sequence[int] | IntArray,
        items: Sequence[int] | IntArray,
        *,
        user_ids: Sequence[Any] | pl.Series,
        item_ids: Sequence[Any] | pl.Series,
        weights: Sequence[float] | FloatArray | None = None,
        times: Sequence[int] | IntArray | None = None,
    ) -> Interactions:
        """From events as indices, in the order of their table; pairs may repeat.

        A repeated pair keeps its largest weight and last time. The events are stored as the :attr:`log`, unless they
        equal the pairs, each once and in order.

        >>> bought = Interactions.from_events([1, 0, 0, 0], [0, 1, 0, 1], user_ids=["a", "b"], item_ids=["x", "y"])
        >>> bought.row(0).tolist(), bought.history(0).tolist()
        ([0, 1], [1, 0, 1])
        """
        ids: dict[str, Any] = {"user_ids": pl.Series("user_id", user_ids), "item_ids": pl.Series("item_id", item_ids)}
        n_users, n_items = len(ids["user_ids"]), len(ids["item_ids"])
        log = EventLog(
            index_array(users, np.int32, n_users),
            index_array(items, np.int32, n_items),
            None if times is None else index_array(times, np.int64),
            None if weights is None else index_array(weights, np.float32),
        )
        lengths = {len(array) for array in (log.users_E, log.items_E, log.times_E, log.weights_E) if array is not None}
        if len(lengths) > 1:
            raise InputError(f"interactions: expected arrays of one length, received {sorted(lengths)}")
        key_E = log.users_E.astype(np.int64)  # in place: allocating memory costs more than the arithmetic
        key_E *= n_items
        key_E += log.items_E
        if bool(np.all(key_E[1:] > key_E[:-1])):
            return cls.from_pairs(log.users_E, log.items_E, weights=log.weights_E, times=log.times_E, **ids)
        weights_P = times_P = None
        if log.weights_E is None and log.times_E is None:
            key_E.sort()  # several times faster than argsort
            is_first_E = first_of_runs(key_E)
        else:
            order = np.argsort(key_E, kind="stable")
            key_E = key_E[order]
            is_first_E = first_of_runs(key_E)
            weights_P, times_P = (
                None if values_E is None else np.maximum.reduceat(values_E[order], np.flatnonzero(is_first_E))
                for values_E in (log.weights_E, log.times_E)
            )
        key_P = key_E[is_first_E]
        indptr = np.searchsorted(key_P, np.arange(n_users + 1) * n_items)
        key_P %= n_items
        return cls(indptr, key_P.astype(np.int32), weights=weights_P, times=times_P, log=log, **ids)

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
        """From pairs of indices; their order is not stored. Pairs must not repeat.

        If the order matters, or pairs repeat, use :meth:`from_events`.
        """
        users_P, items_P = np.asarray(users, np.int64), np.asarray(items, np.int64)
        user_series, item_series = pl.Series("user_id", user_ids), pl.Series("item_id", item_ids)
        key_P = users_P * len(item_series) + items_P
        if not bool(np.all(key_P[1:] > key_P[:-1])):
            if weights is None and times is None:
                key_P = np.sort(key_P)  # several times faster than argsort
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
        """Number of users, including those without pairs."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue, including those without pairs."""
        return len(self.item_ids)

    @property
    def n_pairs(self) -> int:
        """Number of (user, item) pairs."""
        return len(self.indices)

    def row(self, user: int) -> IntArray:
        """The items of one user, ascending."""
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    @cached_property
    def events(self) -> Events:
        """Each user's events in chronological order, repeats included: a stable sort by time.

        Events of the same time, or without times, are in the order of the source table. Without a :attr:`log`, the
        pairs are the events, sorted by time and then by item.
        """
        return order_events(self)

    def history(self, user: int) -> IntArray:
        """The items of one user in chronological order, repeats included."""
        return self.events.row(user)

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
        """For every pair of the given users, the position of its user in ``users``, and its item."""
        row_P, pair_P = self.positions_of(users)
        return row_P, self.indices[pair_P]

    def positions_of(self, users: IntArray) -> tuple[IntArray, IntArray]:
        """For every pair of the given users, the position of its user in ``users``, and its index among all pairs."""
        counts = self.indptr[users + 1] - self.indptr[users]
        row_P = np.repeat(np.arange(len(users)), counts)
        first_P = np.repeat(self.indptr[users] - (np.cumsum(counts) - counts), counts)
        return row_P, first_P + np.arange(len(row_P))

    def without_weights(self) -> Interactions:
        """The same pairs without weights."""
        return self if self.weights is None else replace(self, weights=None)

    def select(self, keep_P: BoolArray) -> Interactions:
        """The same users and items with the selected pairs only; the log is shared."""
        kept = np.concatenate([[0], np.cumsum(keep_P)])
        return replace(
            self,
            indptr=kept[self.indptr],
            indices=self.indices[keep_P],
            weights=None if self.weights is None else self.weights[keep_P],
            times=None if self.times is None else self.times[keep_P],
        )
