"""Self-contained HTML pages: no network, light and dark, printable, usable without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from shortlist import __version__
from shortlist.errors import missing_extra


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``mark`` highlights it (the best of its column, a hit) and ``note`` explains it.

    ``under`` underlines it: the second best, or the best of the others.
    """

    text: str
    mark: bool = False
    note: str = ""
    under: bool = False


@dataclass(frozen=True)
class Table:
    """A table of cells or plain texts; columns named in ``numbers`` are right-aligned.

    A ``live`` table can be sorted by columns, and filtered by words and by values of columns with few values. A
    ``note`` is shown below the caption.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    caption: str = ""
    numbers: Sequence[str] = ()
    live: bool = False
    note: str = ""

    def cells(self) -> list[list[Cell]]:
        """The rows with texts converted to cells."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Figure:
    """A chart as SVG, with a caption.

    ``alt`` is its alternative text; ``table`` holds its numbers, collapsed below it.
    """

    title: str
    svg: str
    caption: str = ""
    alt: str = ""
    table: Table | None = None


@dataclass(frozen=True)
class Section:
    """A heading with texts, tables and charts, in this order."""

    title: str
    texts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Page:
    """A page: title, introduction and sections."""

    title: str
    lead: str
    sections: Sequence[Section] = field(default_factory=tuple)


def render(page: Page) -> str:
    """Render a page as HTML.

    >>> html = render(Page("Figures & lists", "What came out.", [Section("A part", ["<b>"])]))
    >>> "<h1>Figures &amp; lists</h1>" in html, "&lt;b&gt;" in html, "http" in html
    (True, True, False)
    """
    source = (files("shortlist.report") / "page.html.jinja").read_text(encoding="utf-8")
    is_live = any(table.live for section in page.sections for table in section.tables)
    script = (files("shortlist.report") / "tables.js").read_text(encoding="utf-8") if is_live else ""
    return str(_jinja().from_string(source).render(page=page, script=script, version=__version__))


def _jinja() -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise missing_extra("report", "jinja2", "report", error) from error
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
