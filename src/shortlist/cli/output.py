"""Output of the commands: results to stdout, progress to stderr."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from shortlist.formatting import plain

_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object to stdout, with null for numbers that are not finite.

    Text is escaped as far as the terminal's encoding or its control characters demand.
    """
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(_without_infinity(content), indent=2, ensure_ascii=not is_unicode, allow_nan=False)
    print(_UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def echo(text: object, *, err: bool = False) -> None:
    """Print a line to stdout or stderr. Control characters in it, which may come from data, are written out."""
    print(plain(text), file=sys.stderr if err else sys.stdout, flush=err)


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

    shown = Text(plain(title)) if title else None  # a text has no markup
    table = Table(title=shown, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for place, name in enumerate(columns):
        numeric = any(_is_number(row[place]) for row in rows)
        table.add_column(Text(plain(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else width or 160, soft_wrap=True).print(table)


def _is_number(cell: object) -> bool:
    text = str(cell).replace(",", "").split(" ")[0].removesuffix("%")
    return text.removeprefix("-").replace(".", "", 1).replace("e-", "", 1).isdigit()
