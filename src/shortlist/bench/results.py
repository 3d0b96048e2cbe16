"""Results of a grid: a row for each place and metric, with published values, the best and its significance."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shortlist.bench.cells import Cell
from shortlist.bench.published import Published
from shortlist.bench.runner import Failure, Result
from shortlist.bench.significance import p_values
from shortlist.bench.spec import Spec, label_of
from shortlist.formatting import format_number, format_p
from shortlist.metrics import SIGNIFICANCE
from shortlist.runs import Run

HEAD = ("dataset", "model", "loss", "metric", "published", "measured", "deviation", "ratio", "p", "valid",
        "seeds", "seconds")  # fmt: skip
NUMBERS = HEAD[4:]
MEASURED = HEAD.index("measured")


@dataclass(frozen=True)
class Row:
    """One metric of one place: values by seed, and the published value if there is one."""

    dataset: str
    model: str
    loss: str
    variant: str
    metric: str
    published: float | None
    values: Mapping[int, float]
    seconds: float | None
    failures: Mapping[int, str] = field(default_factory=dict)
    """The reasons of failed seeds."""
    validation: Mapping[int, float] = field(default_factory=dict)
    """The metric on validation by seed, of the epoch that was kept."""
    p: float | None = None
    is_best: bool = False
    is_best_baseline: bool = False
    is_sure: bool = False
    """Whether the row is significantly better than every other."""
    versions: tuple[str, ...] = ()
    """The versions of the library that trained the seeds."""

    @property
    def label(self) -> str:
        """The loss with its variant."""
        return label_of(self.loss, self.variant)

    @property
    def place(self) -> str:
        """Position in the grid, as text."""
        return " ".join(word for word in (self.dataset, self.model, self.label) if word)

    @property
    def measured(self) -> float | None:
        """The mean over seeds."""
        return statistics.mean(self.values.values()) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def ratio(self) -> float | None:
        """Measured over published."""
        return None if self.measured is None or not self.published else self.measured / self.published

    @property
    def valid(self) -> float | None:
        """The mean over seeds on validation."""
        return statistics.mean(self.validation.values()) if self.validation else None

    @property
    def failed(self) -> int:
        """Number of failed seeds."""
        return len(self.failures)

    @property
    def reasons(self) -> dict[str, list[int]]:
        """The failed seeds by reason, each reason as one line.

        >>> Row("health", "mf", "sl", "", "ndcg@20", None, {}, 0.0, {0: "it fell", 1: "no room", 2: "it fell"}).reasons
        {'it fell': [0, 2], 'no room': [1]}
        """
        found: dict[str, list[int]] = {}
        for seed, reason in self.failures.items():
            found.setdefault(" ".join(reason.split()), []).append(seed)
        return found

    def texts(self) -> list[str]:
        """The cells of the row as text, one for each of :data:`HEAD`."""
        measured = format_number(self.measured) or ("failed" if self.failed else "")
        failed = f" ({self.failed} failed)" if self.failed else ""
        return [
            self.dataset,
            self.model,
            self.label,
            self.metric,
            format_number(self.published),
            measured + ("*" if self.is_sure else ""),
            format_number(self.deviation),
            format_number(self.ratio, 3),
            format_p(self.p),
            format_number(self.valid),
            f"{len(self.values)}{failed}",
            format_number(self.seconds, 1),
        ]

    def as_json(self) -> dict[str, Any]:
        """The row as JSON."""
        names = ("dataset", "model", "loss", "variant", "metric", "published", "measured", "deviation", "ratio", "p",
                 "valid", "is_best", "is_best_baseline", "is_sure", "seconds", "failed")  # fmt: skip
        lists = {"failures": dict(self.failures), "values": dict(self.values), "versions": list(self.versions)}
        return {**{name: getattr(self, name) for name in names}, **lists}


def published_figures(spec: Spec) -> Callable[[Cell, str], float | None]:
    """A function that looks up the published value of a cell and a metric."""
    if spec.published is None:
        return lambda cell, metric: None
    figures, table = spec.published, Published(spec.published.table, spec.published.where)

    def figure(cell: Cell, metric: str) -> float | None:
        columns = figures.columns(*cell.place)
        return table.value({name: text for name, text in columns.items() if name in table.columns}, metric)

    return figure


def summarise(spec: Spec, results: Mapping[Cell, Result]) -> list[Row]:
    """The rows in the order of the grid; places without results are left out."""
    published = published_figures(spec)
    places: dict[tuple[str, ...], list[Cell]] = {}
    for cell in results:
        places.setdefault(cell.place, []).append(cell)
    rows: list[Row] = []
    peers: dict[tuple[str, ...], list[tuple[Row, tuple[str, ...]]]] = {}
    for place, found in places.items():
        for metric in spec.metrics:
            row = _row(metric, published(found[0], metric), {cell: results[cell] for cell in found})
            rows.append(row)
            data = json.dumps(found[0].settings.get("data", {}), sort_keys=True)
            key = found[0].dataset, found[0].model if found[0].loss else "", data, metric
            peers.setdefault(key, []).append((row, place))
    runs = {place: _runs(results, found) for place, found in places.items()}
    marked = {id(row): new for group in peers.values() for row, new in _marked(group, runs, spec.ours)}
    return [marked[id(row)] for row in rows]


def _runs(results: Mapping[Cell, Result], found: Sequence[Cell]) -> dict[int, Run]:
    return {cell.seed: result for cell in found if isinstance(result := results[cell], Run)}


def _row(metric: str, published: float | None, results: Mapping[Cell, Result]) -> Row:
    runs = _runs(results, list(results))

    def by_seed(part: str) -> dict[int, float]:
        values = {seed: run.metrics.get(part, {}).get(metric) for seed, run in runs.items()}
        return {seed: value for seed, value in values.items() if value is not None}

    seconds = statistics.mean(run.metrics["seconds"]["train"] for run in runs.values()) if runs else None
    return Row(
        *next(iter(results)).place,
        metric,
        published,
        by_seed("test"),
        seconds,
        {cell.seed: each.reason for cell, each in results.items() if isinstance(each, Failure)},
        by_seed("valid"),
        versions=tuple(sorted({str(run.config["shortlist"]) for run in runs.values() if "shortlist" in run.config})),
    )


def _marked(
    group: Sequence[tuple[Row, tuple[str, ...]]], runs: Mapping[tuple[str, ...], Mapping[int, Run]], ours: Sequence[str]
) -> list[tuple[Row, Row]]:
    """Compare the rows of a dataset, model and metric; each row with its marked copy.

    Only rows with every seed are compared: a row with failed seeds would be judged by the easy ones.
    """
    seeds = {seed for row, _ in group for seed in (*row.values, *row.failures)}
    complete = [each for each in group if each[0].values.keys() == seeds]
    ranked = sorted(complete, key=lambda each: -(each[0].measured or 0.0))
    if len(ranked) < 2:
        return [(row, row) for row, _ in group]
    (best, place), others = ranked[0], ranked[1:]
    theirs = [row for row, _ in ranked if row.loss not in ours]
    compared = theirs if any(row.loss in ours for row, _ in group) else [row for row, _ in others]
    ps = p_values(runs[place], [runs[other] for _, other in others], best.metric)
    p_of = {id(row): p for (row, _), p in zip(others, ps, strict=True)}
    is_sure = all(p is not None and p < SIGNIFICANCE for p in ps)
    return [
        (
            row,
            replace(
                row,
                p=p_of.get(id(row)),
                is_best=row is best,
                is_best_baseline=bool(compared) and row is compared[0],
                is_sure=is_sure and row is best,
            ),
        )
        for row, _ in group
    ]
