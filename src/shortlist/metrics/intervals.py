"""Bootstrap confidence intervals of means over users."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shortlist.data import FloatArray
from shortlist.errors import InputError

_PORTION = 50
"""Resamples per matrix product."""


class Interval(NamedTuple):
    """The confidence interval of a mean."""

    low: float
    high: float


def bootstrap(
    per_user: Mapping[str, FloatArray], seed: int, *, level: float = 0.95, resamples: int = 1000
) -> dict[str, Interval]:
    """Percentile intervals of means (Efron, 1979): each resample draws n of n users with replacement.

    All metrics use the same resamples. A user without a value (NaN) is not included in that metric's means.

    >>> bootstrap({"recall@5": np.array([0.0, 1.0] * 50)}, seed=0)
    {'recall@5': Interval(low=0.4..., high=0.6...)}
    """
    if not 0 < level < 1:
        raise InputError(f"bootstrap.level: expected a number above 0 and below 1, received {level!r}")
    if not per_user:
        return {}
    value_RM = np.column_stack(list(per_user.values()))
    if len(value_RM) == 0:
        return dict.fromkeys(per_user, Interval(math.nan, math.nan))
    has_RM = (~np.isnan(value_RM)).astype(np.float64)
    value_RM = np.nan_to_num(value_RM, nan=0.0)
    generator = np.random.default_rng(seed)
    means = []
    for start in range(0, resamples, _PORTION):
        times_BR = _draw(generator, min(_PORTION, resamples - start), len(value_RM))
        with np.errstate(invalid="ignore"):
            means.append((times_BR @ value_RM) / (times_BR @ has_RM))
    tail = (1 - level) / 2
    low_M, high_M = np.nanquantile(np.concatenate(means), [tail, 1 - tail], axis=0)
    return {name: Interval(float(low_M[m]), float(high_M[m])) for m, name in enumerate(per_user)}


def _draw(generator: np.random.Generator, resamples: int, n_users: int) -> FloatArray:
    """The number of times each user is drawn, one row per resample."""
    drawn_BR = generator.integers(n_users, size=(resamples, n_users))
    return np.stack([np.bincount(drawn_R, minlength=n_users) for drawn_R in drawn_BR]).astype(np.float64)
