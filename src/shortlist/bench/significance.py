"""Paired significance tests over users between the best of a group and the others, corrected for their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from shortlist.metrics import compare, holm
from shortlist.runs import Run

Seeds = Mapping[int, Run]
"""The runs of a place by seed."""


def p_values(best: Seeds, others: Sequence[Seeds], metric: str) -> list[float | None]:
    """p-values of Student's paired t over users, of the best against each other, with Holm's correction.

    None where undefined. A user's value is the mean over the seeds that both have: the test is about other users, not
    about other seeds.
    """
    raw = [_p(best, other, metric) for other in others]
    corrected = iter(holm([p for p in raw if p is not None]))
    return [None if p is None else next(corrected) for p in raw]


def _p(best: Seeds, other: Seeds, metric: str) -> float | None:
    seeds = sorted(best.keys() & other.keys())
    if not seeds:
        return None
    frames = {name: _by_user([runs[seed] for seed in seeds], metric) for name, runs in (("a", best), ("b", other))}
    both = frames["a"].drop_nulls().join(frames["b"].drop_nulls(), on="user_id", how="semi")
    return compare(frames, metric).pairs[0].t if len(both) > 1 else None


def _by_user(runs: Sequence[Run], metric: str) -> pl.DataFrame:
    """The mean of each user over seeds."""
    frames = [run.per_user.select("user_id", pl.col(metric).fill_nan(None)) for run in runs]
    return pl.concat(frames).group_by("user_id").agg(pl.col(metric).mean())
