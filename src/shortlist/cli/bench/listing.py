"""`shortlist bench --list`: the shipped grids, with their sizes and estimated times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.cli.output import print_json, print_table
from shortlist.errors import InputError
from shortlist.formatting import format_duration
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    from shortlist.bench import Bench, Cell, Spec


def list_grids(data: Path | None, jobs: int, *, estimate: bool, as_json: bool) -> None:
    """List the shipped grids. An estimate runs some steps of each loss on each available dataset."""
    from shortlist.bench import SHIPPED, Bench, cells, read_spec

    bench, facts = Bench(Path(), data, registered=False), []
    with progress_bar("estimating") as progress:
        for number, name in enumerate(SHIPPED):
            progress(number, len(SHIPPED), f"estimating {name}" if estimate else "reading")
            spec = read_spec(name)
            grid = list(cells(spec))
            facts.append(
                _facts(bench, name, spec, grid) | ({"seconds": _seconds(bench, grid, jobs)} if estimate else {})
            )
    if as_json:
        print_json({"grids": facts})
        return
    columns = ["name", "cells", *(["at most about"] if estimate else []), "what it measures", "missing data"]
    rows = [
        [each["name"], each["cells"], *([format_duration(each["seconds"])] if estimate else []), each["title"],
         ", ".join(each["missing"])]
        for each in facts
    ]  # fmt: skip
    print_table(columns, rows)
    print("shortlist bench NAME --dry-run --out DIR estimates each cell; docs/bench.md describes the datasets.")


def _facts(bench: Bench, name: str, spec: Spec, grid: list[Cell]) -> dict[str, Any]:
    return {
        "name": name,
        "title": spec.title,
        "cells": len(grid),
        "datasets": spec.datasets,
        "missing": [dataset for dataset in spec.datasets if not _is_available(bench, dataset)],
    }


def _is_available(bench: Bench, dataset: str) -> bool:
    try:
        bench.source(dataset)
    except InputError:
        return False
    return True


def _seconds(bench: Bench, grid: list[Cell], jobs: int) -> float | None:
    """Estimate the time of cells with available data, from one trial of each loss for all variants and seeds."""
    from shortlist.bench import most_epochs, seconds_of_epoch

    epoch: dict[tuple[str, str, str], float | None] = {}
    total, known = 0.0, False
    for cell in grid:
        place = (cell.dataset, cell.model, cell.loss)
        if cell.loss and _is_available(bench, cell.dataset):
            split = bench.split(cell, 0)
            if place not in epoch:
                epoch[place] = seconds_of_epoch(cell, split)
            takes = epoch[place]
            if takes is not None:
                total, known = total + takes * most_epochs(cell, split), True
    return total / jobs if known else None
