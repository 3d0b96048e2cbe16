"""Files that `shortlist bench` writes: tables and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shortlist.cli.output import echo
from shortlist.errors import ShortlistError
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    from shortlist.bench import Bench, Cell, Result, Row, Spec

TABLE_SUFFIXES = (".md", ".csv", ".tex")


def write_results(path: Path, grid: Spec, rows: Sequence[Row]) -> None:
    """Write the table in the format of the suffix."""
    from shortlist.bench import to_csv, to_latex, to_markdown
    from shortlist.bench.tables import without_html
    from shortlist.cli.files import write_file

    about = "\n".join(map(without_html, grid.about.split("\n"))) + "\n\n" if grid.about else ""
    writers = {
        ".md": lambda: f"# {without_html(grid.title)}\n\n{about}{to_markdown(rows)}",
        ".csv": lambda: to_csv(rows),
    }
    writers[".tex"] = lambda: to_latex(rows)
    write_file(path, writers[path.suffix]().encode())


def write_page(
    given: Path | None, grid: Spec, rows: Sequence[Row], folder: Bench, found: Mapping[Cell, Result]
) -> Path | None:
    """Write the page. Unless it was requested with ``--report``, an error is printed and not raised."""
    from shortlist.cli.files import write_file
    from shortlist.report import render

    path = given or folder.folder / "report.html"
    try:
        from shortlist.report.bench import bench_page

        with progress_bar("writing the report"):
            page = bench_page(grid, rows, found, {cell: folder.path(cell) for cell in found})
            write_file(path, render(page).encode())
    except ShortlistError as problem:
        if given is not None:
            raise
        echo(f"shortlist: no page: {problem}", err=True)
        return None
    return path
