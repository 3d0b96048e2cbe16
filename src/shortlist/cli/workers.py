"""Worker processes of a command, which end with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from shortlist.errors import ShortlistError, described

if TYPE_CHECKING:
    from multiprocessing import SimpleQueue

PAUSE = 0.2
"""Seconds between two checks of the workers."""


def run_workers(owner: str, jobs: int, share: Callable[..., None], *arguments: Any) -> None:
    """Call ``share`` with the arguments in several worker processes, which end with this one, however it ends.

    An error in one of them ends the others and is raised.
    """
    from multiprocessing import get_context

    context = get_context("spawn")
    problems = context.SimpleQueue()
    worker_arguments = (os.getpid(), jobs, problems, share, arguments)
    workers = [context.Process(target=_run_worker, args=worker_arguments) for _ in range(jobs)]
    try:
        with _block_sigint():
            for worker in workers:
                worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(PAUSE)
            if any(worker.exitcode for worker in workers):
                break
    finally:
        begun = [worker for worker in workers if worker.pid is not None]
        for worker in begun:
            worker.terminate()
        for worker in begun:
            worker.join()
    if not problems.empty():
        raise problems.get()
    failed = [worker.exitcode for worker in workers if worker.exitcode not in (0, -signal.SIGTERM)]
    if failed:
        raise ShortlistError(f"{owner}: a process ended with {failed[0]}; resume with the same command")


@contextmanager
def _block_sigint() -> Iterator[None]:
    """Block SIGINT, here until the end of the block, and permanently in processes that are started in it.

    The parent handles Ctrl-C and ends the workers; a worker that is still importing would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(
    parent: int,
    jobs: int,
    problems: SimpleQueue[ShortlistError],
    share: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    """Run the work of one worker, for as long as the parent is alive."""
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    import torch

    torch.set_num_threads(max(1, torch.get_num_threads() // jobs))
    try:
        share(*arguments)
    except ShortlistError as problem:
        problems.put(problem)
        sys.exit(1)
    except Exception as problem:
        problems.put(ShortlistError(described(problem)))
        sys.exit(1)


def _end_with(parent: int) -> None:
    """Exit when the parent process has ended. Nothing is lost."""
    while os.getppid() == parent:
        time.sleep(PAUSE)
    os._exit(1)
