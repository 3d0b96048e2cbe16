"""Running a grid: every cell is a run folder, so that whatever is there is not computed again."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shortlist.bench.cells import Cell
from shortlist.data import LoadOptions, Split, load
from shortlist.errors import InputError, ShortlistError
from shortlist.runs import CHECKPOINT, Run, Watch, fingerprint, fit, open_run

FAILED = "failed.json"


@dataclass(frozen=True)
class Failure:
    """A cell that could not be computed, and why."""

    cell: Cell
    reason: str


class Bench:
    """The folder of a grid. Several processes may work on one: a cell that another one trains is left to it.

    Datasets are folders of ``data``, or whatever :func:`shortlist.data.load` takes.
    """

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        self.folder, self._data = folder, data
        self._splits: dict[tuple[str, str], tuple[Split, str]] = {}

    def split(self, cell: Cell) -> tuple[Split, str]:
        """The data of a cell, and a text that changes with it. The last one is kept: cells come sorted by it."""
        options = cell.data_options()
        key = cell.dataset, json.dumps(options, sort_keys=True)
        if key not in self._splits:
            at_hand = self._data is not None and (self._data / cell.dataset).exists()
            source = self._data / cell.dataset if self._data is not None and at_hand else cell.dataset
            split = load(source, LoadOptions(**options))
            self._splits = {key: (split, fingerprint(split))}
        return self._splits[key]

    def path(self, cell: Cell) -> Path:
        """The folder of a cell."""
        return self.folder / cell.folder(self.split(cell)[1])

    def result(self, cell: Cell) -> Run | Failure | None:
        """What is there: a finished run, a failure, or nothing yet."""
        path = self.path(cell)
        if (path / FAILED).is_file():
            return Failure(cell, json.loads((path / FAILED).read_text(encoding="utf-8"))["reason"])
        try:
            return open_run(path)
        except InputError:
            return None

    def forget(self, cell: Cell) -> None:
        """Let a cell that failed be tried again, from the start."""
        shutil.rmtree(self.path(cell))

    def run(self, cell: Cell, *, ks: Sequence[int], watch: Watch | None = None) -> Run | Failure:
        """Compute a cell, from where an earlier try left it; what fails is written down and does not stop the grid."""
        started = time.perf_counter()
        split, _ = self.split(cell)
        path, options = self.path(cell), cell.data_options()
        config = {"data": {"source": cell.dataset, **options}, "protocol": options["protocol"], "seed": cell.seed}
        seconds = {"load": time.perf_counter() - started}
        resume = (path / CHECKPOINT).is_file()
        try:
            return fit(cell.plan(), split, path, config=config, ks=ks, resume=resume, seconds=seconds, watch=watch).run
        except InputError:
            raise  # the specification is wrong, or another process is at it: nothing that belongs to the cell
        except ShortlistError as problem:
            path.mkdir(parents=True, exist_ok=True)
            (path / FAILED).write_text(json.dumps({"reason": str(problem)}), encoding="utf-8")
            return Failure(cell, str(problem))


def lengths(metrics: Iterable[str]) -> list[int]:
    """The list lengths that metrics speak of.

    >>> lengths(["ndcg@20", "recall@20", "ndcg@5"])
    [5, 20]
    """
    return sorted({int(metric.partition("@")[2]) for metric in metrics})
