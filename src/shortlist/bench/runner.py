"""Running a grid. Every cell is a run folder; existing ones are not computed again."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shortlist.bench.cells import Cell
from shortlist.data import Split, builtin, load
from shortlist.data.public_sets import SETS
from shortlist.data.sources import SUFFIXES
from shortlist.errors import InputError, Interrupted, ShortlistError, WriteError, described, unknown
from shortlist.experiment import fit
from shortlist.files import json_text
from shortlist.runs import CHECKPOINT, Run, RunLocked, checked_ks, default_ks, fingerprint, open_run, remeasure
from shortlist.runs.folder import lock, remove_run, replace_file, writing
from shortlist.tracking import Tracker

FAILED, UNMEASURED, LOCKS = "failed.json", "unmeasured.json", ".locks"
"""Files of a failed cell and of a run that could not be measured at other lengths, and the folder of locks."""

KEPT = 8
"""Number of splits that are kept in memory: successive cells share them."""

_SLATK = "SL@K's authors have it, in github.com/Tiny-Snow/IR-Benchmark"
_LLPAUC = "LLPAUC's authors have it, with the code of their paper"
ORIGINS = {
    "amazon2014-health": _SLATK,
    "amazon2014-electronic": _SLATK,
    "gowalla": _SLATK,
    "movielens-100k": _SLATK,
    "llpauc-adressa-clean": _LLPAUC,
    "llpauc-adressa-noise": _LLPAUC,
}
"""Sources of the datasets of papers, which may not be distributed with the library."""

PAUSE = 0.5
"""Seconds between two checks of the cells of other processes."""


@dataclass(frozen=True)
class Failure:
    """A cell that could not be computed, and the reason."""

    cell: Cell
    reason: str


Result = Run | Failure

OnResult = Callable[[Cell, Result], None]
"""Called with each cell that has been computed, and its result."""


class Bench:
    """The folder of a grid. Several processes may work on it; each cell is computed by one of them.

    Datasets are folders in ``data``, or anything that :func:`shortlist.data.load` takes. ``registered=False`` excludes
    registered raw tables: the datasets of papers have the same names, but are already split. ``trackers`` log every
    cell, as a run with the name of its folder.
    """

    def __init__(
        self, folder: Path, data: Path | None = None, *, registered: bool = True, trackers: Sequence[Tracker] = ()
    ) -> None:
        self.folder, self.data, self.registered, self.trackers = folder, data, registered, trackers
        self._splits: dict[str, Split] = {}
        self._facts: dict[str, tuple[str, int]] = {}
        self._paths: dict[Cell, Path] = {}

    def source(self, dataset: str) -> str | Path:
        """The path or name from which a dataset is loaded."""
        if self.data is not None and (self.data / dataset).exists():
            return self.data / dataset
        names = [builtin.DEBIAN_NAME, *(SETS if self.registered else ())]
        if Path(dataset).exists() or dataset in names:
            return dataset
        place = f"in {self.data}" if self.data is not None else "in the folder of --data or SHORTLIST_DATA"
        looked = f"expected a folder of that name with the tables train and test {place}"
        if not self.registered and dataset in ORIGINS:  # the name is right
            origin = f"{ORIGINS[dataset]} (see docs/bench.md)"
            raise InputError(f"bench: {dataset} is not available; {origin}; {looked}")
        inside = [] if self.data is None or not self.data.is_dir() else self.data.iterdir()
        available = {each.name for each in inside if each.name.endswith(SUFFIXES) or any(each.glob("train.*"))}
        raise InputError(f"{unknown('bench', 'dataset', dataset, sorted(available | set(names)))}; {looked}")

    def split(self, cell: Cell, seed: int | None = None) -> Split:
        """The data of a cell, with its own seed or another."""
        options = cell.data_options(seed)
        key = json.dumps([cell.dataset, options.settings()])
        if key not in self._splits:
            self._splits[key] = load(self.source(cell.dataset), options)
            for oldest in list(self._splits)[:-KEPT]:
                del self._splits[oldest]
        return self._splits[key]

    def path(self, cell: Cell) -> Path:
        """The folder of a cell. The data are identified by one split for all seeds; the seed is part of the key."""
        if cell not in self._paths:
            self._paths[cell] = self.folder / cell.folder(self._facts_of(cell)[0])
        return self._paths[cell]

    def _facts_of(self, cell: Cell) -> tuple[str, int]:
        """The fingerprint of a cell's data, and the number of items."""
        key = json.dumps([cell.dataset, cell.data_options(0).settings()])
        if key not in self._facts:
            split = self.split(cell, 0)
            self._facts[key] = fingerprint(split), split.train.n_items
        return self._facts[key]

    def result(self, cell: Cell) -> Result | None:
        """The existing result: a finished run, a failure or None. A run that cannot be read is a failure, and kept."""
        path = self.path(cell)
        try:
            checked_ks(cell.ks, self._facts_of(cell)[1])
        except InputError as problem:
            return Failure(cell, str(problem))  # caused by the request, not by the folder: not stored
        with suppress(OSError, ValueError, KeyError):
            return Failure(cell, json.loads((path / FAILED).read_text(encoding="utf-8"))["reason"])
        if not (path / "config.json").is_file():
            return None
        try:
            run = open_run(path, check=False)
            _check_seconds(run)
        except InputError as problem:
            return Failure(cell, _removable(str(problem)))
        if _unmeasured(run, cell.ks):
            with suppress(OSError, ValueError, KeyError):
                noted = json.loads((path / UNMEASURED).read_text(encoding="utf-8"))
                if noted["ks"] == sorted(cell.ks):
                    return Failure(cell, noted["reason"])
        return run

    def results(self, cells: Sequence[Cell], metrics: Sequence[str]) -> dict[Cell, Result]:
        """All existing results. A run without the per-user values that tables need is a failure, too."""
        found = {cell: result for cell in cells if (result := self.result(cell)) is not None}
        for cell, run in found.items():
            if isinstance(run, Run):
                try:
                    _check_users(run, metrics)
                except InputError as problem:
                    found[cell] = Failure(cell, _removable(str(problem)))
        return found

    def is_done(self, cell: Cell) -> bool:
        """Whether nothing is left to compute: a failure, or a run that was measured at every requested length."""
        found = self.result(cell)
        return isinstance(found, Failure) or (found is not None and not _unmeasured(found, cell.ks))

    def can_retry(self, cell: Cell) -> bool:
        """Whether there is a stored failure, which :meth:`forget` removes; a damaged run is kept."""
        path = self.path(cell)
        return isinstance(self.result(cell), Failure) and any((path / name).is_file() for name in (FAILED, UNMEASURED))

    def forget(self, cell: Cell) -> None:
        """Remove a stored failure so that the cell is computed again; a trained run is only measured again."""
        path = self.path(cell)
        with self._locked(path), writing(path):
            if (path / FAILED).is_file():
                remove_run(path)
            (path / UNMEASURED).unlink(missing_ok=True)

    def run(self, cell: Cell, on_result: OnResult = lambda cell, result: None) -> Result:
        """Compute a cell, resuming an earlier attempt, and call ``on_result``; or return the existing result.

        Failures are stored. Errors that are not caused by the cell (a full disk, an interruption, a lock held by
        another process) are raised.
        """
        path = self.path(cell)
        with self._locked(path):
            found = self.result(cell)
            if found is None:
                found = self._compute(cell, path)
                on_result(cell, found)
            elif isinstance(found, Run) and _unmeasured(found, cell.ks):
                found = self._remeasure(cell, found)
                on_result(cell, found)
            return found

    def _remeasure(self, cell: Cell, run: Run) -> Result:
        """Measure a run at the requested lengths; the reason of a failure is stored in its folder."""
        try:
            measured = remeasure(run, cell.ks)
        except (Interrupted, WriteError):
            raise
        except Exception as problem:
            reason = _removable(str(problem) if isinstance(problem, ShortlistError) else described(problem))
            note = {"ks": sorted(cell.ks), "reason": reason, "where": traceback.format_exc()}
            replace_file(run.folder / UNMEASURED, json_text(note, ascii_only=True).encode())
            return Failure(cell, reason)
        with writing(run.folder):
            (run.folder / UNMEASURED).unlink(missing_ok=True)
        return measured

    def _compute(self, cell: Cell, path: Path) -> Result:
        started = time.perf_counter()
        split, options = self.split(cell), cell.data_options().settings()
        try:
            return fit(
                cell.plan(),
                split,
                path,
                config={
                    "data": {"source": cell.dataset, **options},
                    "protocol": options["protocol"],
                    "seed": cell.seed,
                },
                ks=[*default_ks(split.train.n_items), *cell.ks],
                resume=(path / CHECKPOINT).is_file(),
                seconds={"load": time.perf_counter() - started},
                trackers=self.trackers,
            ).run
        except (RunLocked, Interrupted, WriteError):
            raise
        except Exception as problem:
            if isinstance(problem, ShortlistError):
                return _note(path, cell, str(problem))
            return _note(path, cell, described(problem), traceback.format_exc())

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        """Lock a cell; the modification time of the lock is the start of the work."""
        target = self.lock(path)
        with lock(target):
            with writing(self.folder):
                os.utime(target)
            yield

    def lock(self, path: Path) -> Path:
        """The lock of the cell with this folder."""
        return self.folder / LOCKS / path.name


def work(bench: Bench, cells: Sequence[Cell], on_result: OnResult = lambda cell, result: None) -> None:
    """Compute all missing cells, and call ``on_result`` for each.

    Cells of other processes are waited for, and computed here if a process ends without a result.
    """
    waiting = [cell for cell in cells if not bench.is_done(cell)]
    while waiting:
        left = []
        for cell in waiting:
            try:
                bench.run(cell, on_result)
            except RunLocked:
                left.append(cell)
        if len(left) == len(waiting):
            time.sleep(PAUSE)
        waiting = left


def is_grid(folder: Path) -> bool:
    """Whether a folder holds a grid: locks of cells are named, locks of tuning trials are numbered."""
    place = folder / LOCKS
    return place.is_dir() and any(lock.is_dir() and not lock.name.isdecimal() for lock in place.iterdir())


def _note(path: Path, cell: Cell, reason: str, where: str = "") -> Failure:
    """Store the failure of a cell. The checkpoint is removed, the log is kept."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        replace_file(path / FAILED, json_text({"reason": reason, "where": where}, ascii_only=True).encode())
        (path / CHECKPOINT).unlink(missing_ok=True)
    return Failure(cell, reason)


def _unmeasured(run: Run, ks: Sequence[int]) -> bool:
    """Whether a run with test metrics lacks one of the lengths."""
    test = run.metrics["test"]
    return bool(test) and any(f"ndcg@{k}" not in test for k in ks)


def _check_seconds(run: Run) -> None:
    """Check that the run has the seconds that tables show."""
    seconds = run.metrics["seconds"]
    for name in ("train", "evaluate"):
        if not isinstance(seconds.get(name), int | float):
            received = repr(seconds[name]) if name in seconds else "none"
            raise InputError(f"{run.folder / 'metrics.json'}: expected the seconds of {name}, received {received:.60}")


def _check_users(run: Run, metrics: Sequence[str]) -> None:
    """Check that there are per-user values of every metric."""
    missing = [name for name in metrics if name in run.metrics["test"] and name not in run.per_user.columns]
    if missing:
        path = run.folder / "per_user.parquet"
        raise InputError(f"{path}: expected a column a metric, received none named {', '.join(missing)}")


def _removable(reason: str) -> str:
    return f"{reason} (remove the folder to compute it again)"
