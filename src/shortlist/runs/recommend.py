"""Lists by the ids that people know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from shortlist.data import BoolArray
from shortlist.ranking import Progress, top_k
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
    place_RK = np.broadcast_to(np.arange(1, k + 1, dtype=np.int32), ranking.items_RK.shape)
    taken_RK = ranking.items_RK >= 0
    return pl.DataFrame(
        {
            "user_id": run.users.values[np.repeat(ranking.users_R, taken_RK.sum(1))],
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
