"""Metrics of a model: means by name, with intervals and values per user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from shortlist.api.html import html_table
from shortlist.data import Split
from shortlist.errors import InputError, unknown
from shortlist.metrics import Evaluation, Interval
from shortlist.ranking import Scorer
from shortlist.tasks import Part, Task, evaluate_task, task_of


class Metrics(Mapping[str, float]):
    """Means of metrics by name, such as ``ndcg@20``.

    ``per_user`` is a table with the value of every user; ``intervals`` are 95 % bootstrap intervals of the means.
    """

    def __init__(self, means: Mapping[str, float], evaluation: Evaluation, task: Task, part: str) -> None:
        self._means, self._evaluation, self._task, self.part = dict(means), evaluation, task, part

    def __getitem__(self, name: str) -> float:
        if name not in self._means:
            raise unknown("metrics", "name", name, self._means)
        return self._means[name]

    def __contains__(self, name: object) -> bool:
        return name in self._means

    def __iter__(self) -> Iterator[str]:
        return iter(self._means)

    def __len__(self) -> int:
        return len(self._means)

    @property
    def n_users(self) -> int:
        """Number of evaluated users, or other queries."""
        return len(self._evaluation.queries_R)

    @property
    def n_skipped(self) -> int:
        """Number of queries without relevant items in the part, which were skipped."""
        return self._evaluation.n_skipped

    @cached_property
    def per_user(self) -> pl.DataFrame:
        """The values per user, or other query: its id and one column per metric."""
        return self._evaluation.to_frame(self._task.query_ids)

    @cached_property
    def intervals(self) -> Mapping[str, Interval]:
        """95 % bootstrap intervals of the means over users."""
        return self._evaluation.intervals(seed=0)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {self[name]:.4f}" for name in self._main())
        return f"Metrics({self.part}: {shown}; {self.n_users:,} {self._task.queries})"

    def _repr_html_(self) -> str:
        rows = [(name, f"{self[name]:.4f}", "{:.4f} – {:.4f}".format(*self.intervals[name])) for name in self._main()]
        caption = f"{self.part}: {self.n_users:,} {self._task.queries} ({self.n_skipped:,} left out)"
        return html_table(["metric", "mean", "95 % interval"], rows, caption)

    def _main(self) -> list[str]:
        return [name for name in self._means if name.split("@")[0] in ("ndcg", "recall", "hit_rate", "mrr")]


def evaluate(
    model: Scorer, data: Split | Task, *, ks: Sequence[int] | None = None, part: Part = "test", pairwise: bool = False
) -> Metrics:
    """Evaluate any scorer on the test part of a split, or on ``valid``.

    Full-catalogue ranking; lists leave out what the split's protocol excludes. ``pairwise`` adds AUC and its partial
    forms.

    >>> from shortlist.data import load
    >>> from shortlist.models import Popularity
    >>> split = load("debian", seed=0)
    >>> round(evaluate(Popularity().fit(split), split)["ndcg@20"], 4)
    0.2239
    """
    task = task_of(data)
    found = evaluate_task(model, task, ks=ks, pairwise=pairwise)
    return metrics_of(found.test if part == "test" else found.valid, found.beyond_accuracy, task, part)


def metrics_of(evaluation: Evaluation | None, beyond: Mapping[str, Any], task: Task, part: Part) -> Metrics:
    """The metrics of an evaluation; an error where the part is missing or empty."""
    if evaluation is None:
        raise InputError(f"evaluate: expected data with the part {part}, received data without it")
    extra = beyond if part == "test" else {}
    return Metrics({**evaluation.means(), **extra}, evaluation, task, part)
