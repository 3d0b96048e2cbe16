"""What `shortlist bench` says when all is done: a table that the terminal has room for, and what stands below it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from shortlist.cli.output import print_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from shortlist.bench import Row, Spec

LEAST_USEFUL = ("seconds", "valid", "deviation", "seeds", "p", "ratio", "published")
"""What is left out where there is no room for all, in this order."""

WIDE, NARROW, GAP = 160, 10, 2
"""Columns of what is no terminal, those that the name of a loss has at least, and those between two columns."""


def tell(grid: Spec, rows: Sequence[Row], page: Path | None, as_json: bool) -> None:
    """The results: for programs all of them, for people as much as there is room for."""
    from rich.console import Console

    from shortlist.bench.tables import notes_of, why_failed

    if as_json:
        path = None if page is None else str(page)
        print_json({"title": grid.title, "page": path, "rows": [row.as_json() for row in rows]})
        return
    print_results(grid.title, rows, Console(width=None if sys.stdout.isatty() else WIDE))
    for note in notes_of(rows):
        print(note)
    for text in why_failed(rows):
        print(f"failed: {text}")
    if page is not None:
        print(f"Page: {page}")


def print_results(title: str, rows: Sequence[Row], console: Console) -> None:
    """A table for each dataset and model, all with the same columns: those that say something and have room."""
    columns, left_out = _columns(rows, console.width)
    console.print(title, style="bold", highlight=False, markup=False)
    for each in _tables(rows, columns):
        console.print(each)
    if left_out:
        names = ", ".join(left_out)
        console.print(f"\nNo room for {names}: the page, --json and --write have them.", highlight=False)
    console.print()


def _columns(rows: Sequence[Row], width: int) -> tuple[dict[str, int], list[str]]:
    """The columns with their widths, and those for which there is no room."""
    from rich.cells import cell_len

    from shortlist.bench.results import HEAD

    texts = [_texts(row) for row in rows]
    longest = {name: max([len(name), *(cell_len(each[name]) for each in texts)]) for name in HEAD[2:]}
    columns = {name: size for name, size in longest.items() if any(each[name] for each in texts)}
    left_out = []
    for name in LEAST_USEFUL:
        if sum(columns.values()) + GAP * (len(columns) - 1) <= width:
            break
        if columns.pop(name, None) is not None:
            left_out.append(name)
    others = sum(size + GAP for name, size in columns.items() if name != "loss")
    return {**columns, "loss": max(NARROW, min(longest["loss"], width - others))}, left_out


def _tables(rows: Sequence[Row], columns: dict[str, int]) -> Iterator[RenderableType]:
    """The name of each group of rows, and its table."""
    from rich.text import Text

    for (dataset, model), group in groupby(rows, key=lambda row: (row.dataset, row.model if row.loss else "")):
        yield Text(f"\n{dataset}, {model or 'baselines'}", style="bold")
        yield _table(list(group), columns)


def _table(rows: Sequence[Row], columns: dict[str, int]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from shortlist.bench.results import NUMBERS

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for name, size in columns.items():
        is_number = name in NUMBERS
        head = "model" if name == "loss" and not rows[0].loss else name
        table.add_column(head, width=size, no_wrap=is_number, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        texts, style = _texts(row), "bold" * row.is_best + " underline" * row.is_best_baseline
        marks = {"measured": style.strip()}
        table.add_row(*(Text().append(texts[name], marks.get(name)) for name in columns))  # blanks have no mark
    return table


def _texts(row: Row) -> dict[str, str]:
    """The texts of a row by column; a baseline stands where others have their loss."""
    from shortlist.bench.results import HEAD
    from shortlist.bench.spec import label_of

    label = row.label if row.loss else label_of(row.model, row.variant)
    return {**dict(zip(HEAD, row.texts(), strict=True)), "loss": label}
