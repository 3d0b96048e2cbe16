"""Scores of the full catalogue, tile by tile of queries, on all threads, in bounded memory.

The last bit of a matrix product depends on its shape and on the number of threads. Therefore every tile has the same
number of rows (the last is padded), and each tile is computed by one thread while others compute other tiles: the
scores of a query depend neither on the other queries nor on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np
import torch

from shortlist.data import IntArray
from shortlist.errors import ShortlistError
from shortlist.ranking.rows import RowItems
from shortlist.ranking.scorer import Queries, Scorer, catalogue_size
from shortlist.ranking.selector import Selector

TILE_ROWS = 64
"""Rows of a tile: enough for a fast product, few enough that the scores of about 10⁴ items fit in the cache."""

TILE_SCORES = 2**25
"""Maximum scores of a tile (128 MB), for any size of the catalogue."""

Progress = Callable[[int, int], None]
"""Called with the number of queries done and the total."""

Visit = Callable[[slice, Selector], None]
"""Called with the rows of a tile and the selector with their scores, from several threads."""


def score_catalogue(
    scorer: Scorer,
    queries: Queries | IntArray,
    k: int,
    visit: Visit,
    *,
    exclude: Sequence[RowItems] = (),
    excluded_items: IntArray | None = None,
    n_items: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Score the catalogue for every query and pass the scores, tile by tile, to ``visit``; excluded items score −∞.

    ``n_items`` is the number of scores per row, if it differs from the size of the catalogue.
    """
    n_items, n_queries = catalogue_size(scorer) if n_items is None else n_items, len(queries)
    n_rows = max(1, min(TILE_ROWS, TILE_SCORES // max(1, n_items)))
    tiles = [slice(start, min(start + n_rows, n_queries)) for start in range(0, n_queries, n_rows)]
    n_threads = max(1, min(torch.get_num_threads(), len(tiles)))
    selectors: SimpleQueue[Selector] = SimpleQueue()
    for _ in range(n_threads):
        selectors.put(Selector(n_rows, n_items, k))

    def work(tile: slice) -> None:
        selector = selectors.get()
        try:
            _fill(selector, scorer, queries, tile, exclude, excluded_items)
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
                    progress(done, n_queries)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fill(
    selector: Selector,
    scorer: Scorer,
    queries: Queries | IntArray,
    tile: slice,
    exclude: Sequence[RowItems],
    excluded_items: IntArray | None,
) -> None:
    """The scores of a tile's queries, with −∞ at excluded items."""
    row_T = np.minimum(np.arange(tile.start, tile.start + selector.scores.shape[0]), tile.stop - 1)
    with torch.inference_mode():
        given = scorer.score(queries[row_T], out=selector.scores)
        if given.shape != selector.scores.shape:
            expected, received = tuple(selector.scores.shape), tuple(given.shape)
            raise ShortlistError(f"ranking: expected scores of shape {expected}, received {received} from the model")
        if given.data_ptr() != selector.scores.data_ptr():
            selector.scores.copy_(given)
    scores = selector.scores.numpy()
    if excluded_items is not None:
        scores[:, excluded_items] = -np.inf
    for rows in exclude:
        scores[rows.pairs_of(row_T)] = -np.inf


class _ProductThreads:
    """The number of running calls, and torch's global number of threads to restore after the last."""

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
