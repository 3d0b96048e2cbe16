"""Events in chronological order, with repeats, times and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shortlist.errors import InputError

if TYPE_CHECKING:
    from shortlist.data.interactions import BoolArray, FloatArray, IntArray, Interactions


@dataclass(frozen=True, eq=False, repr=False)
class EventLog:
    """The rows of a source table as index arrays, in the table's order.

    Parts of a split share one log; :attr:`shortlist.data.Interactions.events` selects the events of a part.
    """

    users_E: IntArray
    items_E: IntArray
    times_E: IntArray | None = None
    weights_E: FloatArray | None = None

    def __post_init__(self) -> None:
        freeze(self.users_E, self.items_E, self.times_E, self.weights_E)

    def __len__(self) -> int:
        return len(self.users_E)

    def __repr__(self) -> str:
        return f"EventLog({len(self):,} events)"

    def select(self, keep_E: BoolArray) -> EventLog:
        """The selected events, in the same order."""
        return EventLog(
            self.users_E[keep_E],
            self.items_E[keep_E],
            None if self.times_E is None else self.times_E[keep_E],
            None if self.weights_E is None else self.weights_E[keep_E],
        )

    def restrict(self, keep_U: BoolArray, keep_I: BoolArray) -> EventLog:
        """The events of the selected users and items, with their new indices."""
        kept = self.select(keep_U[self.users_E] & keep_I[self.items_E])
        new_index_U, new_index_I = (np.cumsum(keep, dtype=np.int32) - 1 for keep in (keep_U, keep_I))
        return replace(kept, users_E=new_index_U[kept.users_E], items_E=new_index_I[kept.items_E])


@dataclass(frozen=True, eq=False, repr=False)
class Events:
    """Each user's events in chronological order, in CSR form.

    ``items[indptr[u]:indptr[u + 1]]`` are the items of user ``u``, first to last, with repeats. Events of the same
    time, or without times, are in the order of the source table.
    """

    indptr: IntArray
    items: IntArray
    times: IntArray | None = None
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        freeze(self.indptr, self.items, self.times, self.weights)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Events({len(self.indptr) - 1:,} users, {len(self):,} events)"

    def row(self, user: int) -> IntArray:
        """The items of one user, first to last."""
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def users_of_events(self) -> IntArray:
        """The user of every event, in the order of ``items``."""
        return np.repeat(np.arange(len(self.indptr) - 1, dtype=np.int32), np.diff(self.indptr))


def order_events(interactions: Interactions) -> Events:
    """The events of the pairs of ``interactions``: a stable sort of the log by user and time.

    Without a log the pairs are the events; those of the same time are in the order of their items.
    """
    log = interactions.log
    if log is None:
        users = interactions.users_of_pairs()
        log = EventLog(users, interactions.indices, interactions.times, interactions.weights)
    else:
        log = log.select(find_pairs(interactions, log.users_E, log.items_E) >= 0)
    order = np.lexsort((log.users_E,) if log.times_E is None else (log.times_E, log.users_E))
    counts_U = np.bincount(log.users_E, minlength=interactions.n_users)
    return Events(
        np.concatenate([[0], np.cumsum(counts_U)]).astype(np.int64),
        log.items_E[order],
        None if log.times_E is None else log.times_E[order],
        None if log.weights_E is None else log.weights_E[order],
    )


def find_pairs(interactions: Interactions, users_E: IntArray, items_E: IntArray) -> IntArray:
    """The position of each event's pair among the pairs of ``interactions``, or -1 where it is not one of them."""
    n_items = max(interactions.n_items, 1)
    key_P = interactions.users_of_pairs().astype(np.int64) * n_items + interactions.indices
    if not len(key_P):
        return np.full(len(users_E), -1)
    key_E = users_E.astype(np.int64) * n_items + items_E
    position_E = np.minimum(np.searchsorted(key_P, key_E), len(key_P) - 1)
    return np.where(key_P[position_E] == key_E, position_E, -1)


def last_event_of_pairs(interactions: Interactions) -> IntArray:
    """The position of each pair's last event in ``interactions.events``, which is sorted by user, then time."""
    events = interactions.events
    last_P = np.full(interactions.n_pairs, -1)
    pair_E = find_pairs(interactions, events.users_of_events(), events.items)
    np.maximum.at(last_P, pair_E, np.arange(len(pair_E)))
    return last_P


def index_array(
    values: Sequence[Any] | npt.NDArray[Any], dtype: type[np.generic], stop: int | None = None
) -> npt.NDArray[Any]:
    """A copy of the values that can be frozen; indices must be at least 0 and below ``stop``."""
    array = np.asarray(values)
    if stop is not None and len(array) and not 0 <= array.min() <= array.max() < stop:
        raise InputError(
            f"interactions: expected indices from 0 to {stop - 1}, received {array.min()} to {array.max()}"
        )
    if len(array) and np.issubdtype(dtype, np.integer) and array.dtype.kind not in "iub":
        raise InputError(f"interactions: expected whole numbers, received an array of {array.dtype}")
    if array.dtype == np.uint32 and dtype is np.int32 and not array.flags.writeable:
        return array.view(np.int32)  # checked above: all indices fit
    return array.astype(dtype, copy=array.flags.writeable)


def first_of_runs(sorted_values: npt.NDArray[Any]) -> BoolArray:
    """Whether each value differs from the one before it."""
    return np.concatenate([[True], sorted_values[1:] != sorted_values[:-1]])


def freeze(*arrays: npt.NDArray[Any] | None) -> None:
    """Make arrays read-only."""
    for array in arrays:
        if array is not None:
            array.flags.writeable = False
