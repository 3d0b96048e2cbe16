"""Small tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table whose cells are escaped; numbers are right-aligned.

    >>> html_table(["metric", "test"], [["a<b", "0.5"]])
    '<table><thead><tr><th>metric</th><th>test</th></tr></thead><tbody><tr><td ...>a&lt;b</td><td ...>0.5</td></tr>...'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    text = str(value)
    number = text.replace(",", "").replace(".", "", 1).lstrip("-").isdigit()
    return f'<td style="text-align: {"right" if number else "left"}">{escape(text)}</td>'
