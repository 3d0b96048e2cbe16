"""Progress of a grid: a live table in a terminal, otherwise a line for each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shortlist.cli.output import echo
from shortlist.formatting import format_number, plain

if TYPE_CHECKING:
    from rich.table import Table

    from shortlist.bench import Bench, Cell, Result, Spec
    from shortlist.bench.cell_status import CellStatus

SIGNS = {"done": "✓", "failed": "✗", "running": "▶", "waiting": "·"}


@contextmanager
def live_table(folder: Bench, grid: Spec, chosen: Sequence[Cell]) -> Iterator[bool]:
    """Show a live table on stderr for the length of the block. Yields whether it is shown."""
    from rich.console import Console
    from rich.live import Live

    from shortlist.bench import published_figures

    console = Console(stderr=True)
    if not console.is_terminal:
        yield False
        return
    now = status_reader(folder, chosen, grid.metrics[0])
    published = published_figures(grid)
    view = Live(
        get_renderable=lambda: table(grid, now(), published, max(3, console.height - 6)),
        console=console,
        refresh_per_second=2,
        transient=True,
    )
    with view:
        view.refresh()  # at once: a small grid may be done within half a second
        yield True


def status_reader(folder: Bench, chosen: Sequence[Cell], metric: str) -> Callable[[], Mapping[Cell, CellStatus]]:
    """A function that returns the status of each cell. Finished cells are read only once."""
    from shortlist.bench.cell_status import cell_status

    ended: dict[Cell, CellStatus] = {}

    def now() -> Mapping[Cell, CellStatus]:
        found = {cell: ended.get(cell) or cell_status(folder, cell, metric) for cell in chosen}
        ended.update({cell: each for cell, each in found.items() if each.state in ("done", "failed")})
        return found

    return now


def table(
    grid: Spec,
    found: Mapping[Cell, CellStatus],
    published: Callable[[Cell, str], float | None],
    height: int,
) -> Table:
    """A table of as many cells as fit: the running ones, the last before and the next after them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    metric, statuses = grid.metrics[0], list(found.values())
    counts = {state: sum(each.state == state for each in statuses) for state in SIGNS}
    title = f"{grid.title}: " + ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    shown = Table(title=Text(plain(title)), box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in ("", "cell", metric, "published", ""):
        shown.add_column(name, justify="right" if name in (metric, "published") else "left", no_wrap=True)
    busy = [number for number, each in enumerate(statuses) if each.state == "running"]
    free = next((number for number, each in enumerate(statuses) if each.state == "waiting"), len(statuses))
    first = max(0, min((busy[0] if busy else free) - height // 3, len(statuses) - height))
    for cell, each in list(found.items())[first : first + height]:
        figure, now = published(cell, metric), each.reason
        if each.state == "running":
            epochs = cell.plan().training.epochs if cell.loss else 0
            now = f"epoch {each.epoch}/{epochs}" if each.epoch else "begins"
            now += "" if each.validation is None else f"  validation {each.validation:.4f}"
        texts = (str(cell), format_number(each.value), format_number(figure), now)
        shown.add_row(SIGNS[each.state], *(Text(plain(text), overflow="ellipsis") for text in texts))
    return shown


def cell_printer(grid: Spec) -> Callable[[Cell, Result], None]:
    """A function that prints a line to stderr for each computed cell."""
    from shortlist.bench import Failure, published_figures

    metric, published = grid.metrics[0], published_figures(grid)

    def print_cell(cell: Cell, result: Result) -> None:
        if isinstance(result, Failure):
            what = f"failed: {result.reason}"
        else:
            figure = published(cell, metric)
            beside = "" if figure is None else f" (published {figure:.4f})"
            what = f"{metric} {format_number(result.metrics['test'].get(metric))}{beside}"
            what += f", {sum(result.metrics['seconds'].values()):.1f} s"
        echo(f"{cell}: {what}", err=True)

    return print_cell
