"""The report of a grid: measured and published results, learning curves and times."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from shortlist.bench import Cell, Result, Row, Spec
from shortlist.bench.results import HEAD, MEASURED, NUMBERS
from shortlist.bench.tables import notes_of
from shortlist.metrics import SIGNIFICANCE
from shortlist.report.charts import against, dots, groups, lines
from shortlist.report.page import Cell as TableCell
from shortlist.report.page import Figure, Page, Section, Table
from shortlist.report.sweeps import against_k, drawn, k_against_k, sweeps, title_of
from shortlist.report.theme import at_k
from shortlist.runs import Run, read_log

Groups = dict[tuple[str, str], dict[str, list[Cell]]]
"""Cells by dataset and model, then by the label of their loss."""


def bench_page(spec: Spec, rows: Sequence[Row], results: Mapping[Cell, Result], folders: Mapping[Cell, Path]) -> Page:
    """Build the report; ``folders`` includes those of failed cells."""
    places = _grouped(results)
    figures: dict[str, tuple[Iterable[Figure], str]] = {
        "Published and measured": (_published(rows), "Each point is a row of the table; the dashed line is equality."),
        **_along_settings(spec, places, results),
        "K of training against K of the metric": (
            k_against_k(spec, places, results),
            "Each column is divided by what was trained for its own K: above 1, in blue, training for another K is "
            "better at this one. Means over seeds.",
        ),
        "Variants": (
            _variants(spec, rows, places),
            "Means over seeds. A loss without variants has the same value for all of them.",
        ),
        "Metric against K": (
            against_k(spec, places, results),
            "Means over seeds; bands are the range.",
        ),
        "Learning curves": (
            _learning(places, results, folders),
            "Validation during training: means over seeds, as far as all of them were trained.",
        ),
        "Time": (
            _times(places, results, folders),
            "Training time of an epoch relative to sl, or to the fastest loss; seconds in brackets. "
            "Means and ranges over seeds. Other load on the machine is included.",
        ),
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


def _along_settings(spec: Spec, places: Groups, results: Mapping[Cell, Result]) -> dict[str, tuple[list[Figure], str]]:
    """A section for each numeric setting of variants."""
    found: dict[str, list[Figure]] = {}
    for name, figure in sweeps(spec, places, results):
        found.setdefault(f"Metric against {name}", []).append(figure)
    text = "Means over seeds; bands are the range. Dashed: losses that have no variants."
    return {title: (figures, text) for title, figures in found.items()}


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for row in rows:
        cells: list[TableCell | str] = list(row.texts())
        measured = row.texts()[MEASURED]
        spread = ", ".join(f"{value:.4f}" for value in row.values.values()) if len(row.values) > 1 else ""
        cells[MEASURED] = TableCell(measured, row.is_best, spread, row.is_best_baseline)
        if row.p is not None:
            cells[HEAD.index("p")] = TableCell(row.texts()[HEAD.index("p")], row.p < SIGNIFICANCE)
        lines.append(cells)
    return Table(HEAD, lines, numbers=NUMBERS, live=True)


def _failures(rows: Sequence[Row]) -> list[Table]:
    failed = {(row.dataset, row.model, row.label): row.reasons for row in rows if row.failed}
    lines = [[*place, ", ".join(map(str, seeds)), why] for place, each in failed.items() for why, seeds in each.items()]
    return [Table(["dataset", "model", "loss", "seeds", "reason"], lines, "Failures")] if lines else []


def _published(rows: Sequence[Row]) -> Iterator[Figure]:
    for metric in dict.fromkeys(row.metric for row in rows):
        points = [
            {"name": row.loss or row.model, "x": row.published, "y": row.measured}
            for row in rows
            if row.metric == metric and row.published is not None and row.measured is not None
        ]
        if points:
            yield Figure(metric, against(pl.DataFrame(points), title="measured", axis="published"))


def _variants(spec: Spec, rows: Sequence[Row], places: Groups) -> Iterator[Figure]:
    """A metric over the variants, for each place whose variants are not all drawn along a numeric setting."""
    for key in dict.fromkeys((row.dataset, row.model, row.metric) for row in rows if row.loss):
        here = [row for row in rows if (row.dataset, row.model, row.metric) == key]
        variants = [name for name in spec.variants if any(row.variant == name for row in here)]
        named = {row.label for row in here if row.variant}
        if len(variants) < 2 or named <= drawn(spec, places[key[:2]]):
            continue
        points = [
            {"name": row.loss, "group": variant, "value": row.measured}
            for variant in variants
            for row in here
            if row.variant in ("", variant)
        ]
        yield Figure(title_of(*key[:2]), groups(pl.DataFrame(points), title=key[2], axis="", zero=False))


def _learning(places: Groups, results: Mapping[Cell, Result], folders: Mapping[Cell, Path]) -> Iterator[Figure]:
    for place, by_label in places.items():
        points, metrics = [], set()
        for label, cells in by_label.items():
            complete = [cell for cell in cells if isinstance(results[cell], Run)] or cells  # otherwise unfinished ones
            curves = [_validations(read_log(folders[cell]), cell.k) for cell in complete]
            for name, epoch in sorted(set.intersection(*map(set, curves))):
                points.append({"name": label, "at": epoch, "value": statistics.mean(c[name, epoch] for c in curves)})
                metrics.add(name)
        if points:
            title = f"{' / '.join(sorted(metrics))} on validation"
            yield Figure(title_of(*place), lines(pl.DataFrame(points), title=title, axis="epoch"))


def _validations(log: Sequence[Mapping[str, Any]], k: int) -> dict[tuple[str, int], float]:
    """Validation values of a log by metric and epoch; metrics without a K are at ``k``."""
    return {
        (at_k(name.removeprefix("valid "), k), line["epoch"]): value
        for line in log
        for name, value in line.items()
        if name.startswith("valid ")
    }


def _times(places: Groups, results: Mapping[Cell, Result], folders: Mapping[Cell, Path]) -> Iterator[Figure]:
    for place, by_label in places.items():
        seconds: dict[str, list[float]] = {}
        for label, cells in by_label.items():
            logs = [read_log(folders[cell]) for cell in cells if isinstance(results[cell], Run)]
            if found := [log[-1]["seconds"] / log[-1]["epoch"] for log in logs if log and "seconds" in log[-1]]:
                seconds[label] = found
        if seconds:
            means = {label: statistics.mean(found) for label, found in seconds.items()}
            unit = "sl" if "sl" in means else min(means, key=lambda label: means[label])
            points = [
                {"name": f"{label} ({means[label]:.2g} s)", "mean": means[label] / means[unit],
                 "low": min(found) / means[unit], "high": max(found) / means[unit]}
                for label, found in seconds.items()
            ]  # fmt: skip
            yield Figure(title_of(*place), dots(pl.DataFrame(points), title=f"time of an epoch ({unit} = 1)"))


def _grouped(results: Mapping[Cell, Result]) -> Groups:
    """Group cells by place; baselines form one group."""
    found: Groups = {}
    for cell in results:
        place = (cell.dataset, cell.model) if cell.loss else (cell.dataset, "")
        label = cell.label if cell.loss else "/".join(word for word in (cell.model, cell.variant) if word)
        found.setdefault(place, {}).setdefault(label, []).append(cell)
    return found
