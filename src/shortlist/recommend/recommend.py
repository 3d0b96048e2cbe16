"""Lists of recommendations by external ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from torch import Tensor

from shortlist.data import BoolArray, IntArray, Interactions
from shortlist.errors import InputError
from shortlist.models import Model, Popularity
from shortlist.ranking import Progress, Ranking, RowItems, Scorer, top_k
from shortlist.runs import FittedModel, Ids
from shortlist.tasks import checked_ks

IdList = Sequence[Any] | pl.Series

ROWS_OF_PART = 2_000_000
"""Rows of a part of a table of lists, some 100 MB with short ids."""

FilterSeen = bool | Literal["measured"]
"""What lists leave out: every known item of the user, none, or what the measured test lists left out."""

UnknownUsers = Literal["error", "popular", "skip"]
"""Handling of users who were not in training: an error, the most popular items, or no list."""

ColumnNames = Literal["standard", "data"]
"""The names of the columns of users and items: ``user_id`` and ``item_id``, or those of the data."""

NAMED = 5
"""How many skipped ids are named."""


@dataclass(frozen=True)
class Skipped:
    """Unknown ids that were skipped.

    >>> print(Skipped("only", ["x", "y"], 40))
    only: 2 unknown ids skipped: 'x', 'y' (40 known)
    """

    what: str
    ids: Sequence[Any]
    n_known: int
    consequence: str = ""

    def __str__(self) -> str:
        named = ", ".join(repr(str(each)) for each in self.ids[:NAMED])
        more = f" and {len(self.ids) - NAMED:,} more" if len(self.ids) > NAMED else ""
        one = "1 unknown id" if len(self.ids) == 1 else f"{len(self.ids):,} unknown ids"
        return f"{self.what}: {one} skipped: {named}{more} ({self.n_known:,} known){self.consequence}"


OnSkipped = Callable[[Skipped], None]
"""Called with unknown ids that were skipped."""


def _ignore(skipped: Skipped) -> None:
    """Skip unknown ids silently."""


def recommend(
    fitted: FittedModel,
    users: IdList | None = None,
    k: int = 20,
    *,
    exclude: IdList | None = None,
    only: IdList | None = None,
    filter_seen: FilterSeen = True,
    unknown_users: UnknownUsers = "error",
    strict: bool = True,
    columns: ColumnNames = "standard",
    on_skipped: OnSkipped = _ignore,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """The K best items of each user, or of all: a table of ``user_id``, ``item_id``, ``rank`` (from 1) and ``score``.

    Lists leave out every known item of the user: those of train, validation and test. With ``filter_seen="measured"``
    they are the lists that were measured, which may hold items of test; with ``False`` nothing is left out. Lists also
    leave out the items of ``exclude`` and those that are not in ``only``. A list is shorter than K where fewer items
    remain.

    Unknown users are an error, get the most popular items, or are skipped (``unknown_users``); unknown items of
    ``only`` and ``exclude`` are an error, or skipped with ``strict=False``. ``on_skipped`` is called with what was
    skipped. ``columns="data"`` names the columns of users and items as in the data.
    """
    items = fitted.items
    names = column_names(fitted, columns)
    checked_ks([k], len(items.values))
    options = {**_masks(items, only, exclude, strict, on_skipped), "progress": progress}
    index_R: IntArray
    unknown: pl.Series | None = None
    if unknown_users not in ("error", "popular", "skip"):
        raise InputError(f"unknown_users: expected 'error', 'popular' or 'skip', received {unknown_users!r}")
    if users is None:
        index_R = np.arange(len(fitted.users.values))
    elif unknown_users == "popular":
        index_R, unknown = fitted.users.known(users)
    else:
        index_R = _indices(fitted.users, users, "users", unknown_users == "error", on_skipped)
    seen = _seen(fitted, filter_seen)
    ranking = top_k(fitted.model, index_R, k, exclude=seen, **options)
    lists = _table(items, ranking, "user_id", fitted.users.values[ranking.queries_R])
    if unknown is None or not len(unknown):
        return lists.rename(names, strict=False)
    popular = top_k(_popularity(fitted), np.zeros(1, np.int64), k, **options)
    places = popular.items_RK.repeat(len(unknown), 0), popular.scores_RK.repeat(len(unknown), 0)
    strangers = Ranking(np.arange(len(unknown)), *places)
    typed = unknown.cast(lists["user_id"].dtype, strict=False)
    if typed.null_count():  # texts beside ids that are numbers
        typed, lists = unknown.cast(pl.String), lists.with_columns(pl.col("user_id").cast(pl.String))
    return pl.concat([lists, _table(items, strangers, "user_id", typed)]).rename(names, strict=False)


def recommend_parts(
    fitted: FittedModel,
    users: IdList | None = None,
    k: int = 20,
    *,
    rows: int = ROWS_OF_PART,
    unknown_users: UnknownUsers = "error",
    on_skipped: OnSkipped = _ignore,
    progress: Progress | None = None,
    **options: Any,
) -> Iterator[pl.DataFrame]:
    """The table of :func:`recommend` in parts of about so many rows, so that the memory needed is bounded.

    Users are looked up once; ``options`` are the other ones of :func:`recommend`.
    """
    if users is not None and unknown_users != "popular":
        index_R = _indices(fitted.users, users, "users", unknown_users == "error", on_skipped)
        ids: IdList = fitted.users.values[index_R]
    else:
        ids = fitted.users.values if users is None else users
    step = max(1, rows // max(1, k))
    for start in range(0, max(1, len(ids)), step):

        def on_progress(done: int, total: int, start: int = start) -> None:
            if progress is not None:
                progress(start + done, len(ids))

        first = on_skipped if start == 0 else _ignore  # skipped items are the same in every part
        part = ids[start : start + step]
        yield recommend(fitted, part, k, unknown_users=unknown_users, on_skipped=first, progress=on_progress, **options)


def recommend_to(
    fitted: FittedModel,
    history: IdList,
    k: int = 20,
    *,
    exclude: IdList | None = None,
    only: IdList | None = None,
    filter_seen: FilterSeen = True,
    strict: bool = True,
    columns: ColumnNames = "standard",
    on_skipped: OnSkipped = _ignore,
) -> pl.DataFrame:
    """The K best items for a user who was not in training, from the items of a history.

    A table of ``item_id``, ``rank`` and ``score``; the history itself is left out with ``filter_seen``. Unknown items
    are an error, or skipped with ``strict=False``; where none is known, the most popular items are listed.
    """
    items = fitted.items
    names = column_names(fitted, columns)
    checked_ks([k], len(items.values))
    if not len(history):
        raise InputError("history: expected at least one item, received none")
    popular = "; no item of the history is known: the most popular items are listed"
    index_H = _indices(items, history, "history", strict, on_skipped, popular)
    masks = _masks(items, only, exclude, strict, on_skipped)
    if not len(index_H):
        return _table(items, top_k(_popularity(fitted), np.zeros(1, np.int64), k, **masks)).rename(names, strict=False)
    seen = RowItems.of_lists([np.unique(index_H).tolist()], len(items.values)) if filter_seen else None
    queries = fitted.fold_in([items.values[index_H]])
    return _table(items, top_k(fitted.model, queries, k, exclude=seen, **masks)).rename(names, strict=False)


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
    masks = _masks(items, only, exclude)
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


def _popularity(fitted: FittedModel) -> Popularity:
    """The popularity of the items in the data that the model was fitted on."""
    return Popularity().fit(fitted.split.whole() if fitted.is_final else fitted.split.train)


def _seen(fitted: FittedModel, filter_seen: FilterSeen) -> list[Interactions] | None:
    if filter_seen not in (True, False, "measured"):
        raise InputError(f"filter_seen: expected True, False or 'measured', received {filter_seen!r}")
    if filter_seen == "measured":
        return fitted.measured_exclusions
    return fitted.known_pairs if filter_seen else None


def column_names(fitted: FittedModel, columns: ColumnNames) -> dict[str, str]:
    """The names of the columns of users and items in lists: none to change, or those of the data where it had names."""
    if columns not in ("standard", "data"):
        raise InputError(f"columns: expected 'standard' or 'data', received {columns!r}")
    if columns == "standard":
        return {}
    source = fitted.config.get("data", {}).get("columns") or {}
    names = {f"{role}_id": str(source[role]) for role in ("user", "item") if role in source}
    taken = {"rank", "score", "title", *({"user_id", "item_id"} - names.keys())}
    for name in names.values():
        if name in taken:
            raise InputError(f"columns: expected names other than rank, score and title in the data, received {name!r}")
    return names


def add_titles(lists: pl.DataFrame, titles: Mapping[str, str], item_column: str = "item_id") -> pl.DataFrame:
    """The lists with a column ``title`` beside the items; empty where there is no title."""
    texts = lists[item_column].cast(pl.String).to_list()
    title = pl.Series("title", [titles.get(text) for text in texts], dtype=pl.String)
    return lists.insert_column(lists.columns.index(item_column) + 1, title)


def _masks(
    items: Ids, only: IdList | None, exclude: IdList | None, strict: bool = True, on_skipped: OnSkipped = _ignore
) -> dict[str, Any]:
    """The items that may be listed, and those that may not, as :func:`shortlist.ranking.top_k` takes them."""
    given = {"only": only, "exclude": exclude}
    masks: dict[str, BoolArray | None] = {}
    for what, ids in given.items():
        if ids is None:
            masks[what] = None
            continue
        none_is_known = what == "only" and not len(items.known(ids)[0])  # then no list could be made
        index = _indices(items, ids, what, strict or none_is_known, on_skipped)
        mask = np.zeros(len(items.values), np.bool_)
        mask[index] = True
        masks[what] = mask
    return {"only": masks["only"], "without": masks["exclude"]}


def _indices(known: Ids, given: IdList, what: str, strict: bool, on_skipped: OnSkipped, if_none: str = "") -> IntArray:
    """The indices of ids. Unknown ones are an error, or skipped; ``if_none`` says what follows where none is known."""
    if strict:
        return known.indices(given)
    index, unknown = known.known(given)
    if len(unknown):
        on_skipped(Skipped(what, unknown.to_list(), len(known.values), "" if len(index) else if_none))
    return index
