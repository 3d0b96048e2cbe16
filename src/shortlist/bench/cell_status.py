"""Where a grid stands, as the disk tells: also of cells that other processes compute."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from shortlist.bench.cells import Cell
from shortlist.bench.runner import Bench, Failure
from shortlist.runs import Run, read_log
from shortlist.runs.folder import is_locked

State = Literal["done", "failed", "running", "waiting"]


@dataclass(frozen=True)
class Standing:
    """How far a cell is: its value when it is done, epoch and validation on the way, why it failed."""

    state: State
    value: float | None = None
    epoch: int = 0
    validation: float | None = None
    reason: str = ""


def standing(bench: Bench, cell: Cell, metric: str) -> Standing:
    """How far a cell is. Running is what somebody holds, in whatever process and since whenever."""
    found = bench.result(cell)
    if isinstance(found, Run):
        return Standing("done", found.metrics["test"].get(metric))
    if isinstance(found, Failure):
        return Standing("failed", reason=found.reason)
    path = bench.path(cell)
    if not is_locked(bench.lock(path)):
        return Standing("waiting")
    log = read_log(path)
    values = [value for line in log for name, value in line.items() if name.startswith("valid ")]
    return Standing("running", epoch=_epoch(log), validation=values[-1] if values else None)


def since_now() -> float:
    """From when on a command has taken up what it computes: a moment ago, for file systems keep coarser time."""
    return time.time() - 1


def stopped(bench: Bench, cells: Sequence[Cell], since: float) -> str:
    """How far a grid came that was stopped, and what was under way: ``stopped with 3 of 9 cells done, in …``.

    Under way was what has been taken up ``since`` a time, in seconds of the clock, and is not in other hands.
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
