"""Scores of the whole catalogue, a tile of users at a time, on all threads, in bounded memory.

The last bit of a matrix product depends on its shape and on the threads that share it. So every tile has the same
number of rows (the last is filled up), and each tile is worked by one thread while others work on other tiles: a user's
scores depend neither on which other users are asked for nor on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np
import torch

from shortlist.data import IntArray, Interactions
from shortlist.errors import ShortlistError
from shortlist.ranking.scorer import Scorer
from shortlist.ranking.selector import Selector

TILE_ROWS = 64
"""Rows of a tile: enough for a fast product, few enough that the scores of some 10⁴ items stay in the cache."""

TILE_SCORES = 2**25
"""Scores of a tile at most (128 MB), however large the catalogue."""

Progress = Callable[[int, int], None]
"""Told how many users are done, of how many."""

Visit = Callable[[slice, Selector], None]
"""Told which rows of the users a tile holds, with their scores in the selector; called from several threads."""


def score_catalogue(
    scorer: Scorer,
    users_R: IntArray,
    k: int,
    visit: Visit,
    *,
    exclude: Sequence[Interactions] = (),
    excluded_items: IntArray | None = None,
    progress: Progress | None = None,
) -> None:
    """Score every user's catalogue and show it, tile by tile, to ``visit``; excluded items score −∞."""
    n_rows = max(1, min(TILE_ROWS, TILE_SCORES // max(1, scorer.n_items)))
    tiles = [slice(start, min(start + n_rows, len(users_R))) for start in range(0, len(users_R), n_rows)]
    n_threads = max(1, min(torch.get_num_threads(), len(tiles)))
    selectors: SimpleQueue[Selector] = SimpleQueue()
    for _ in range(n_threads):
        selectors.put(Selector(n_rows, scorer.n_items, k))

    def work(tile: slice) -> None:
        selector = selectors.get()
        try:
            _fill(selector, scorer, users_R[tile], exclude, excluded_items)
            visit(tile, selector)
        finally:
            selectors.put(selector)

    with _one_thread_a_product(), ThreadPoolExecutor(n_threads) as pool:
        futures = {pool.submit(work, tile): tile.stop - tile.start for tile in tiles}
        done = 0
        try:
            for future in as_completed(futures):
                future.result()
                done += futures[future]
                if progress is not None:
                    progress(done, len(users_R))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fill(
    selector: Selector,
    scorer: Scorer,
    users: IntArray,
    exclude: Sequence[Interactions],
    excluded_items: IntArray | None,
) -> None:
    """The scores of a tile's users, with −∞ where nothing may be recommended."""
    n_rows = selector.scores.shape[0]
    filled_T = np.concatenate([users, np.repeat(users[-1:], n_rows - len(users))])
    with torch.inference_mode():
        given = scorer.score_all(filled_T, out=selector.scores)
        if given.shape != selector.scores.shape:
            expected, received = tuple(selector.scores.shape), tuple(given.shape)
            raise ShortlistError(f"ranking: expected scores of shape {expected}, received {received} from the model")
        if given.data_ptr() != selector.scores.data_ptr():
            selector.scores.copy_(given)
    scores = selector.scores.numpy()
    if excluded_items is not None:
        scores[:, excluded_items] = -np.inf
    for seen in exclude:
        scores[seen.pairs_of(filled_T)] = -np.inf


class _ProductThreads:
    """How many sweeps run, and the number of threads to give back to torch after the last: its setting is global."""

    lock = threading.Lock()
    sweeps = 0
    before = 1


@contextmanager
def _one_thread_a_product() -> Iterator[None]:
    """Let torch use one thread an operation while tiles are worked side by side."""
    with _ProductThreads.lock:
        if _ProductThreads.sweeps == 0:
            _ProductThreads.before = torch.get_num_threads()
            torch.set_num_threads(1)
        _ProductThreads.sweeps += 1
    try:
        yield
    finally:
        with _ProductThreads.lock:
            _ProductThreads.sweeps -= 1
            if _ProductThreads.sweeps == 0:
                torch.set_num_threads(_ProductThreads.before)
