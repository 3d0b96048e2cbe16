"""What others are told of a run: the contract of sinks, and who keeps them from doing harm.

A sink says what it lacks before the work begins. Once training goes on, one that fails is left out with a line of
warning: a run is worth more than its picture.
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
    """The run that is told of: its folder, its configuration, and whether it goes on where it once stopped."""

    folder: Path
    config: Mapping[str, Any]
    resumed: bool = False

    @property
    def name(self) -> str:
        """What the run is called: as its folder."""
        return self.folder.name

    @property
    def key(self) -> str:
        """A text by which a run that goes on is found again: another folder or other settings give another one."""
        data = {name: value for name, value in self.config.get("data", {}).items() if name != "source"}
        content = json.dumps([str(self.folder), {**self.config, "data": data}], sort_keys=True)
        return digest(content)

    def settings(self) -> dict[str, Any]:
        """The configuration with names as ``--set`` has them, and where the run's files are."""
        return {"shortlist": __version__, "run": str(self.folder), **flat(self.config, ".")}


class Log(Protocol):
    """What a sink has of one run."""

    def epochs(self, lines: Sequence[Line]) -> None:
        """Tell what is new among the lines of the log, of which all so far are given."""

    def close(self, end: End, metrics: Mapping[str, Any]) -> None:
        """Tell how it ended, and what ``metrics.json`` holds if it is finished."""


class Tracker(Protocol):
    """A place that runs are told to."""

    @property
    def name(self) -> str:
        """What it is called."""

    def check(self) -> None:
        """Raise an error, in one line, if nothing can be told there."""

    def open(self, about: RunInfo) -> Log:
        """Begin, or go on, with a run."""


class TrackerGroup:
    """The sinks of one run: one that is given twice is told once, and whichever fails is left out from then on."""

    def __init__(self, sinks: Sequence[Tracker], about: RunInfo, warn: Callable[[str], None]) -> None:
        self._sinks, self._about, self._warn = list(dict.fromkeys(sinks)), about, warn
        self._logs: dict[Tracker, Log] = {}

    def begin(self, lines: Sequence[Line] = ()) -> None:
        """Open the sinks, and tell what a checkpoint brought back."""
        for sink in self._sinks:
            with self._guarded(sink):
                self._logs[sink] = sink.open(self._about)
        self.epochs(lines)

    def epochs(self, lines: Sequence[Line]) -> None:
        """Tell of all epochs so far."""
        for sink, log in list(self._logs.items()):
            with self._guarded(sink):
                log.epochs(lines)

    def close(self, end: End, metrics: Mapping[str, Any] | None = None) -> None:
        """Tell how it ended."""
        for sink, log in list(self._logs.items()):
            with self._guarded(sink):
                log.close(end, metrics or {})

    @contextmanager
    def _guarded(self, sink: Tracker) -> Iterator[None]:
        try:
            yield
        except Exception as problem:
            self._logs.pop(sink, None)
            self._warn(f"{sink.name}: the run goes on, but is no longer told of there: {in_a_line(problem)}")


@contextmanager
def telling(sinks: Sequence[Tracker], about: RunInfo, warn: Callable[[str], None]) -> Iterator[TrackerGroup]:
    """Sinks for the length of a run; should it end early, they are told so."""
    told = TrackerGroup(sinks, about, warn)
    try:
        yield told
    except BaseException as problem:
        told.close("killed" if isinstance(problem, KeyboardInterrupt | Interrupted) else "failed")
        raise


@dataclass(frozen=True)
class Point:
    """The figures of an epoch, and when it ended by the clock."""

    step: int
    when: float
    figures: Mapping[str, float]


def points(lines: Sequence[Line], after: int) -> list[Point]:
    """The epochs ``after`` one, with their own seconds. Those of an earlier try are dated as if there were no pause.

    >>> log = [{"epoch": 1, "loss": 3.0, "seconds": 2.0}, {"epoch": 2, "loss": 1.0, "valid ndcg": 0.5, "seconds": 5.0}]
    >>> [(point.step, point.figures) for point in points(log, after=1)]
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


def figures(metrics: Mapping[str, Any]) -> Point:
    """What a run was measured to do, at the epoch that it kept."""
    numbers = {name: float(value) for name, value in flat(metrics, "/").items() if value is not None}
    return Point(int(metrics.get("epochs", 0)), time.time(), numbers)


def flat(tree: Mapping[str, Any], joint: str, prefix: str = "") -> dict[str, Any]:
    """The leaves of a tree by their whole names.

    >>> flat({"k": 20, "loss": {"name": "sl", "tau": 0.1}}, ".")
    {'k': 20, 'loss.name': 'sl', 'loss.tau': 0.1}
    """
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            leaves |= flat(value, joint, f"{prefix}{name}{joint}")
        else:
            leaves[f"{prefix}{name}"] = value
    return leaves


def digest(text: str) -> str:
    """A short text that stands for a long one."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def in_a_line(problem: Exception) -> str:
    """What went wrong, without line breaks and not too long."""
    words = " ".join(str(problem).split()) or type(problem).__name__
    return words if len(words) <= 200 else words[:199] + "…"
