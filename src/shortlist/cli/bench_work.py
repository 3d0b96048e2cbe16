"""The work of `shortlist bench`: what is missing of a grid, in one process or in several."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from shortlist.bench import Bench, Cell, Spec, work
from shortlist.bench.standing import since_now, stopped
from shortlist.cli.bench_live import live, say
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
                _together(folder, grid, chosen, jobs, not is_shown)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(f"{stopped(folder, chosen, since)}; the same command goes on") from None


def _together(folder: Bench, grid: Spec, chosen: Sequence[Cell], jobs: int, speak: bool) -> None:
    """The same in several processes."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        again = partial(  # without what it has read
            Bench, folder.folder, folder.data, registered=folder.registered, sinks=folder.sinks
        )
        share = partial(_share, again, grid, chosen, jobs, speak)
        with _interruptions_wait():
            shares = [pool.submit(share) for _ in range(jobs)]
        for each in shares:
            each.result()


@contextmanager
def _interruptions_wait() -> Iterator[None]:
    """Hold Ctrl-C back, here until the end, and in processes that begin meanwhile until they say.

    A process that is still importing would answer it with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _share(bench: Callable[[], Bench], grid: Spec, chosen: Sequence[Cell], jobs: int, speak: bool) -> None:
    """What one of several processes does."""
    import torch

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # if one waits, it comes here
    torch.set_num_threads(max(1, torch.get_num_threads() // jobs))
    work(bench(), chosen, *([say(grid)] if speak else []))
