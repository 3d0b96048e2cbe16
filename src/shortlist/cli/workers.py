"""Several processes that share the work of a command, and do not outlive it."""

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
"""Seconds from one look at the other processes to the next."""


def run_workers(owner: str, jobs: int, share: Callable[..., None], *arguments: Any) -> None:
    """Call ``share`` with the arguments in each of several processes, which end with this one, however it ends.

    What one of them cannot do is raised at once: the others cannot do it either.
    """
    from multiprocessing import get_context

    context = get_context("spawn")
    problems = context.SimpleQueue()
    given = (os.getpid(), jobs, problems, share, arguments)
    helpers = [context.Process(target=_help, args=given) for _ in range(jobs)]
    try:
        with _interruptions_wait():
            for helper in helpers:
                helper.start()
        while any(helper.is_alive() for helper in helpers):
            time.sleep(PAUSE)
            if any(helper.exitcode for helper in helpers):
                break
    finally:
        begun = [helper for helper in helpers if helper.pid is not None]
        for helper in begun:
            helper.terminate()
        for helper in begun:
            helper.join()
    if not problems.empty():
        raise problems.get()
    failed = [helper.exitcode for helper in helpers if helper.exitcode not in (0, -signal.SIGTERM)]
    if failed:
        raise ShortlistError(f"{owner}: a process ended with {failed[0]}; the same command goes on")


@contextmanager
def _interruptions_wait() -> Iterator[None]:
    """Hold Ctrl-C back, here until the end, and in processes that begin meanwhile for good.

    The first one hears it and ends the others; one that is still importing would answer with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _help(
    parent: int,
    jobs: int,
    problems: SimpleQueue[ShortlistError],
    share: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    """What one of several processes does, for as long as the first one lives."""
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
    """End this process when its parent is gone. A kill loses nothing, here as anywhere."""
    while os.getppid() == parent:
        time.sleep(PAUSE)
    os._exit(1)
