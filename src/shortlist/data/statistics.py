"""Statistics of a data set: sizes, distributions of activity and popularity, and irregularities of the split."""

from __future__ import annotations

from typing import Any

import numpy as np

from shortlist.data.display import time_range
from shortlist.data.interactions import FloatArray, IntArray, Interactions
from shortlist.data.splits import Split

QUANTILES = {"min": 0.0, "q10": 0.1, "q25": 0.25, "median": 0.5, "q75": 0.75, "q90": 0.9, "q99": 0.99, "max": 1.0}


def describe(split: Split) -> dict[str, Any]:
    """Statistics of a split, ready for JSON.

    ``interactions`` counts a pair once, also if it is in two parts; density, activity (items per user) and popularity
    (users per item) are based on these pairs. ``cold_test_items`` are items of test that are in neither train nor
    valid; ``test_pairs_in_train`` and ``test_pairs_in_valid`` count test pairs that are also in train or valid. Values
    of a missing part or time are ``None``.

    >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 0], user_ids=["a", "b"], item_ids=["x", "y", "z"])
    >>> test = Interactions.from_pairs([0], [2], user_ids=["a", "b"], item_ids=["x", "y", "z"])
    >>> facts = describe(Split(train, None, test))
    >>> facts["interactions"], facts["cold_test_items"], facts["users_without_test"]
    (4, 1, 1)
    """
    train, valid, test = split.train, split.valid, split.test
    parts = {"train": train, "valid": valid, "test": test}
    pairs_P = _distinct([train, valid, test])
    users, items = train.n_users, train.n_items
    activity_U = np.bincount(pairs_P // max(items, 1), minlength=users)
    popularity_I = np.bincount(pairs_P % max(items, 1), minlength=items)
    return {
        "users": users,
        "items": items,
        "interactions": len(pairs_P),
        "density": len(pairs_P) / max(users * items, 1),
        "parts": {name: None if part is None else part.n_pairs for name, part in parts.items()},
        "activity": _spread(activity_U),
        "popularity": _spread(popularity_I),
        "popularity_gini": gini(popularity_I),
        "repeated_pairs": split.repeated_pairs,
        "users_without_train": int((train.user_counts() == 0).sum()),
        "users_without_test": None if test is None else int((test.user_counts() == 0).sum()),
        "cold_test_items": None if test is None else _cold_items([train, valid], test),
        "test_pairs_in_train": _common(test, train),
        "test_pairs_in_valid": _common(test, valid),
        "time": time_range([part for part in parts.values() if part is not None]),
    }


def gini(counts: IntArray | FloatArray) -> float:
    """The Gini coefficient of counts: 0 if all are equal, near 1 if one has everything.

    G = 2·Σ_i i·x_i / (n·Σ_i x_i) − (n + 1)/n, with x ascending and i from 1.

    >>> gini(np.array([2, 2, 2, 2])), gini(np.array([0, 0, 0, 4]))
    (0.0, 0.75)
    """
    n, total = len(counts), float(counts.sum())
    if total == 0:
        return 0.0
    return float(2 * (np.arange(1, n + 1) * np.sort(counts)).sum() / (n * total) - (n + 1) / n)


def _keys(part: Interactions) -> IntArray:
    """A unique number for each pair, ascending."""
    return part.users_of_pairs().astype(np.int64) * part.n_items + part.indices


def _distinct(parts: list[Interactions | None]) -> IntArray:
    """The pairs of all parts, each once."""
    keys_P = np.sort(np.concatenate([_keys(part) for part in parts if part is not None]))
    return keys_P[np.diff(keys_P, prepend=-1) > 0]  # np.unique hashes, which is thirty times slower


def _common(part: Interactions | None, other: Interactions | None) -> int | None:
    """Number of pairs in both parts."""
    if part is None or other is None:
        return None
    return part.n_pairs + other.n_pairs - len(_distinct([part, other]))


def _cold_items(known: list[Interactions | None], test: Interactions) -> int:
    """Number of items of test that are in none of the known parts."""
    known_I = np.sum([part.item_counts() for part in known if part is not None], axis=0)
    return int(((test.item_counts() > 0) & (known_I == 0)).sum())


def _spread(counts: IntArray) -> dict[str, float]:
    """Mean and quantiles; a quantile is an observed count, without interpolation."""
    if not len(counts):
        return dict.fromkeys(["mean", *QUANTILES], 0)
    values = np.quantile(counts, list(QUANTILES.values()), method="inverted_cdf")
    return {"mean": float(counts.mean()), **{name: int(value) for name, value in zip(QUANTILES, values, strict=True)}}
