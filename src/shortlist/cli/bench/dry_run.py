"""`shortlist bench --dry-run`: what is done, what is missing, and an estimate of the time it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shortlist.cli.output import echo, print_json, print_table
from shortlist.formatting import format_duration
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    from shortlist.bench import Bench, Cell


def print_plan(folder: Bench, chosen: Sequence[Cell], jobs: int, *, retry: bool, as_json: bool) -> None:
    """Print how many cells are done, and an estimate for each missing one.

    The estimate is the time of a similar cell that is done, or an extrapolation from some training steps.
    """
    from shortlist.bench import Failure, most_epochs, seconds_of_epoch
    from shortlist.runs import Run

    found = {cell: None if retry and folder.can_retry(cell) else folder.result(cell) for cell in chosen}
    missing = [cell for cell in chosen if found[cell] is None or not folder.is_done(cell)]
    failed = sum(isinstance(result, Failure) for result in found.values())
    seconds: dict[tuple[str, ...], float | None] = {
        cell.place: sum(run.metrics["seconds"].values()) for cell, run in found.items() if isinstance(run, Run)
    }
    measured = {cell: run.metrics["seconds"]["evaluate"] for cell, run in found.items() if isinstance(run, Run)}
    with progress_bar("estimating") as progress:
        for number, cell in enumerate(missing):
            progress(number, len(missing))
            if cell.place not in seconds:
                epoch = seconds_of_epoch(cell, folder.split(cell))
                seconds[cell.place] = None if epoch is None else epoch * most_epochs(cell, folder.split(cell))
    takes = [measured.get(cell, seconds[cell.place]) for cell in missing]  # trained runs are only evaluated again
    known = [each for each in takes if each is not None]
    total = sum(known) / jobs
    counts = {"cells": len(chosen), "done": len(chosen) - len(missing) - failed, "failed": failed}
    if as_json:
        cells = [{"cell": str(cell), "seconds": each} for cell, each in zip(missing, takes, strict=True)]
        print_json({**counts, "missing": cells, "seconds": total})
        return
    if missing:
        rows = [(str(cell), format_duration(each)) for cell, each in zip(missing, takes, strict=True)]
        print_table(["missing", "at most about"], rows)
    echo(f"{len(chosen)} cells: {counts['done']} done, {failed} failed, {len(missing)} missing.")
    if missing:
        print(_total(total, len(missing) - len(known), len(missing)))


def _total(seconds: float, unknown: int, missing: int) -> str:
    """The total estimate as text, with what is not included."""
    if unknown == missing:
        return "No estimate available: cells without epochs, such as baselines, are not estimated."
    uncounted = f", nor {unknown} cells without an estimate, such as baselines" if unknown else ""
    return f"At most about {format_duration(seconds)}: training may stop early; evaluation is not included{uncounted}."
