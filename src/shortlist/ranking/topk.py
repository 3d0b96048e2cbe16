"""The K best items of every user, over the whole catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shortlist.data import BoolArray, FloatArray, IntArray, Interactions
from shortlist.errors import InputError
from shortlist.ranking.scorer import Scorer
from shortlist.ranking.selector import Selector
from shortlist.ranking.tiling import Progress, score_catalogue


@dataclass(frozen=True, eq=False)
class Ranking:
    """Lists of K items, best first. Places that no item may take hold −1, with a score of −∞."""

    users_R: IntArray
    items_RK: IntArray
    scores_RK: FloatArray

    def __post_init__(self) -> None:
        for array in (self.users_R, self.items_RK, self.scores_RK):
            array.flags.writeable = False

    @property
    def k(self) -> int:
        """Length of the lists."""
        return int(self.items_RK.shape[1])


class Lists:
    """Collect the lists of :func:`~shortlist.ranking.score_catalogue`, tile by tile."""

    def __init__(self, users_R: IntArray, k: int) -> None:
        self._users_R = users_R.copy()
        self._items_RK = np.empty((len(users_R), k), np.int32)
        self._scores_RK = np.empty((len(users_R), k), np.float32)

    def keep(self, rows: slice, selector: Selector) -> None:
        """Take the best items of a tile that has been scored."""
        n_rows = rows.stop - rows.start
        items_TK, scores_TK = selector.best()
        self._items_RK[rows], self._scores_RK[rows] = items_TK[:n_rows], scores_TK[:n_rows]

    def ranking(self) -> Ranking:
        """The lists, once scoring is over."""
        return Ranking(self._users_R, self._items_RK, self._scores_RK)


def top_k(
    scorer: Scorer,
    users: IntArray,
    k: int,
    *,
    exclude: Interactions | Sequence[Interactions] | None = None,
    only: BoolArray | None = None,
    without: BoolArray | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """The K best items of each user (indices, in any order, repeats allowed).

    Items that the user has in ``exclude`` are not listed, nor are items outside ``only`` or inside ``without`` (a truth
    value for each item of the catalogue). Equal scores are ordered by item, which is the order of the items' ids. The
    list of a user is the same whoever else is asked for, in whatever portions and on however many threads.

    >>> import torch
    >>> class Wheel:
    ...     n_items = 5
    ...     def score_all(self, users, out=None):
    ...         return -((torch.arange(5) - torch.from_numpy(users)[:, None]) % 5).float()
    >>> top_k(Wheel(), np.array([0, 3]), 3).items_RK.tolist()
    [[0, 1, 2], [3, 4, 0]]
    >>> top_k(Wheel(), np.array([3]), 3, only=np.array([True, False, False, True, False])).items_RK.tolist()
    [[3, 0, -1]]
    """
    check_k(k)
    users_R = np.asarray(users, np.int64)
    lists = Lists(users_R, k)
    excluded_items = _barred(scorer.n_items, only, without)
    score_catalogue(
        scorer, users_R, k, lists.keep, exclude=as_sequence(exclude), excluded_items=excluded_items, progress=progress
    )
    return lists.ranking()


def as_sequence(exclude: Interactions | Sequence[Interactions] | None) -> Sequence[Interactions]:
    """What is excluded, as a sequence."""
    if exclude is None:
        return ()
    return (exclude,) if isinstance(exclude, Interactions) else exclude


def check_k(k: int) -> None:
    """A list needs at least one place."""
    if k < 1:
        raise InputError(f"ranking: expected K of at least 1, received {k}")


def _barred(n_items: int, only: BoolArray | None, without: BoolArray | None) -> IntArray | None:
    if only is None and without is None:
        return None
    barred_I = np.zeros(n_items, np.bool_)
    for name, mask, bars in (("only", only, False), ("without", without, True)):
        if mask is None:
            continue
        if mask.shape != (n_items,) or mask.dtype != np.bool_:
            raise InputError(
                f"ranking.{name}: expected {n_items} truth values, received {mask.dtype} of shape {mask.shape}"
            )
        barred_I |= mask == bars
    return np.flatnonzero(barred_I)
