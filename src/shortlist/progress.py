"""Progress bars for long work, in terminals and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from shortlist.formatting import plain

DELAY = 0.7
"""Seconds after which unfinished work shows its progress."""

Report = Callable[..., None]
"""Called with how much is done, of how much if that is known, and a new label if it has changed."""


@contextmanager
def progress_bar(label: str) -> Iterator[Report]:
    """A bar on stderr, or in a notebook, for work that takes longer than a moment.

    Silent unless stderr is a terminal or the program runs in a notebook. Without reports the bar only shows activity.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(plain(label), total=None)
    if not (bar.console.is_terminal or bar.console.is_jupyter):
        yield lambda done, total, label="": None
        return
    delayed = Timer(DELAY, bar.start)
    delayed.start()
    try:
        yield lambda done, total, label=label: bar.update(task, completed=done, total=total, description=plain(label))
    finally:
        delayed.cancel()
        delayed.join()
        bar.stop()
