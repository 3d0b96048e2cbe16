"""What the commands say: results to stdout, progress to stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Annotated, Any

import typer

PATIENCE = 0.7
"""Seconds after which a step that is not done shows its progress."""

Report = Callable[..., None]
"""Told how much is done, of how much if that is known, and what to say beside it if that has changed."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on stdout, with null for what is no finite number: JSON has no other."""
    print(json.dumps(_without_infinity(content), indent=2, ensure_ascii=False, allow_nan=False))


def _without_infinity(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _without_infinity(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [_without_infinity(part) for part in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "", width: int | None = None
) -> None:
    """A table on stdout; columns after the first are set to the right if they hold numbers.

    Cells are folded so that the table fits the terminal, the given width where there is none.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for place, name in enumerate(columns):
        numeric = any(_is_number(row[place]) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else width or 160, soft_wrap=True).print(table)


def in_words(seconds: float | None) -> str:
    """A duration for people.

    >>> in_words(0.4), in_words(75), in_words(7200), in_words(None)
    ('1 s', '1 min 15 s', '2 h 0 min', 'not known')
    """
    if seconds is None:
        return "not known"
    minutes, rest = divmod(max(1, round(seconds)), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _is_number(cell: object) -> bool:
    text = str(cell).replace(",", "").split(" ")[0].removesuffix("%")
    return text.removeprefix("-").replace(".", "", 1).replace("e-", "", 1).isdigit()


@contextmanager
def step(label: str) -> Iterator[Report]:
    """A step of the work: if it takes longer than a moment, a bar on stderr tells how far it is.

    Without a report the bar only shows that something goes on. Nothing is shown where nobody looks.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=None)
    if not bar.console.is_terminal:
        yield lambda done, total, label="": None
        return
    curtain = Timer(PATIENCE, bar.start)
    curtain.start()
    try:
        yield lambda done, total, label=label: bar.update(task, completed=done, total=total, description=label)
    finally:
        curtain.cancel()
        curtain.join()
        bar.stop()
