"""Charts of what a grid varies: metrics against numeric settings and K, and K of training against K of the metric.

The charts depend on the settings of the variants, not on the name of the grid: varying the fraction of false positives
gives a chart of robustness, varying K one of K against K′.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeGuard

import polars as pl

from shortlist.bench import Cell, Result, Spec, published_figures
from shortlist.formatting import format_setting
from shortlist.report.charts import curves, heat, sweep
from shortlist.report.page import Figure
from shortlist.runs import Run

K, STOPPED_BY, NOISE = "loss.k", "training.metric", "data.noise"

NAMES = {NOISE: "share of false positives in training", K: "K of training"}
"""Labels of settings whose keys are not descriptive."""

Places = Mapping[tuple[str, str], Mapping[str, Sequence[Cell]]]
"""Cells by dataset and model, then by the label of their loss; each list holds the seeds."""


@dataclass(frozen=True)
class Line:
    """Cells that differ in one setting: the cells of all seeds by its value."""

    name: str
    points: Mapping[float, Sequence[Cell]]
    labels: Sequence[str]


def swept(spec: Spec, by_label: Mapping[str, Sequence[Cell]], key: str, beside: Sequence[str] = ()) -> list[Line]:
    """The lines along a setting: cells of a loss that agree in all settings of its variants but this and ``beside``."""
    lines: dict[str, dict[float, str]] = {}
    for loss, labels in _by_loss(by_label).items():
        settings = {label: _settings(by_label[label][0]) for label in labels}
        keys = [each for each in _keys(spec, by_label, labels) if each not in (key, *beside)]
        varied = [each for each in keys if len({str(settings[label].get(each)) for label in labels}) > 1]
        for label in labels:
            value = settings[label].get(key)
            if _is_number(value):
                words = ", ".join(
                    f"{each.partition('.')[2]} {format_setting(settings[label].get(each))}" for each in varied
                )
                lines.setdefault(f"{loss} {words}".strip(), {})[float(value)] = label
    return [
        Line(name, {at: by_label[label] for at, label in sorted(labels.items())}, list(labels.values()))
        for name, labels in lines.items()
        if len(labels) > 1
    ]


def numeric_keys(spec: Spec, by_label: Mapping[str, Sequence[Cell]]) -> list[str]:
    """The numeric settings of variants."""
    rules = [spec.variants[cells[0].variant] for cells in by_label.values() if cells[0].variant]
    return list(dict.fromkeys(key for rule in rules for key, value in rule.set.items() if _is_number(value)))


def sweeps(spec: Spec, places: Places, results: Mapping[Cell, Result]) -> Iterator[tuple[str, Figure]]:
    """A metric against each numeric setting of variants, with the label of the setting."""
    for place, by_label in places.items():
        plain = {label: cells for label, cells in by_label.items() if not cells[0].variant}
        for key in numeric_keys(spec, by_label):
            lines, name = swept(spec, by_label, key), NAMES.get(key, key)
            ats = sorted({at for line in lines for at in line.points})
            for metric, (which, values) in product(spec.metrics if lines else (), _sources(spec, results)):
                points = [
                    {"name": line.name, "at": at, **spread, "flat": False}
                    for line in lines
                    for at, cells in line.points.items()
                    if (spread := _spread(values(cells, metric)))
                ]
                flat = [
                    {"name": label, "at": end, **spread, "flat": True}
                    for label, cells in plain.items()
                    if (spread := _spread(values(cells, metric)))
                    for end in (ats[0], ats[-1])
                ]
                if len({point["at"] for point in points}) > 1:
                    svg = sweep(pl.DataFrame([*points, *flat]), title=metric, axis=name, percent=key == NOISE)
                    yield name, Figure(f"{title_of(*place)}: {metric}{which}", svg)


def k_against_k(spec: Spec, places: Places, results: Mapping[Cell, Result]) -> Iterator[Figure]:
    """K of training against K of the metric, as ratios to the training for the metric's own K."""
    for place, by_label in places.items():
        plain = {label: cells for label, cells in by_label.items() if not cells[0].variant}
        for line, name, (which, values) in product(
            swept(spec, by_label, K, [STOPPED_BY]), _names(spec), _sources(spec, results)
        ):
            trained = {f"K = {k:g}": cells for k, cells in line.points.items()}
            own = {int(k): values(cells, f"{name}@{k:g}") for k, cells in line.points.items()}
            ratios = [
                {"row": label, "column": str(k), "ratio": statistics.mean(here) / statistics.mean(diagonal)}
                for label, cells in {**trained, **plain}.items()
                for k, diagonal in own.items()
                if any(diagonal) and (here := values(cells, f"{name}@{k}"))
            ]
            if any(f"K = {ratio['column']}" != ratio["row"] in trained for ratio in ratios):  # beside the diagonal
                svg = heat(pl.DataFrame(ratios), rows="trained for", columns=f"K of {name}@K")
                yield Figure(f"{title_of(*place)}, {line.name}: {name}@K{which}", svg)


def against_k(spec: Spec, places: Places, results: Mapping[Cell, Result]) -> Iterator[Figure]:
    """A metric against K with a line per loss; a loss that is trained for each K is taken at its own K.

    There is none for a grid with one K whose variants are drawn along a numeric setting.
    """
    for place, by_label in places.items():
        own = swept(spec, by_label, K, [STOPPED_BY])
        merged = {label for line in own for label in line.labels}
        for name, (which, values) in product(_names(spec), _sources(spec, results)):
            metrics = [metric for metric in spec.metrics if metric.startswith(f"{name}@")]
            if len(metrics) == 1 and drawn(spec, by_label):
                continue
            rest = {label: cells for label, cells in by_label.items() if label not in merged}
            at: dict[str, Mapping[float, Sequence[Cell]]] = {
                **{label: dict.fromkeys(_ks(name, cells, results), cells) for label, cells in rest.items()},
                **{f"{line.name}, trained for each K": line.points for line in own},
            }
            points = [
                {"name": label, "k": int(k), **spread}
                for label, by_k in at.items()
                for k, cells in by_k.items()
                if (spread := _spread(values(cells, f"{name}@{k:g}")))
            ]
            if len({point["k"] for point in points}) > 1:
                svg = curves(pl.DataFrame(points), title=f"{name}@K")
                yield Figure(f"{title_of(*place)}: {name}@K{which}", svg)


def drawn(spec: Spec, by_label: Mapping[str, Sequence[Cell]]) -> set[str]:
    """The labels whose variants have a chart of their own."""
    lines = [line for key in numeric_keys(spec, by_label) for line in swept(spec, by_label, key)]
    lines += swept(spec, by_label, K, [STOPPED_BY])
    return {label for line in lines for label in line.labels}


def title_of(dataset: str, model: str) -> str:
    """The title of a chart for a dataset and a model."""
    return f"{dataset}, {model or 'baselines'}"


Values = Callable[[Sequence[Cell], str], list[float]]
"""Returns the values of a metric for the cells of a place."""


def _sources(spec: Spec, results: Mapping[Cell, Result]) -> list[tuple[str, Values]]:
    """Measured values (one per seed) and published values, each with a suffix for the title."""
    published = published_figures(spec)

    def measured(cells: Sequence[Cell], metric: str) -> list[float]:
        values = [run.metrics["test"].get(metric) for run in _runs(cells, results)]
        return [value for value in values if value is not None]

    def published_values(cells: Sequence[Cell], metric: str) -> list[float]:
        value = published(cells[0], metric)
        return [] if value is None else [value]

    return [("", measured), (", as published", published_values)]


def _runs(cells: Iterable[Cell], results: Mapping[Cell, Result]) -> list[Run]:
    return [run for cell in cells if isinstance(run := results[cell], Run)]


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": statistics.mean(values), "low": min(values), "high": max(values)} if values else {}


def _names(spec: Spec) -> list[str]:
    """The metrics of the specification without their K."""
    return list(dict.fromkeys(metric.partition("@")[0] for metric in spec.metrics))


def _ks(name: str, cells: Iterable[Cell], results: Mapping[Cell, Result]) -> list[float]:
    """The list lengths at which a metric was measured."""
    metrics = {metric.partition("@") for run in _runs(cells, results) for metric in run.metrics["test"]}
    return sorted(float(k) for each, _, k in metrics if each == name)


def _by_loss(by_label: Mapping[str, Sequence[Cell]]) -> dict[str, list[str]]:
    """The labels of each loss, or baseline, that has variants."""
    found: dict[str, list[str]] = {}
    for label, cells in by_label.items():
        if cells[0].variant:
            found.setdefault(cells[0].loss or cells[0].model, []).append(label)
    return found


def _keys(spec: Spec, by_label: Mapping[str, Sequence[Cell]], labels: Iterable[str]) -> list[str]:
    """All keys that the variants of some labels set."""
    return list(dict.fromkeys(key for label in labels for key in spec.variants[by_label[label][0].variant].set))


def _settings(cell: Cell) -> dict[str, Any]:
    """All settings of a cell by key, including defaults."""
    plan = cell.plan()
    sections = {**plan.config(), "model": plan.model.settings(), "data": cell.data_options().settings()}
    return {
        f"{section}.{name}": value
        for section, values in sections.items()
        if isinstance(values, Mapping)
        for name, value in values.items()
    }


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
