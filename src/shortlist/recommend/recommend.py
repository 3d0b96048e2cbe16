"""Lists of recommendations by external ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
from torch import Tensor

from shortlist.data import BoolArray, IntArray
from shortlist.errors import InputError
from shortlist.models import Model, Popularity
from shortlist.ranking import Progress, Ranking, RowItems, Scorer, top_k
from shortlist.runs import FittedModel, Ids
from shortlist.tasks import checked_ks

IdList = Sequence[Any] | pl.Series

UnknownUsers = Literal["error", "popular"]
"""Handling of users who were not in training: an error, or the most popular items."""


def recommend(
    fitted: FittedModel,
    users: IdList | None = None,
    k: int = 20,
    *,
    exclude: IdList | None = None,
    only: IdList | None = None,
    filter_seen: bool = True,
    unknown_users: UnknownUsers = "error",
    progress: Progress | None = None,
) -> pl.DataFrame:
    """The K best items of each user, or of all: a table of ``user_id``, ``item_id``, ``rank`` (from 1) and ``score``.

    With ``filter_seen``, lists leave out the items excluded in the test evaluation. They also leave out the items of
    ``exclude`` and those that are not in ``only``. A list is shorter than K if fewer items remain.
    """
    items = fitted.items
    checked_ks([k], len(items.values))
    options: dict[str, Any] = {"only": _mask(items, only), "without": _mask(items, exclude), "progress": progress}
    index_R: IntArray
    unknown: pl.Series | None
    if users is None:
        index_R, unknown = np.arange(len(fitted.users.values)), None
    elif unknown_users == "popular":
        index_R, unknown = fitted.users.known(users)
    else:
        index_R, unknown = fitted.users.indices(users), None
    seen = fitted.known_pairs if filter_seen else None
    ranking = top_k(fitted.model, index_R, k, exclude=seen, **options)
    lists = _table(items, ranking, "user_id", fitted.users.values[ranking.queries_R])
    if unknown is None or not len(unknown):
        return lists
    popular = top_k(Popularity().fit(fitted.split), np.zeros(1, np.int64), k, **options)
    places = popular.items_RK.repeat(len(unknown), 0), popular.scores_RK.repeat(len(unknown), 0)
    strangers = Ranking(np.arange(len(unknown)), *places)
    return pl.concat([lists, _table(items, strangers, "user_id", unknown.cast(lists["user_id"].dtype))])


def recommend_to(
    fitted: FittedModel,
    history: IdList,
    k: int = 20,
    *,
    exclude: IdList | None = None,
    only: IdList | None = None,
    filter_seen: bool = True,
) -> pl.DataFrame:
    """The K best items for a user who was not in training, from the items of a history.

    A table of ``item_id``, ``rank`` and ``score``; the history itself is left out with ``filter_seen``.
    """
    items = fitted.items
    checked_ks([k], len(items.values))
    known = np.unique(items.indices(history)).tolist()
    if not known:
        raise InputError("history: expected at least one item, received none")
    seen = RowItems.of_lists([known], len(items.values)) if filter_seen else None
    queries = fitted.fold_in([history])
    ranking = top_k(fitted.model, queries, k, exclude=seen, only=_mask(items, only), without=_mask(items, exclude))
    return _table(items, ranking)


def similar(
    fitted: FittedModel,
    item_ids: IdList,
    k: int = 20,
    *,
    exclude: IdList | None = None,
    only: IdList | None = None,
) -> pl.DataFrame:
    """The K most similar items of each given item, without the item itself.

    A table of ``item_id``, ``similar_id``, ``rank`` and ``score``. The model defines the similarity
    (:meth:`shortlist.models.Model.item_similarity`).
    """
    items = fitted.items
    checked_ks([k], len(items.values))
    index_R = items.indices(item_ids)
    itself = RowItems.of_lists([[index] for index in index_R.tolist()], len(items.values))
    masks: dict[str, Any] = {"only": _mask(items, only), "without": _mask(items, exclude)}
    ranking = top_k(_ItemSimilarity(fitted.model), index_R, k, exclude=itself, **masks)
    table = _table(items, ranking, "of", items.values[ranking.queries_R])
    return table.select(item_id=pl.col("of"), similar_id=pl.col("item_id"), rank="rank", score="score")


class _ItemSimilarity(Scorer):
    """The similarities of a model's items, as a scorer."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def n_items(self) -> int:
        return self._model.n_items

    def score(self, queries: IntArray, out: Tensor | None = None) -> Tensor:
        similarity = self._model.item_similarity(queries)
        return similarity if out is None else out.copy_(similarity)


def _table(
    items: Ids, ranking: Ranking, query_column: str | None = None, query_ids: pl.Series | None = None
) -> pl.DataFrame:
    """The non-empty ranks of all lists: the query's id if there is one, ``item_id``, ``rank`` from 1, ``score``."""
    place_RK = np.broadcast_to(np.arange(1, ranking.k + 1, dtype=np.int32), ranking.items_RK.shape)
    filled_RK = ranking.items_RK >= 0
    columns: dict[str, Any] = {}
    if query_column is not None and query_ids is not None:
        columns[query_column] = query_ids[np.repeat(np.arange(len(query_ids)), filled_RK.sum(1))]
    columns["item_id"] = items.values[ranking.items_RK[filled_RK]]
    return pl.DataFrame({**columns, "rank": place_RK[filled_RK], "score": ranking.scores_RK[filled_RK]})


def _mask(items: Ids, ids: IdList | None) -> BoolArray | None:
    if ids is None:
        return None
    mask = np.zeros(len(items.values), np.bool_)
    mask[items.indices(ids)] = True
    return mask
