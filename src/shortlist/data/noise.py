"""False positives, for robustness experiments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shortlist.data.interactions import Interactions
from shortlist.data.splits import Seed
from shortlist.errors import InputError


def flip_negatives(
    train: Interactions, ratio: float, seed: Seed, *, avoid: Sequence[Interactions] = ()
) -> Interactions:
    """Flip ⌈ratio·P_u⌉ random negatives of each user with P_u positives to positives, or all if there are fewer.

    A negative is an item that the user has neither in ``train`` nor in any part of ``avoid``. The new pairs have no
    weight and no time, so the result has no weights, times or log.

    >>> interactions = Interactions.from_pairs([0, 0, 0, 1], [0, 1, 2, 4], user_ids=["a", "b"], item_ids=range(6))
    >>> flip_negatives(interactions, 0.5, seed=0).user_counts().tolist()
    [5, 2]
    """
    if not ratio >= 0:
        raise InputError(f"flip_negatives.ratio: expected a number at least 0, received {ratio!r}")
    generator = np.random.default_rng(seed)
    wanted_U = np.ceil(ratio * train.user_counts() - 1e-9).astype(np.int64)  # tolerance for rounding: 0.1 · 30 is 3
    flipped = []
    for user, wanted in enumerate(wanted_U):
        positives = train.row(user)
        for other in avoid:
            positives = np.union1d(positives, other.row(user))
        n_negatives = train.n_items - len(positives)
        nth = generator.choice(n_negatives, min(int(wanted), n_negatives), replace=False)
        negatives_before = positives - np.arange(len(positives))
        flipped.append(nth + np.searchsorted(negatives_before, nth, side="right"))  # the item of the nth negative
    new_users = np.repeat(np.arange(train.n_users), [len(items) for items in flipped])
    users_P = np.concatenate([train.users_of_pairs(), new_users])
    items_P = np.concatenate([train.indices, *flipped])
    return Interactions.from_pairs(users_P, items_P, user_ids=train.user_ids, item_ids=train.item_ids)
