"""The interface of experiment trackers, and a group that isolates their errors from training.

A tracker is checked before training begins. One that fails later is disabled with a warning; training continues.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from shortlist import __version__
from shortlist.errors import Interrupted

Line = Mapping[str, Any]
"""A line of a run's log."""

End = Literal["finished", "failed", "killed"]


@dataclass(frozen=True)
class RunInfo:
    """A tracked run: folder, configuration, and whether it is resumed."""

    folder: Path
    config: Mapping[str, Any]
    resumed: bool = False

    @property
    def name(self) -> str:
        """The name of the run: that of its folder."""
        return self.folder.name

    @property
    def key(self) -> str:
        """A key that identifies a resumed run. It depends on the folder and the settings."""
        data = {name: value for name, value in self.config.get("data", {}).items() if name != "source"}
        content = json.dumps([str(self.folder), {**self.config, "data": data}], sort_keys=True)
        return digest(content)

    def settings(self) -> dict[str, Any]:
        """The configuration under the names of ``--set``, and the folder of the run."""
        return {"shortlist": __version__, "run": str(self.folder), **flatten(self.config, ".")}


class Log(Protocol):
    """A tracker's log of one run."""

    def epochs(self, lines: Sequence[Line]) -> None:
        """Log the epochs that are new. ``lines`` is the whole log so far."""

    def close(self, end: End, metrics: Mapping[str, Any]) -> None:
        """Log the final status, and the metrics of a finished run."""


class Tracker(Protocol):
    """An experiment tracker."""

    @property
    def name(self) -> str:
        """The name of the tracker."""

    def check(self) -> None:
        """Raise an error if the tracker cannot be written to."""

    def open(self, info: RunInfo) -> Log:
        """Start or resume the log of a run."""


class TrackerGroup:
    """The trackers of one run, without duplicates. A tracker that fails is disabled."""

    def __init__(self, trackers: Sequence[Tracker], info: RunInfo, warn: Callable[[str], None]) -> None:
        self._trackers, self._info, self._warn = list(dict.fromkeys(trackers)), info, warn
        self._logs: dict[Tracker, Log] = {}

    def begin(self, lines: Sequence[Line] = ()) -> None:
        """Open the trackers, and log the epochs of a checkpoint."""
        for tracker in self._trackers:
            with self._guarded(tracker):
                self._logs[tracker] = tracker.open(self._info)
        self.epochs(lines)

    def epochs(self, lines: Sequence[Line]) -> None:
        """Log all epochs so far."""
        for tracker, log in list(self._logs.items()):
            with self._guarded(tracker):
                log.epochs(lines)

    def close(self, end: End, metrics: Mapping[str, Any] | None = None) -> None:
        """Log the final status."""
        for tracker, log in list(self._logs.items()):
            with self._guarded(tracker):
                log.close(end, metrics or {})

    @contextmanager
    def _guarded(self, tracker: Tracker) -> Iterator[None]:
        try:
            yield
        except Exception as problem:
            self._logs.pop(tracker, None)
            self._warn(f"{tracker.name}: tracking disabled after an error; training continues: {one_line(problem)}")


@contextmanager
def track(trackers: Sequence[Tracker], info: RunInfo, warn: Callable[[str], None]) -> Iterator[TrackerGroup]:
    """Trackers for the duration of a run, closed as failed or killed if it ends with an error."""
    group = TrackerGroup(trackers, info, warn)
    try:
        yield group
    except BaseException as problem:
        group.close("killed" if isinstance(problem, KeyboardInterrupt | Interrupted) else "failed")
        raise


@dataclass(frozen=True)
class Point:
    """The values of an epoch, and the time at which it ended."""

    step: int
    when: float
    values: Mapping[str, float]


def epoch_points(lines: Sequence[Line], after: int) -> list[Point]:
    """The epochs ``after`` one, with the duration of each. They are dated as if there had been no interruption.

    >>> log = [{"epoch": 1, "loss": 3.0, "seconds": 2.0}, {"epoch": 2, "loss": 1.0, "valid ndcg": 0.5, "seconds": 5.0}]
    >>> [(point.step, point.values) for point in epoch_points(log, after=1)]
    [(2, {'epoch/loss': 1.0, 'epoch/valid_ndcg': 0.5, 'epoch/seconds': 3.0})]
    """
    found, now, before = [], time.time(), 0.0
    epochs = [line for line in lines if "epoch" in line]
    for line in epochs:
        took, before = line["seconds"] - before, line["seconds"]
        if line["epoch"] > after:
            names = [name for name in line if name not in ("epoch", "seconds")]
            figures = {f"epoch/{name.replace(' ', '_')}": float(line[name]) for name in names}
            when = now - (epochs[-1]["seconds"] - line["seconds"])
            found.append(Point(line["epoch"], when, {**figures, "epoch/seconds": round(took, 4)}))
    return found


def final_point(metrics: Mapping[str, Any]) -> Point:
    """The metrics of a run, at the epoch that was kept."""
    numbers = {name: float(value) for name, value in flatten(metrics, "/").items() if value is not None}
    return Point(int(metrics.get("epochs", 0)), time.time(), numbers)


def flatten(tree: Mapping[str, Any], separator: str, prefix: str = "") -> dict[str, Any]:
    """The leaves of a nested mapping by their full names.

    >>> flatten({"k": 20, "loss": {"name": "sl", "tau": 0.1}}, ".")
    {'k': 20, 'loss.name': 'sl', 'loss.tau': 0.1}
    """
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            leaves |= flatten(value, separator, f"{prefix}{name}{separator}")
        else:
            leaves[f"{prefix}{name}"] = value
    return leaves


def digest(text: str) -> str:
    """A short hash of a text."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def one_line(problem: Exception) -> str:
    """The message of an error as one line of limited length."""
    words = " ".join(str(problem).split()) or type(problem).__name__
    return words if len(words) <= 200 else words[:199] + "…"
