"""Status of the cells of a grid, read from disk, including cells that other processes compute."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from shortlist.bench.cells import Cell
from shortlist.bench.runner import Bench, Failure
from shortlist.locks import is_locked
from shortlist.runs import Run, read_log

State = Literal["done", "failed", "running", "waiting"]


@dataclass(frozen=True)
class CellStatus:
    """Status of a cell: the value of a finished one, epoch and validation of a running one, the reason of a failure."""

    state: State
    value: float | None = None
    epoch: int = 0
    validation: float | None = None
    reason: str = ""


def cell_status(bench: Bench, cell: Cell, metric: str) -> CellStatus:
    """Status of a cell. Running: some process holds the cell's lock."""
    found = bench.result(cell)
    if isinstance(found, Run):
        return CellStatus("done", found.metrics["test"].get(metric))
    if isinstance(found, Failure):
        return CellStatus("failed", reason=found.reason)
    path = bench.path(cell)
    if not is_locked(bench.lock(path)):
        return CellStatus("waiting")
    log = read_log(path)
    values = [value for line in log for name, value in line.items() if name.startswith("valid ")]
    return CellStatus("running", epoch=_epoch(log), validation=values[-1] if values else None)


def since_now() -> float:
    """The start time for :func:`stopped`: one second ago, since file systems have coarse timestamps."""
    return time.time() - 1


def stopped(bench: Bench, cells: Sequence[Cell], since: float) -> str:
    """Progress of an interrupted grid: ``stopped with 3 of 9 cells done, in …``.

    The cells listed are unfinished ones that were locked ``since`` a time and that no other process has locked.
    """
    done = sum(bench.is_done(cell) for cell in cells)
    left = [cell for cell in cells if bench.result(cell) is None and _was_taken(bench.lock(bench.path(cell)), since)]
    epochs = [_epoch(read_log(bench.path(cell))) for cell in left]
    begun = [f"{cell} after epoch {epoch}" if epoch else str(cell) for cell, epoch in zip(left, epochs, strict=True)]
    return f"stopped with {done} of {len(cells)} cells done" + (f", in {', '.join(begun)}" if begun else "")


def _was_taken(lock: Path, since: float) -> bool:
    try:
        return lock.stat().st_mtime >= since and not is_locked(lock)
    except OSError:
        return False


def _epoch(log: Sequence[Mapping[str, Any]]) -> int:
    return int(log[-1]["epoch"]) if log else 0
