"""Running a grid: every cell is a run folder, so that whatever is there is not computed again."""

from __future__ import annotations

import json
import os
import shutil
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
from shortlist.runs import CHECKPOINT, Run, RunLocked, checked_ks, default_ks, fingerprint, open_run, remeasure
from shortlist.runs.folder import lock, replace_file, writing
from shortlist.tracking import Tracker

FAILED, UNMEASURED, LOCKS = "failed.json", "unmeasured.json", ".locks"
"""What a cell that failed leaves, what a run that could not be measured at other lengths has, where locks are."""

KEPT = 8
"""How many splits are kept in memory: cells that come after one another share a few."""

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
"""Who has the sets of papers, which may not be passed on with the library."""

PAUSE = 0.5
"""Seconds from one look at the cells of other processes to the next."""


@dataclass(frozen=True)
class Failure:
    """A cell that could not be computed, and why."""

    cell: Cell
    reason: str


Result = Run | Failure

Told = Callable[[Cell, Result], None]
"""Who is told of a cell that has just been computed."""


class Bench:
    """The folder of a grid. Several processes may work on one: a cell that another one computes is left to it.

    Datasets are folders of ``data``, or whatever :func:`shortlist.data.load` takes. Where the sets of papers are meant,
    which come split, ``registered=False`` keeps raw tables that are registered under the same names from standing in.
    ``sinks`` are told of every cell, as a run that is named as its folder.
    """

    def __init__(
        self, folder: Path, data: Path | None = None, *, registered: bool = True, sinks: Sequence[Tracker] = ()
    ) -> None:
        self.folder, self.data, self.registered, self.sinks = folder, data, registered, sinks
        self._splits: dict[str, Split] = {}
        self._facts: dict[str, tuple[str, int]] = {}
        self._paths: dict[Cell, Path] = {}

    def source(self, dataset: str) -> str | Path:
        """Where a dataset is read from."""
        if self.data is not None and (self.data / dataset).exists():
            return self.data / dataset
        names = [builtin.DEBIAN_NAME, *(SETS if self.registered else ())]
        if Path(dataset).exists() or dataset in names:
            return dataset
        place = f"in {self.data}" if self.data is not None else "where --data or SHORTLIST_DATA says"
        looked = f"a folder of that name with the tables train and test is looked for {place}"
        if not self.registered and dataset in ORIGINS:  # the name is right
            origin = f"{ORIGINS[dataset]} (docs/bench.md tells more)"
            raise InputError(f"bench: {dataset} is not at hand; {origin}; {looked}")
        inside = [] if self.data is None or not self.data.is_dir() else self.data.iterdir()
        at_hand = {each.name for each in inside if each.name.endswith(SUFFIXES) or any(each.glob("train.*"))}
        raise InputError(f"{unknown('bench', 'dataset', dataset, sorted(at_hand | set(names)))}; {looked}")

    def split(self, cell: Cell, seed: int | None = None) -> Split:
        """The data of a cell, or the same with another seed."""
        options = cell.data_options(seed)
        key = json.dumps([cell.dataset, options.settings()])
        if key not in self._splits:
            self._splits[key] = load(self.source(cell.dataset), options)
            for oldest in list(self._splits)[:-KEPT]:
                del self._splits[oldest]
        return self._splits[key]

    def path(self, cell: Cell) -> Path:
        """The folder of a cell. One split stands for those of all seeds: the seed is part of the key anyway."""
        if cell not in self._paths:
            self._paths[cell] = self.folder / cell.folder(self._facts_of(cell)[0])
        return self._paths[cell]

    def _facts_of(self, cell: Cell) -> tuple[str, int]:
        """The fingerprint of a cell's data, and how many items they have."""
        key = json.dumps([cell.dataset, cell.data_options(0).settings()])
        if key not in self._facts:
            split = self.split(cell, 0)
            self._facts[key] = fingerprint(split), split.train.n_items
        return self._facts[key]

    def result(self, cell: Cell) -> Result | None:
        """What is there: a finished run, a failure, or nothing yet. What cannot be read is a failure, and is kept."""
        path = self.path(cell)
        try:
            checked_ks(cell.ks, self._facts_of(cell)[1])
        except InputError as problem:
            return Failure(cell, str(problem))  # of what is asked, and not of the folder: nothing is written down
        with suppress(OSError, ValueError, KeyError):
            return Failure(cell, json.loads((path / FAILED).read_text(encoding="utf-8"))["reason"])
        if not (path / "config.json").is_file():
            return None
        try:
            run = open_run(path)
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
        """All that is there; a run whose users' figures cannot be read, which tables compare, is a failure, too."""
        found = {cell: result for cell in cells if (result := self.result(cell)) is not None}
        for cell, run in found.items():
            if isinstance(run, Run):
                try:
                    _check_users(run, metrics)
                except InputError as problem:
                    found[cell] = Failure(cell, _removable(str(problem)))
        return found

    def is_done(self, cell: Cell) -> bool:
        """Whether nothing is left to be computed: a failure, or a run that was measured at every length asked for."""
        found = self.result(cell)
        return isinstance(found, Failure) or (found is not None and not _unmeasured(found, cell.ks))

    def can_retry(self, cell: Cell) -> bool:
        """Whether a failure is written down, which :meth:`forget` lets be tried again; a damaged run is kept."""
        path = self.path(cell)
        return isinstance(self.result(cell), Failure) and any((path / name).is_file() for name in (FAILED, UNMEASURED))

    def forget(self, cell: Cell) -> None:
        """Let a cell that failed be tried again, from the start; what is trained is only measured again."""
        path = self.path(cell)
        with self._held(path), writing(path):
            if (path / FAILED).is_file():
                shutil.rmtree(path)
            (path / UNMEASURED).unlink(missing_ok=True)

    def run(self, cell: Cell, told: Told = lambda cell, result: None) -> Result:
        """Compute a cell, from where an earlier try left it, and tell of it; or find it done.

        What fails is written down. What the machine does (no room on the disk, an interruption, another process at the
        same cell) says nothing of the cell and is raised.
        """
        path = self.path(cell)
        with self._held(path):
            found = self.result(cell)
            if found is None:
                found = self._compute(cell, path)
                told(cell, found)
            elif isinstance(found, Run) and _unmeasured(found, cell.ks):
                found = self._remeasure(cell, found)
                told(cell, found)
            return found

    def _remeasure(self, cell: Cell, run: Run) -> Result:
        """Measure a run at the lengths that are asked for; why that fails is written down beside what it has."""
        try:
            measured = remeasure(run, cell.ks)
        except (Interrupted, WriteError):
            raise
        except Exception as problem:
            reason = _removable(str(problem) if isinstance(problem, ShortlistError) else described(problem))
            note = {"ks": sorted(cell.ks), "reason": reason, "where": traceback.format_exc()}
            replace_file(run.folder / UNMEASURED, (json.dumps(note, indent=2) + "\n").encode())
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
                sinks=self.sinks,
            ).run
        except (RunLocked, Interrupted, WriteError):
            raise
        except Exception as problem:
            if isinstance(problem, ShortlistError):
                return _note(path, cell, str(problem))
            return _note(path, cell, described(problem), traceback.format_exc())

    @contextmanager
    def _held(self, path: Path) -> Iterator[None]:
        """Hold a cell; the lock's time tells when."""
        target = self.lock(path)
        with lock(target):
            with writing(self.folder):
                os.utime(target)
            yield

    def lock(self, path: Path) -> Path:
        """The lock of the cell that has this folder."""
        return self.folder / LOCKS / path.name


def work(bench: Bench, cells: Sequence[Cell], told: Told = lambda cell, result: None) -> None:
    """Compute all that is missing, and tell of each.

    What another process has in hand is waited for, and taken over should that process end without it.
    """
    waiting = [cell for cell in cells if not bench.is_done(cell)]
    while waiting:
        left = []
        for cell in waiting:
            try:
                bench.run(cell, told)
            except RunLocked:
                left.append(cell)
        if len(left) == len(waiting):
            time.sleep(PAUSE)
        waiting = left


def is_grid(folder: Path) -> bool:
    """Whether cells have been computed in a folder: their locks have names, those of trials of tune have numbers."""
    place = folder / LOCKS
    return place.is_dir() and any(not lock.name.isdecimal() for lock in place.iterdir())


def _note(path: Path, cell: Cell, reason: str, where: str = "") -> Failure:
    """Write down that a cell failed; a checkpoint is of no use then, its log is."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        replace_file(path / FAILED, (json.dumps({"reason": reason, "where": where}, indent=2) + "\n").encode())
        (path / CHECKPOINT).unlink(missing_ok=True)
    return Failure(cell, reason)


def _unmeasured(run: Run, ks: Sequence[int]) -> bool:
    """Whether a run that has been tested was not at one of the lengths."""
    test = run.metrics["test"]
    return bool(test) and any(f"ndcg@{k}" not in test for k in ks)


def _check_seconds(run: Run) -> None:
    """What a run took is told of every cell."""
    seconds = run.metrics["seconds"]
    for name in ("train", "evaluate"):
        if not isinstance(seconds.get(name), int | float):
            received = repr(seconds[name]) if name in seconds else "none"
            raise InputError(f"{run.folder / 'metrics.json'}: expected the seconds of {name}, received {received:.60}")


def _check_users(run: Run, metrics: Sequence[str]) -> None:
    """Whether there is a figure of each user for what was measured."""
    missing = [name for name in metrics if name in run.metrics["test"] and name not in run.per_user.columns]
    if missing:
        path = run.folder / "per_user.parquet"
        raise InputError(f"{path}: expected a column a metric, received none named {', '.join(missing)}")


def _removable(reason: str) -> str:
    return f"{reason} (remove the folder to compute it again)"
