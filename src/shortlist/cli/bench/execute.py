"""The work of `shortlist bench`: what is missing of a grid, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from shortlist.bench import Bench, Cell, Spec, work
from shortlist.bench.cell_status import since_now, stopped
from shortlist.cli.bench.progress import live, say
from shortlist.cli.workers import run_workers
from shortlist.errors import Interrupted


def compute(folder: Bench, grid: Spec, chosen: Sequence[Cell], jobs: int) -> None:
    """Everything that is missing; where a person stops it, how far it came is said, and how to go on."""
    missing, since = [cell for cell in chosen if not folder.is_done(cell)], since_now()
    if not missing:
        return
    try:
        with live(folder, grid, chosen) as is_shown:
            if jobs == 1 or len(missing) == 1:
                work(folder, missing, *([] if is_shown else [say(grid)]))
            else:
                again = partial(  # without what it has read
                    Bench, folder.folder, folder.data, registered=folder.registered, sinks=folder.sinks
                )
                run_workers("bench", jobs, _share, again, grid, chosen, not is_shown)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(f"{stopped(folder, chosen, since)}; the same command goes on") from None


def _share(bench: Callable[[], Bench], grid: Spec, chosen: Sequence[Cell], speak: bool) -> None:
    """What one of several processes does."""
    work(bench(), chosen, *([say(grid)] if speak else []))
