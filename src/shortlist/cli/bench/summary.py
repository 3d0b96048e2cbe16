"""Summary of `shortlist bench`: a table that fits the terminal, with notes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from shortlist.cli.output import echo, print_json
from shortlist.formatting import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from shortlist.bench import Row, Spec

LEAST_USEFUL = ("seconds", "valid", "deviation", "seeds", "p", "ratio", "published")
"""Columns that are hidden first if the terminal is narrow, in this order."""

WIDE, NARROW, GAP = 160, 10, 2
"""Width if stdout is not a terminal, minimum width of a loss, and space between columns, in characters."""


def print_summary(grid: Spec, rows: Sequence[Row], page: Path | None, *, as_json: bool) -> None:
    """Print the results: all of them as JSON, or a table that fits the terminal."""
    from rich.console import Console

    from shortlist.bench.tables import notes_of, why_failed

    if as_json:
        path = None if page is None else str(page)
        print_json({"title": grid.title, "page": path, "rows": [row.as_json() for row in rows]})
        return
    print_results(grid.title, rows, Console(width=None if sys.stdout.isatty() else WIDE))
    for note in notes_of(rows):
        echo(note)
    for text in why_failed(rows):
        echo(f"failed: {text}")
    if page is not None:
        echo(f"Page: {page}")


def print_results(title: str, rows: Sequence[Row], console: Console) -> None:
    """Print a table for each dataset and model, all with the same columns: those with values that fit."""
    columns, hidden = _columns(rows, console.width)
    console.print(plain(title), style="bold", highlight=False, markup=False)
    for each in _tables(rows, columns):
        console.print(each)
    if hidden:
        names = ", ".join(hidden)
        console.print(f"\nColumns hidden: {names} (see the report, --json, --write).", highlight=False)
    console.print()


def _columns(rows: Sequence[Row], width: int) -> tuple[dict[str, int], list[str]]:
    """The columns with their widths, and the hidden columns."""
    from rich.cells import cell_len

    from shortlist.bench.results import HEAD

    texts = [_texts(row) for row in rows]
    longest = {name: max([len(name), *(cell_len(each[name]) for each in texts)]) for name in HEAD[2:]}
    columns = {name: size for name, size in longest.items() if any(each[name] for each in texts)}
    hidden = []
    for name in LEAST_USEFUL:
        if sum(columns.values()) + GAP * (len(columns) - 1) <= width:
            break
        if columns.pop(name, None) is not None:
            hidden.append(name)
    others = sum(size + GAP for name, size in columns.items() if name != "loss")
    return {**columns, "loss": max(NARROW, min(longest["loss"], width - others))}, hidden


def _tables(rows: Sequence[Row], columns: dict[str, int]) -> Iterator[RenderableType]:
    """The title and the table of each group of rows."""
    from rich.text import Text

    for (dataset, model), group in groupby(rows, key=lambda row: (row.dataset, row.model if row.loss else "")):
        yield Text("\n" + plain(f"{dataset}, {model or 'baselines'}"), style="bold")
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
        table.add_row(
            *(Text().append(plain(texts[name]), marks.get(name)) for name in columns)
        )  # padding is not styled
    return table


def _texts(row: Row) -> dict[str, str]:
    """The texts of a row by column; for a baseline the column of the loss holds its name."""
    from shortlist.bench.results import HEAD
    from shortlist.bench.spec import label_of

    label = row.label if row.loss else label_of(row.model, row.variant)
    return {**dict(zip(HEAD, row.texts(), strict=True)), "loss": label}
