"""Lists by the ids that people know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from torch import Tensor

from shortlist.data import BoolArray, IntArray, Interactions
from shortlist.models import Factored, VectorBaseline
from shortlist.ranking import Progress, Ranking, top_k
from shortlist.runs.evaluation import checked_ks
from shortlist.runs.ids import Ids
from shortlist.runs.run import Run


def recommend(
    run: Run,
    users: Sequence[Any] | pl.Series | None = None,
    k: int = 20,
    *,
    exclude: Sequence[Any] | pl.Series | None = None,
    only: Sequence[Any] | pl.Series | None = None,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """The K best items of each user, or of all: a table of ``user_id``, ``item_id``, ``rank`` (from 1) and ``score``.

    What the user is known to have is left out as it was when the run was evaluated, and so are the items of ``exclude``
    and those that are not in ``only``. A list is shorter than K where fewer items remain.
    """
    checked_ks([k], len(run.items.values))
    rows = np.arange(len(run.users.values)) if users is None else run.users.indices(users)
    ranking = top_k(
        run.model,
        rows,
        k,
        exclude=run.known_pairs,
        only=_mask(run.items, only),
        without=_mask(run.items, exclude),
        progress=progress,
    )
    taken_RK = ranking.items_RK >= 0
    user_id = pl.DataFrame({"user_id": run.users.values[np.repeat(ranking.users_R, taken_RK.sum(1))]})
    return user_id.hstack(_listed(run, ranking))


def recommend_to(
    run: Run,
    history: Sequence[Any] | pl.Series,
    k: int = 20,
    *,
    exclude: Sequence[Any] | pl.Series | None = None,
    only: Sequence[Any] | pl.Series | None = None,
) -> pl.DataFrame:
    """The K best items for somebody who was not there in training, known by the items of a history alone.

    A table of ``item_id``, ``rank`` and ``score``; the history itself is left out. The model must be one of vectors.
    """
    checked_ks([k], len(run.items.values))
    met = np.unique(run.items.indices(history))
    seen = Interactions.from_pairs(np.zeros_like(met), met, user_ids=[""], item_ids=run.items.values)
    ranking = top_k(
        _Folded(run, history),
        np.array([0]),
        k,
        exclude=seen,
        only=_mask(run.items, only),
        without=_mask(run.items, exclude),
    )
    return _listed(run, ranking)


class _Folded:
    """One user, made from a history, as something that can be ranked."""

    def __init__(self, run: Run, history: Sequence[Any] | pl.Series) -> None:
        self._vector_ND = run.fold_in([history])
        assert isinstance(run.model, Factored | VectorBaseline)
        self._model, self.n_items = run.model, run.model.n_items

    def score_all(self, users: IntArray, out: Tensor | None = None) -> Tensor:
        """The scores of the one user there is."""
        return self._model.score_vectors(self._vector_ND.expand(len(users), -1), out)


def _listed(run: Run, ranking: Ranking) -> pl.DataFrame:
    """The places that are taken, list after list: ``item_id``, ``rank`` from 1, ``score``."""
    place_RK = np.broadcast_to(np.arange(1, ranking.k + 1, dtype=np.int32), ranking.items_RK.shape)
    taken_RK = ranking.items_RK >= 0
    return pl.DataFrame(
        {
            "item_id": run.items.values[ranking.items_RK[taken_RK]],
            "rank": place_RK[taken_RK],
            "score": ranking.scores_RK[taken_RK],
        }
    )


def _mask(items: Ids, ids: Sequence[Any] | pl.Series | None) -> BoolArray | None:
    if ids is None:
        return None
    mask = np.zeros(len(items.values), np.bool_)
    mask[items.indices(ids)] = True
    return mask
