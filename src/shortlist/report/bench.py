"""The page of a grid: what was measured beside what was published, and how it came about."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from shortlist.bench import Cell, Result, Row, Spec
from shortlist.bench.results import HEAD, MEASURED, NUMBERS, notes_of
from shortlist.bench.significance import SURE
from shortlist.bench.standing import read_log
from shortlist.report.page import Cell as TableCell
from shortlist.report.page import Figure, Page, Section, Table
from shortlist.report.pictures import against, curves, dots, groups, lines
from shortlist.runs import Run

Groups = dict[tuple[str, str], dict[str, list[Cell]]]
"""Cells by dataset and model, then by the label of their loss."""


def bench_page(spec: Spec, rows: Sequence[Row], results: Mapping[Cell, Result], folders: Mapping[Cell, Path]) -> Page:
    """The whole grid; ``folders`` are those of all cells, of failed ones too."""
    groups = _grouped(results)
    figures = {
        "Published and measured": (_published(rows), "Each point is a row of the table; the dashed line is equality."),
        "Variants": (
            _variants(spec, rows),
            "Means over seeds. A loss without variants is drawn as the same value for all of them.",
        ),
        "Metric against K": (
            _against_k(spec, groups, results),
            "Means over seeds; bands reach from the lowest to the highest.",
        ),
        "Learning curves": (_learning(groups, folders), "What validation said on the way, for the first seed."),
        "Time": (_times(groups, results, folders), "Seconds of training for one epoch: means and ranges over seeds."),
    }
    return Page(
        spec.title,
        spec.about,
        [
            Section("Results", notes_of(rows), [_table(rows), *_failures(rows)]),
            *(
                Section(title, [text], figures=found)
                for title, (each, text) in figures.items()
                if (found := list(each))
            ),
        ],
    )


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for row in rows:
        cells: list[TableCell | str] = list(row.texts())
        measured = row.texts()[MEASURED]
        spread = ", ".join(f"{value:.4f}" for value in row.values.values()) if len(row.values) > 1 else ""
        cells[MEASURED] = TableCell(measured, row.is_best, spread, row.is_best_baseline)
        if row.p is not None:
            cells[HEAD.index("p")] = TableCell(row.texts()[HEAD.index("p")], row.p < SURE)
        lines.append(cells)
    return Table(HEAD, lines, numbers=NUMBERS, live=True)


def _failures(rows: Sequence[Row]) -> list[Table]:
    failed = {(row.dataset, row.model, row.label): row for row in rows if row.failed}
    lines = [[*place, str(row.failed), row.reason] for place, row in failed.items()]
    return [Table(["dataset", "model", "loss", "seeds", "why"], lines, "What failed")] if lines else []


def _published(rows: Sequence[Row]) -> Iterator[Figure]:
    for metric in dict.fromkeys(row.metric for row in rows):
        points = [
            {"name": row.loss or row.model, "x": row.published, "y": row.measured}
            for row in rows
            if row.metric == metric and row.published is not None and row.measured is not None
        ]
        if points:
            yield Figure(metric, against(pl.DataFrame(points), title="measured", axis="published"))


def _variants(spec: Spec, rows: Sequence[Row]) -> Iterator[Figure]:
    """A metric over the variants, for each dataset, model and metric."""
    for key in dict.fromkeys((row.dataset, row.model, row.metric) for row in rows if row.loss):
        here = [row for row in rows if (row.dataset, row.model, row.metric) == key]
        variants = [name for name in spec.variants if any(row.variant == name for row in here)]
        if len(variants) < 2:
            continue
        points = [
            {"name": row.loss, "group": variant, "value": row.measured}
            for variant in variants
            for row in here
            if row.variant in ("", variant)
        ]
        yield Figure(_title(*key[:2]), groups(pl.DataFrame(points), title=key[2], axis="", zero=False))


def _against_k(spec: Spec, places: Groups, results: Mapping[Cell, Result]) -> Iterator[Figure]:
    names = dict.fromkeys(metric.split("@")[0] for metric in spec.metrics)
    for place, by_label in places.items():
        for name in names:
            points = [
                {"name": label, "k": int(metric.split("@")[1]), "mean": statistics.mean(values), "low": min(values),
                 "high": max(values)}
                for label, cells in by_label.items()
                for metric, values in _values(cells, results, name).items()
            ]  # fmt: skip
            if len({point["k"] for point in points}) > 1:
                yield Figure(f"{_title(*place)}: {name}@K", curves(pl.DataFrame(points), title=f"{name}@K"))


def _values(cells: Sequence[Cell], results: Mapping[Cell, Result], name: str) -> dict[str, list[float]]:
    """The values over seeds of a metric at each K."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        run = results[cell]
        if isinstance(run, Run):
            for metric, value in run.metrics["test"].items():
                if metric.split("@")[0] == name and value is not None:
                    found.setdefault(metric, []).append(value)
    return found


def _learning(places: Groups, folders: Mapping[Cell, Path]) -> Iterator[Figure]:
    for place, by_label in places.items():
        points, metrics = [], set()
        for label, cells in by_label.items():
            for line in read_log(folders[cells[0]]):
                for name in (name for name in line if name.startswith("valid ")):
                    points.append({"name": label, "at": line["epoch"], "value": line[name]})
                    metrics.add(name.removeprefix("valid "))
        if points:
            title = f"{' / '.join(sorted(metrics))} on validation"
            yield Figure(_title(*place), lines(pl.DataFrame(points), title=title, axis="epoch"))


def _times(places: Groups, results: Mapping[Cell, Result], folders: Mapping[Cell, Path]) -> Iterator[Figure]:
    for place, by_label in places.items():
        points = []
        for label, cells in by_label.items():
            logs = [read_log(folders[cell]) for cell in cells if isinstance(results[cell], Run)]
            seconds = [log[-1]["seconds"] / log[-1]["epoch"] for log in logs if log]
            if seconds:
                spread = {"mean": statistics.mean(seconds), "low": min(seconds), "high": max(seconds)}
                points.append({"name": label, **spread})
        if points:
            yield Figure(_title(*place), dots(pl.DataFrame(points), title="seconds an epoch"))


def _grouped(results: Mapping[Cell, Result]) -> Groups:
    """Baselines stand together."""
    found: Groups = {}
    for cell in results:
        place = (cell.dataset, cell.model) if cell.loss else (cell.dataset, "")
        label = cell.label if cell.loss else "/".join(word for word in (cell.model, cell.variant) if word)
        found.setdefault(place, {}).setdefault(label, []).append(cell)
    return found


def _title(dataset: str, model: str) -> str:
    return f"{dataset}, {model or 'baselines'}"
