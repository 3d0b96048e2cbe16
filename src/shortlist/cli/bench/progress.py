"""What a grid shows while it runs: a table in a terminal, a line for each cell elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from shortlist.bench import Bench, Cell, Result, Spec
    from shortlist.bench.cell_status import Standing

SIGNS = {"done": "✓", "failed": "✗", "running": "▶", "waiting": "·"}


@contextmanager
def live(folder: Bench, grid: Spec, chosen: Sequence[Cell]) -> Iterator[bool]:
    """A table on stderr for as long as the work goes on; whether there is somebody to look at it."""
    from rich.console import Console
    from rich.live import Live

    from shortlist.bench import published_figures

    console = Console(stderr=True)
    if not console.is_terminal:
        yield False
        return
    now = standings(folder, chosen, grid.metrics[0])
    published = published_figures(grid)
    view = Live(
        get_renderable=lambda: table(grid, now(), published, max(3, console.height - 6)),
        console=console,
        refresh_per_second=2,
        transient=True,
    )
    with view:
        view.refresh()  # at once, and not half a second later, when a small grid may be done
        yield True


def standings(folder: Bench, chosen: Sequence[Cell], metric: str) -> Callable[[], Mapping[Cell, Standing]]:
    """How far each cell is, whenever it is asked for. What has ended is read once, not twice a second."""
    from shortlist.bench.cell_status import standing

    ended: dict[Cell, Standing] = {}

    def now() -> Mapping[Cell, Standing]:
        found = {cell: ended.get(cell) or standing(folder, cell, metric) for cell in chosen}
        ended.update({cell: each for cell, each in found.items() if each.state in ("done", "failed")})
        return found

    return now


def table(
    grid: Spec,
    found: Mapping[Cell, Standing],
    published: Callable[[Cell, str], float | None],
    height: int,
) -> Table:
    """As many cells as there is room for: those that run, the last before them, the next after them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    metric, stands = grid.metrics[0], list(found.values())
    counts = {state: sum(each.state == state for each in stands) for state in SIGNS}
    title = f"{grid.title}: " + ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    shown = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in ("", "cell", metric, "published", ""):
        shown.add_column(name, justify="right" if name in (metric, "published") else "left", no_wrap=True)
    busy = [number for number, each in enumerate(stands) if each.state == "running"]
    free = next((number for number, each in enumerate(stands) if each.state == "waiting"), len(stands))
    first = max(0, min((busy[0] if busy else free) - height // 3, len(stands) - height))
    for cell, each in list(found.items())[first : first + height]:
        figure, now = published(cell, metric), each.reason
        if each.state == "running":
            epochs = cell.plan().training.epochs if cell.loss else 0
            now = f"epoch {each.epoch}/{epochs}" if each.epoch else "begins"
            now += "" if each.validation is None else f"  validation {each.validation:.4f}"
        texts = (str(cell), _figure(each.value), _figure(figure), now)
        shown.add_row(SIGNS[each.state], *(Text(text, overflow="ellipsis") for text in texts))
    return shown


def say(grid: Spec) -> Callable[[Cell, Result], None]:
    """A line on stderr for each cell as it is done, where nobody looks at a table."""
    from shortlist.bench import Failure, published_figures

    metric, published = grid.metrics[0], published_figures(grid)

    def tell(cell: Cell, result: Result) -> None:
        if isinstance(result, Failure):
            what = f"failed: {result.reason}"
        else:
            figure = published(cell, metric)
            beside = "" if figure is None else f" (published {figure:.4f})"
            what = f"{metric} {_figure(result.metrics['test'].get(metric))}{beside}"
            what += f", {sum(result.metrics['seconds'].values()):.1f} s"
        print(f"{cell}: {what}", file=sys.stderr, flush=True)

    return tell


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
