"""Where a grid stands, as the disk tells: also of cells that other processes compute."""

from __future__ import annotations

import time
from collections.abc import Sequence
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


def since_now() -> float:
    """From when on what is taken up is running: a moment ago, for file systems keep coarser time."""
    return time.time() - 1


def stopped(bench: Bench, cells: Sequence[Cell], since: float) -> str:
    """How far a grid came that was stopped, and what was under way: ``stopped with 3 of 9 cells done, in …``."""
    done = sum(bench.is_done(cell) for cell in cells)
    stands = {cell: standing(bench, cell, "", since) for cell in cells}
    begun = [f"{cell} after epoch {each.epoch}" if each.epoch else str(cell)
             for cell, each in stands.items() if each.state == "running"]  # fmt: skip
    return f"stopped with {done} of {len(cells)} cells done" + (f", in {', '.join(begun)}" if begun else "")
