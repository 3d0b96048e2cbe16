"""Output of the commands: results to stdout, progress to stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object to stdout, with null for numbers that are not finite."""
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
    """Print a table to stdout; columns with numbers are right-aligned.

    Cells are folded to fit the terminal, or the given width if stdout is not a terminal.
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


def _is_number(cell: object) -> bool:
    text = str(cell).replace(",", "").split(" ")[0].removesuffix("%")
    return text.removeprefix("-").replace(".", "", 1).replace("e-", "", 1).isdigit()
