"""Where a grid stands, as the disk tells: also of cells that other processes compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shortlist.bench.cells import Cell
from shortlist.bench.runner import Bench, Failure
from shortlist.runs import Run, read_log

State = Literal["done", "failed", "running", "waiting"]


@dataclass(frozen=True)
class Standing:
    """How far a cell is: its value when it is done, epoch and validation on the way, why it failed."""

    state: State
    value: float | None = None
    epoch: int = 0
    validation: float | None = None
    reason: str = ""


def standing(bench: Bench, cell: Cell, metric: str, since: float) -> Standing:
    """How far a cell is. Running is what somebody has taken up ``since`` a time, in seconds of the clock."""
    found = bench.result(cell)
    if isinstance(found, Run):
        return Standing("done", found.metrics["test"].get(metric))
    if isinstance(found, Failure):
        return Standing("failed", reason=found.reason)
    path = bench.path(cell)
    try:
        if bench.lock(path).stat().st_mtime < since:
            return Standing("waiting")
    except OSError:
        return Standing("waiting")
    log = read_log(path)
    values = [value for line in log for name, value in line.items() if name.startswith("valid ")]
    return Standing("running", epoch=log[-1]["epoch"] if log else 0, validation=values[-1] if values else None)
