"""The K best items of every query, over the full catalogue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shortlist.data import BoolArray, FloatArray, IntArray
from shortlist.errors import InputError
from shortlist.ranking.rows import Excluded, excluded_rows
from shortlist.ranking.scorer import Queries, Scorer, catalogue_size
from shortlist.ranking.selector import Selector
from shortlist.ranking.tiling import Progress, score_catalogue


@dataclass(frozen=True, eq=False)
class Ranking:
    """Lists of K items, best first. Empty places hold −1, with a score of −∞.

    ``queries_R`` identifies the query of each list: where queries are users, the index of the user.
    """

    queries_R: IntArray
    items_RK: IntArray
    scores_RK: FloatArray

    def __post_init__(self) -> None:
        for array in (self.queries_R, self.items_RK, self.scores_RK):
            array.flags.writeable = False

    @property
    def k(self) -> int:
        """Length of the lists."""
        return int(self.items_RK.shape[1])


class RankingCollector:
    """Collect the lists of :func:`~shortlist.ranking.score_catalogue`, tile by tile."""

    def __init__(self, queries_R: IntArray, k: int) -> None:
        self._queries_R = queries_R.copy()
        self._items_RK = np.empty((len(queries_R), k), np.int32)
        self._scores_RK = np.empty((len(queries_R), k), np.float32)

    def keep(self, rows: slice, selector: Selector) -> None:
        """Store the best items of a scored tile."""
        n_rows = rows.stop - rows.start
        items_TK, scores_TK = selector.best()
        self._items_RK[rows], self._scores_RK[rows] = items_TK[:n_rows], scores_TK[:n_rows]

    def ranking(self) -> Ranking:
        """The lists, after all tiles are scored."""
        return Ranking(self._queries_R, self._items_RK, self._scores_RK)


def top_k(
    scorer: Scorer,
    queries: Queries | IntArray,
    k: int,
    *,
    exclude: Excluded = None,
    only: BoolArray | None = None,
    without: BoolArray | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """The K best items of each query: indices of users, in any order and with repeats, or other queries of the scorer.

    Lists leave out the query's items in ``exclude``, items outside ``only`` and items inside ``without`` (a boolean for
    each item of the catalogue). Ties are broken by item index, which is the order of the items' ids. The list of a
    query depends neither on the other queries nor on the number of threads.

    >>> import torch
    >>> class Wheel:
    ...     n_items = 5
    ...     def score(self, queries, out=None):
    ...         return -((torch.arange(5) - torch.from_numpy(queries)[:, None]) % 5).float()
    >>> top_k(Wheel(), np.array([0, 3]), 3).items_RK.tolist()
    [[0, 1, 2], [3, 4, 0]]
    >>> top_k(Wheel(), np.array([3]), 3, only=np.array([True, False, False, True, False])).items_RK.tolist()
    [[3, 0, -1]]
    """
    check_k(k)
    lists = RankingCollector(query_numbers(queries), k)
    excluded_items = _excluded_items(catalogue_size(scorer), only, without)
    rows = excluded_rows(exclude, queries)
    score_catalogue(scorer, queries, k, lists.keep, exclude=rows, excluded_items=excluded_items, progress=progress)
    return lists.ranking()


def query_numbers(queries: Queries | IntArray) -> IntArray:
    """The number of each query: its index if queries are indices, else its position."""
    is_index = isinstance(queries, np.ndarray) and queries.ndim == 1 and queries.dtype.kind in "iu"
    return np.asarray(queries, np.int64) if is_index else np.arange(len(queries))


def check_k(k: int) -> None:
    """Raise an error unless K is at least 1."""
    if k < 1:
        raise InputError(f"ranking: expected K of at least 1, received {k}")


def _excluded_items(n_items: int, only: BoolArray | None, without: BoolArray | None) -> IntArray | None:
    if only is None and without is None:
        return None
    excluded_I = np.zeros(n_items, np.bool_)
    for name, mask, excluded in (("only", only, False), ("without", without, True)):
        if mask is None:
            continue
        if mask.shape != (n_items,) or mask.dtype != np.bool_:
            raise InputError(
                f"ranking.{name}: expected {n_items} booleans, received {mask.dtype} of shape {mask.shape}"
            )
        excluded_I |= mask == excluded
    return np.flatnonzero(excluded_I)
