"""Splits: which of a user's items a model learns from, and which it is asked for.

Every function gives the pair (what remains, what is held out), both with the users and items of what came in. Who is
held out depends on the interactions and the seed alone, never on the order of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shortlist.data.interactions import BoolArray, IntArray, Interactions
from shortlist.errors import InputError

Seed = int | Sequence[int]
ColdUsers = Literal["error", "drop"]


@dataclass(frozen=True)
class Split:
    """The parts of a data set; all have the same users and items."""

    train: Interactions
    valid: Interactions | None
    test: Interactions | None
    repeated_pairs: int = 0
    """Rows that named a pair of their table once more; they were merged into it."""


def hold_out_share(interactions: Interactions, share: float, seed: Seed) -> tuple[Interactions, Interactions]:
    """A random share of each user's items, rounded half up; at least one item of each user remains.

    >>> met = Interactions.from_pairs([0] * 10 + [1], [*range(10), 3], user_ids=["a", "b"], item_ids=range(10))
    >>> rest, held_out = hold_out_share(met, 0.2, seed=0)
    >>> rest.user_counts().tolist(), held_out.user_counts().tolist()
    ([8, 1], [2, 0])
    """
    if not 0 <= share < 1:
        raise InputError(f"hold_out_share.share: expected a number at least 0 and below 1, received {share!r}")
    counts_U = interactions.user_counts()
    wanted_U = np.floor(share * counts_U + 0.5).astype(np.int64)
    return _hold_out_random(interactions, np.minimum(wanted_U, counts_U - 1), seed)


def hold_out_irbenchmark(train: Interactions, seed: Seed) -> tuple[Interactions, Interactions]:
    """The validation rule of SL@K's authors: max(1, ⌊0.1·n⌋) random ones of a user's n training items.

    A user with a single item keeps it: the rule alone would leave nothing to learn from. (None of the authors' own
    splits of this protocol has such a user.)
    """
    counts_U = train.user_counts()
    return _hold_out_random(train, np.minimum(np.maximum(1, counts_U // 10), counts_U - 1), seed)


def leave_last(
    interactions: Interactions, n: int = 1, *, cold_users: ColdUsers = "error"
) -> tuple[Interactions, Interactions]:
    """Each user's last ``n`` items by time, those of one time in the order of their ids.

    Users with no more than ``n`` items are an error, or left out altogether if ``cold_users`` is ``"drop"``.
    """
    if n < 1:
        raise InputError(f"leave_last.n: expected a whole number at least 1, received {n!r}")
    times_P = _times(interactions, "leave_last")
    order = np.lexsort((times_P, interactions.users_of_pairs()))  # stable: ties stay in the order of ids
    from_end_P = interactions.indptr[1:].repeat(interactions.user_counts()) - np.arange(interactions.n_pairs)
    held_P = np.empty(interactions.n_pairs, bool)
    held_P[order] = from_end_P <= n
    return _divide(interactions, held_P, cold_users, f"leave_last: n {n}", "filter with a larger core")


def at_time(
    interactions: Interactions, time: int, *, cold_users: ColdUsers = "error"
) -> tuple[Interactions, Interactions]:
    """What happened at ``time`` or later, for all users at once.

    Users who came later are an error, or left out altogether if ``cold_users`` is ``"drop"``.
    """
    held_P = _times(interactions, "at_time") >= time
    if held_P.all() or not held_P.any():
        side = "later" if held_P.any() else "earlier"
        raise InputError(f"at_time: expected a time inside the table's, received one with every interaction {side}")
    return _divide(interactions, held_P, cold_users, f"at_time: time {time}", "choose a later time")


def _hold_out_random(interactions: Interactions, wanted_U: IntArray, seed: Seed) -> tuple[Interactions, Interactions]:
    """``wanted_U`` items of each user, drawn without replacement."""
    draw_P = np.random.default_rng(seed).random(interactions.n_pairs)
    users_P = interactions.users_of_pairs()
    order = np.lexsort((draw_P, users_P))
    place_P = np.arange(interactions.n_pairs) - interactions.indptr[users_P]  # within the user, in drawn order
    held_P = np.empty(interactions.n_pairs, bool)
    held_P[order] = place_P < wanted_U[users_P]
    return interactions.select(~held_P), interactions.select(held_P)


def _times(interactions: Interactions, owner: str) -> IntArray:
    if interactions.times is None:
        raise InputError(f"{owner}: expected interactions with a time, received a table without a time column")
    return interactions.times


def _divide(
    interactions: Interactions, held_P: BoolArray, cold_users: ColdUsers, owner: str, advice: str
) -> tuple[Interactions, Interactions]:
    """Take the held-out pairs away, and see to the users who would be left without training items."""
    rest = interactions.select(~held_P)
    cold_U = (rest.user_counts() == 0) & (interactions.user_counts() > 0)
    if cold_U.any() and cold_users == "error":
        first = interactions.user_ids[int(np.argmax(cold_U))]
        raise InputError(
            f"{owner}: expected every user to keep training items, received {int(cold_U.sum())} without, first "
            f"{first!r}; {advice}, or leave them out with cold_users drop"
        )
    return rest, interactions.select(held_P & ~cold_U[interactions.users_of_pairs()])
