"""How sure a mean over users is: bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shortlist.data import FloatArray
from shortlist.errors import InputError


class Interval(NamedTuple):
    """Where the mean lies, at the level that was asked for."""

    low: float
    high: float


def bootstrap(
    per_user: Mapping[str, FloatArray], seed: int, *, level: float = 0.95, resamples: int = 1000
) -> dict[str, Interval]:
    """Percentile intervals of means (Efron, 1979): each resample draws as many users as there are, with replacement.

    All metrics see the same resamples. A user without a value (NaN) counts in none of that metric's means.

    >>> bootstrap({"recall@5": np.array([0.0, 1.0] * 50)}, seed=0)
    {'recall@5': Interval(low=0.4..., high=0.6...)}
    """
    if not 0 < level < 1:
        raise InputError(f"bootstrap.level: expected a number above 0 and below 1, received {level!r}")
    if not per_user:
        return {}
    value_RM = np.column_stack(list(per_user.values()))
    n_users = len(value_RM)
    if n_users == 0:
        return dict.fromkeys(per_user, Interval(float("nan"), float("nan")))
    has_RM = ~np.isnan(value_RM)
    value_RM = np.where(has_RM, value_RM, 0.0)
    generator = np.random.default_rng(seed)
    mean_BM = np.empty((resamples, value_RM.shape[1]))
    for resample in range(resamples):
        times_R = np.bincount(generator.integers(n_users, size=n_users), minlength=n_users).astype(np.float64)
        with np.errstate(invalid="ignore"):
            mean_BM[resample] = (times_R @ value_RM) / (times_R @ has_RM)
    tail = (1 - level) / 2
    low_M, high_M = np.nanquantile(mean_BM, [tail, 1 - tail], axis=0)
    return {name: Interval(float(low_M[m]), float(high_M[m])) for m, name in enumerate(per_user)}
