"""Paired significance tests of runs over their common users."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations

import numpy as np
import polars as pl
from scipy import stats

from shortlist.data import FloatArray
from shortlist.errors import InputError, unknown

SIGNIFICANCE = 0.05
"""Corrected p-values below this are significant and are marked."""


@dataclass(frozen=True)
class PairedTest:
    """The difference of the ``second`` run to the ``first`` over users; p-values are two-sided.

    ``effect`` is Cohen's d_z: the mean difference over the standard deviation of the differences. ``low`` and ``high``
    bound the mean difference (t interval). ``better`` and ``worse`` are the fractions of users for whom the second
    run's value is higher and lower. ``t_holm`` and ``wilcoxon_holm`` are corrected for the number of pairs of runs
    compared.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    effect: float
    better: float
    worse: float
    t: float
    wilcoxon: float
    t_holm: float = math.nan
    wilcoxon_holm: float = math.nan


@dataclass(frozen=True)
class Comparison:
    """Runs compared on one metric over their common ``users``; ``left_out`` counts users of some runs only."""

    metric: str
    users: int
    left_out: int
    level: float
    means: Mapping[str, float]
    pairs: Sequence[PairedTest]

    def to_frame(self) -> pl.DataFrame:
        """One row per pair of runs."""
        return pl.DataFrame([asdict(pair) for pair in self.pairs])


def compare(frames: Mapping[str, pl.DataFrame], metric: str, *, level: float = 0.95) -> Comparison:
    """Compare two or more runs by their values per user (``user_id`` and one column per metric, as saved by a run).

    Every pair of runs is tested with Student's paired t-test and Wilcoxon's signed-rank test (without users whose
    difference is 0), each corrected by Holm's method (1979).

    >>> users = list(range(6))
    >>> old = pl.DataFrame({"user_id": users, "ndcg@20": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]})
    >>> new = pl.DataFrame({"user_id": users, "ndcg@20": [0.2, 0.4, 0.3, 0.5, 0.8, 0.7]})
    >>> comparison = compare({"old": old, "new": new}, "ndcg@20")
    >>> pair = comparison.pairs[0]
    >>> comparison.users, round(pair.difference, 3), round(pair.better, 2), pair.worse, round(pair.t, 3)
    (6, 0.133, 0.83, 0.0, 0.025)
    """
    if len(frames) < 2:
        raise InputError(f"compare: expected at least two runs, received {len(frames)}")
    if not 0 < level < 1:
        raise InputError(f"compare.level: expected a number above 0 and below 1, received {level!r}")
    value_RU, n_seen = _align(frames, metric)
    n_users = value_RU.shape[1]
    if n_users < 2:
        raise InputError(f"compare: expected at least two users that all runs evaluated, received {n_users}")
    names = list(frames)
    tested = [
        PairedTest(names[a], names[b], **_test(value_RU[b] - value_RU[a], level))
        for a, b in combinations(range(len(names)), 2)
    ]
    t_holm, wilcoxon_holm = holm([pair.t for pair in tested]), holm([pair.wilcoxon for pair in tested])
    pairs = tuple(
        replace(pair, t_holm=t, wilcoxon_holm=wilcoxon)
        for pair, t, wilcoxon in zip(tested, t_holm, wilcoxon_holm, strict=True)
    )
    means = {name: float(value_U.mean()) for name, value_U in zip(names, value_RU, strict=True)}
    return Comparison(metric, n_users, n_seen - n_users, level, means, pairs)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m p-values times (m − i + 1), made non-decreasing, at most 1.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable").tolist()):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def _align(frames: Mapping[str, pl.DataFrame], metric: str) -> tuple[FloatArray, int]:
    """The values of the common users, one row per run, and the number of users of any run."""
    values = []
    for index, (name, frame) in enumerate(frames.items()):
        for column in ("user_id", metric):
            if column not in frame.columns:
                raise unknown(f"compare: run {name}", "column", column, frame.columns)
        if frame["user_id"].is_duplicated().any():
            raise InputError(f"compare: run {name}: expected each user once, received repeated users")
        values.append(frame.select("user_id", pl.col(metric).cast(pl.Float64).fill_nan(None).alias(f"value{index}")))
    joined = values[0]
    try:
        for other in values[1:]:
            joined = joined.join(other, on="user_id", how="full", coalesce=True)
    except pl.exceptions.PolarsError as error:
        raise InputError("compare: expected user ids of one type in all runs, received different types") from error
    complete = joined.drop_nulls().sort("user_id")
    return complete.drop("user_id").to_numpy().T, len(joined)


def _test(difference_U: FloatArray, level: float) -> dict[str, float]:
    n_users = len(difference_U)
    mean, deviation = float(difference_U.mean()), float(difference_U.std(ddof=1))
    error = deviation / math.sqrt(n_users)
    reach = float(stats.t.ppf((1 + level) / 2, n_users - 1)) * error
    return {
        "difference": mean,
        "low": mean - reach,
        "high": mean + reach,
        "effect": _ratio(mean, deviation),
        "better": float(np.mean(difference_U > 0)),
        "worse": float(np.mean(difference_U < 0)),
        "t": float(2 * stats.t.sf(abs(_ratio(mean, error)), n_users - 1)),
        "wilcoxon": float(stats.wilcoxon(difference_U).pvalue) if difference_U.any() else 1.0,
    }


def _ratio(mean: float, spread: float) -> float:
    """mean / spread; 0 if both are 0, infinite if only the spread is 0."""
    if spread > 0:
        return mean / spread
    return 0.0 if mean == 0 else math.copysign(math.inf, mean)
