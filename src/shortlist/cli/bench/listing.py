"""What `shortlist bench --list` tells: the grids that come along, how large they are, and about how long they take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.cli.output import in_words, print_json, print_table, step
from shortlist.errors import InputError

if TYPE_CHECKING:
    from shortlist.bench import Bench, Cell, Spec


def list_grids(data: Path | None, jobs: int, *, estimate: bool, as_json: bool) -> None:
    """List the shipped grids; an estimate tries some steps of each loss on each dataset that is at hand."""
    from shortlist.bench import SHIPPED, Bench, cells, read_spec

    bench, facts = Bench(Path(), data, registered=False), []
    with step("trying some steps") as told:
        for number, name in enumerate(SHIPPED):
            told(number, len(SHIPPED), f"trying {name}" if estimate else "reading")
            spec = read_spec(name)
            grid = list(cells(spec))
            facts.append(
                _facts(bench, name, spec, grid) | ({"seconds": _seconds(bench, grid, jobs)} if estimate else {})
            )
    if as_json:
        print_json({"grids": facts})
        return
    columns = ["name", "cells", *(["at most about"] if estimate else []), "what it measures", "data that is not here"]
    rows = [
        [each["name"], each["cells"], *([in_words(each["seconds"])] if estimate else []), each["title"],
         ", ".join(each["missing"])]
        for each in facts
    ]  # fmt: skip
    print_table(columns, rows)
    print("shortlist bench NAME --dry-run --out DIR tells what each cell takes; docs/bench.md, where data comes from.")


def _facts(bench: Bench, name: str, spec: Spec, grid: list[Cell]) -> dict[str, Any]:
    return {
        "name": name,
        "title": spec.title,
        "cells": len(grid),
        "datasets": spec.datasets,
        "missing": [dataset for dataset in spec.datasets if not _is_here(bench, dataset)],
    }


def _is_here(bench: Bench, dataset: str) -> bool:
    try:
        bench.source(dataset)
    except InputError:
        return False
    return True


def _seconds(bench: Bench, grid: list[Cell], jobs: int) -> float | None:
    """Estimate how long the cells take whose data are here, each loss tried once for all of its variants and seeds."""
    from shortlist.bench import most_epochs, seconds_of_epoch

    epoch: dict[tuple[str, str, str], float | None] = {}
    total, known = 0.0, False
    for cell in grid:
        place = (cell.dataset, cell.model, cell.loss)
        if cell.loss and _is_here(bench, cell.dataset):
            split = bench.split(cell, 0)
            if place not in epoch:
                epoch[place] = seconds_of_epoch(cell, split)
            takes = epoch[place]
            if takes is not None:
                total, known = total + takes * most_epochs(cell, split), True
    return total / jobs if known else None
