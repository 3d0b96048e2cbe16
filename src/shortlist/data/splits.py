"""Splits of interactions into training, validation and test parts.

Every function returns the pair (remaining, held out), both with the users and items of the input. Random splits depend
only on the pairs and the seed, not on the order of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from shortlist.data.events import last_event_of_pairs
from shortlist.data.interactions import BoolArray, IntArray, Interactions
from shortlist.errors import InputError

Seed = int | Sequence[int]
ColdUsers = Literal["error", "drop"]
Protocol = Literal["shortlist", "irbenchmark"]
PROTOCOLS = ("shortlist", "irbenchmark")


@dataclass(frozen=True, repr=False)
class Split:
    """The parts of a data set; all have the same users and items.

    >>> part = Interactions.from_pairs([0, 1], [0, 1], user_ids=["a", "b"], item_ids=["x", "y"])
    >>> Split(part, None, part)
    Split(2 users, 2 items; pairs: train 2, test 2; protocol shortlist)
    """

    train: Interactions
    valid: Interactions | None
    test: Interactions | None
    repeated_pairs: int = 0
    """Rows that repeated a pair of their table; they were merged."""
    protocol: Protocol = "shortlist"
    """The evaluation protocol: which items are excluded from the lists at test (:meth:`exclusions`)."""

    frame_library: str = "polars"
    """The narwhals name of the input frame's library; ``"polars"`` for files."""

    notes: tuple[str, ...] = ()
    """What people should know about how the data was read and split, a line each: skipped rows, dropped users."""

    origin: Mapping[str, Any] = field(default_factory=dict)
    """The source of the data and how it was read and split: the section ``data`` of a run's configuration."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise InputError(f"Split.protocol: expected {' or '.join(PROTOCOLS)}, received {self.protocol!r}")

    def exclusions(self, part: Literal["valid", "test"]) -> tuple[Interactions, ...]:
        """The parts whose pairs are excluded from the lists when a model is evaluated on ``part``.

        Validation excludes the items of training; test those of training and validation, or only those of training
        under the protocol of SL@K's authors, ``irbenchmark``.
        """
        if part not in ("valid", "test"):
            raise InputError(f"Split.exclusions: expected valid or test, received {part!r}")
        if part == "valid" or self.valid is None or self.protocol == "irbenchmark":
            return (self.train,)
        return (self.train, self.valid)

    def whole(self) -> Interactions:
        """The events of all parts together, with the same users and items; times where every part has them.

        >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["a", "b"], item_ids=["x", "y"])
        >>> test = Interactions.from_pairs([0], [1], user_ids=["a", "b"], item_ids=["x", "y"])
        >>> Split(train, None, test).whole()
        Interactions(2 users, 2 items, 3 pairs)
        """
        parts = [part for part in (self.train, self.valid, self.test) if part is not None and part.n_pairs]
        if len(parts) == 1:
            return parts[0]
        events = [part.events for part in parts]
        users_E, items_E = (
            np.concatenate([part.users_of_events() for part in events]),
            np.concatenate([part.items for part in events]),
        )
        times = [part.times for part in events if part.times is not None]
        times_E = np.concatenate(times) if len(times) == len(events) else None
        weights_E = None
        if self.train.weights is not None:
            ones = (np.ones(len(part), np.float32) if part.weights is None else part.weights for part in events)
            weights_E = np.concatenate(list(ones))
        if all(part.log is None for part in parts):  # the pairs say everything, in their own order
            order = np.lexsort((items_E, users_E))
            users_E, items_E = users_E[order], items_E[order]
            times_E, weights_E = (None if values is None else values[order] for values in (times_E, weights_E))
        ids = {"user_ids": self.train.user_ids, "item_ids": self.train.item_ids}
        return Interactions.from_events(users_E, items_E, times=times_E, weights=weights_E, **ids)

    def __repr__(self) -> str:
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        sizes = ", ".join(f"{name} {part.n_pairs:,}" for name, part in parts.items() if part is not None)
        head = f"{self.train.n_users:,} users, {self.train.n_items:,} items"
        return f"Split({head}; pairs: {sizes}; protocol {self.protocol})"

    def _repr_html_(self) -> str:
        from shortlist.data.display import describe_split, html_table

        return html_table("Split", describe_split(self))


def hold_out_share(interactions: Interactions, share: float, seed: Seed) -> tuple[Interactions, Interactions]:
    """Hold out a random fraction of each user's items, rounded half up; at least one item of each user remains.

    >>> interactions = Interactions.from_pairs([0] * 10 + [1], [*range(10), 3], user_ids=["a", "b"], item_ids=range(10))
    >>> rest, held_out = hold_out_share(interactions, 0.2, seed=0)
    >>> rest.user_counts().tolist(), held_out.user_counts().tolist()
    ([8, 1], [2, 0])
    """
    if not 0 <= share < 1:
        raise InputError(f"hold_out_share.share: expected a number at least 0 and below 1, received {share!r}")
    counts_U = interactions.user_counts()
    wanted_U = np.floor(share * counts_U + 0.5).astype(np.int64)
    return _hold_out_random(interactions, np.minimum(wanted_U, counts_U - 1), seed)


def hold_out_irbenchmark(train: Interactions, seed: Seed) -> tuple[Interactions, Interactions]:
    """The validation rule of SL@K's authors: max(1, ⌊0.1·n⌋) random items of a user's n training items.

    A user with a single item keeps it, unlike in the rule, which would leave no training items. (None of the authors'
    splits of this protocol has such a user.)
    """
    counts_U = train.user_counts()
    return _hold_out_random(train, np.minimum(np.maximum(1, counts_U // 10), counts_U - 1), seed)


def leave_last(
    interactions: Interactions, n: int = 1, *, cold_users: ColdUsers = "error"
) -> tuple[Interactions, Interactions]:
    """Each user's last ``n`` items by time, with ties in the order of the source table.

    A repeated pair has the time of its last event. Without a log, ties are in the order of the item ids. Users with at
    most ``n`` items are an error, or are dropped if ``cold_users`` is ``"drop"``.
    """
    if n < 1:
        raise InputError(f"leave_last.n: expected a whole number at least 1, received {n!r}")
    _times(interactions, "leave_last")
    order = np.argsort(last_event_of_pairs(interactions))  # events are sorted by user, then time
    from_end_P = interactions.indptr[1:].repeat(interactions.user_counts()) - np.arange(interactions.n_pairs)
    held_out_P = np.empty(interactions.n_pairs, bool)
    held_out_P[order] = from_end_P <= n
    return _divide(interactions, held_out_P, cold_users, f"leave_last: n {n}", "filter with a larger core")


def at_time(
    interactions: Interactions, time: int, *, cold_users: ColdUsers = "error"
) -> tuple[Interactions, Interactions]:
    """The interactions at ``time`` or later, with one time for all users.

    Users without earlier interactions are an error, or are dropped if ``cold_users`` is ``"drop"``.
    """
    held_out_P = _times(interactions, "at_time") >= time
    if held_out_P.all() or not held_out_P.any():
        side = "later" if held_out_P.any() else "earlier"
        raise InputError(f"at_time: expected a time inside the table's, received one with every interaction {side}")
    return _divide(interactions, held_out_P, cold_users, f"at_time: time {time}", "choose a later time")


def last_share(
    interactions: Interactions, share: float, *, cold_users: ColdUsers = "error"
) -> tuple[Interactions, Interactions]:
    """The last ``share`` of all interactions by time; those of one time are held out together.

    Users without earlier items are an error, or left out altogether if ``cold_users`` is ``"drop"``.
    """
    if not 0 < share < 1:
        raise InputError(f"last_share.share: expected a number above 0 and below 1, received {share!r}")
    times = np.sort(_times(interactions, "last_share"))
    first = times[len(times) - max(1, int(share * len(times) + 0.5))]
    if first == times[0]:  # so many of one time that nothing would remain
        later = times[times > first]
        if not len(later):
            raise InputError("last_share: expected interactions of several times, received one time only")
        first = later[0]
    return at_time(interactions, int(first), cold_users=cold_users)


def _hold_out_random(interactions: Interactions, wanted_U: IntArray, seed: Seed) -> tuple[Interactions, Interactions]:
    """``wanted_U`` items of each user, drawn without replacement."""
    draw_P = np.random.default_rng(seed).random(interactions.n_pairs)
    users_P = interactions.users_of_pairs()
    order = np.lexsort((draw_P, users_P))
    place_P = np.arange(interactions.n_pairs) - interactions.indptr[users_P]  # within the user, in drawn order
    held_out_P = np.empty(interactions.n_pairs, bool)
    held_out_P[order] = place_P < wanted_U[users_P]
    return interactions.select(~held_out_P), interactions.select(held_out_P)


def _times(interactions: Interactions, owner: str) -> IntArray:
    if interactions.times is None:
        raise InputError(f"{owner}: expected interactions with a time, received a table without a time column")
    return interactions.times


def _divide(
    interactions: Interactions, held_out_P: BoolArray, cold_users: ColdUsers, owner: str, advice: str
) -> tuple[Interactions, Interactions]:
    """Separate the held-out pairs, and handle users who would have no training items left."""
    rest = interactions.select(~held_out_P)
    cold_U = (rest.user_counts() == 0) & (interactions.user_counts() > 0)
    if cold_U.any() and cold_users == "error":
        first = interactions.user_ids[int(np.argmax(cold_U))]
        raise InputError(
            f"{owner}: expected every user to keep training items, received {int(cold_U.sum())} without, first "
            f"{first!r}; {advice}, or drop them with cold_users drop"
        )
    return rest, interactions.select(held_out_P & ~cold_U[interactions.users_of_pairs()])


def training_part(data: Interactions | Split) -> Interactions:
    """The training interactions: those of train if a split is given."""
    return data.train if isinstance(data, Split) else data
