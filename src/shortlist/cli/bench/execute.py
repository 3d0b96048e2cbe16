"""Execution of `shortlist bench`: the missing cells of a grid, in one process or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from shortlist.bench import Bench, Cell, Spec, work
from shortlist.bench.cell_status import since_now, stopped
from shortlist.cli.bench.progress import cell_printer, live_table
from shortlist.cli.workers import run_workers
from shortlist.errors import Interrupted


def compute(folder: Bench, grid: Spec, chosen: Sequence[Cell], jobs: int) -> None:
    """Compute all missing cells. An interruption is reported with the progress and a hint to resume."""
    missing, since = [cell for cell in chosen if not folder.is_done(cell)], since_now()
    if not missing:
        return
    try:
        with live_table(folder, grid, chosen) as is_shown:
            if jobs == 1 or len(missing) == 1:
                work(folder, missing, *([] if is_shown else [cell_printer(grid)]))
            else:
                again = partial(  # without its cached data
                    Bench, folder.folder, folder.data, registered=folder.registered, trackers=folder.trackers
                )
                run_workers("bench", jobs, _share, again, grid, chosen, not is_shown)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(f"{stopped(folder, chosen, since)}; resume with the same command") from None


def _share(bench: Callable[[], Bench], grid: Spec, chosen: Sequence[Cell], print_lines: bool) -> None:
    """Compute cells in a worker."""
    work(bench(), chosen, *([cell_printer(grid)] if print_lines else []))
