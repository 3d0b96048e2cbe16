"""From a table of interactions to :class:`Interactions`: threshold, repeats merged, k-core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from shortlist.data.interactions import BoolArray, IntArray, Interactions
from shortlist.errors import InputError

MICROSECONDS = 1_000_000


def to_interactions(
    frame: pl.DataFrame, *, min_rating: float | None = None, core: int = 0, owner: str = "table"
) -> Interactions:
    """Interactions of a table with the columns user, item and perhaps weight and time.

    Rows with a weight below ``min_rating`` are left out, then repeated pairs are merged, then the ``core``-core is
    taken. ``owner`` names the table in errors.

    >>> frame = pl.DataFrame({"user": ["b", "a", "b", "b"], "item": [30, 10, 10, 30], "weight": [5.0, 4.0, 1.0, 3.0]})
    >>> met = to_interactions(frame, min_rating=3)
    >>> met.user_ids.to_list(), met.item_ids.to_list(), met.row(1).tolist(), met.weights.tolist()
    (['a', 'b'], [10, 30], [1], [4.0, 5.0])
    """
    (met,) = deduplicate([keep_rated(frame, min_rating, owner)])
    met = k_core(met, core)
    check_size(met, owner)
    return met


def keep_rated(frame: pl.DataFrame, min_rating: float | None, owner: str) -> pl.DataFrame:
    """The rows with a weight of at least ``min_rating``."""
    if min_rating is None:
        return frame
    if "weight" not in frame.columns:
        raise InputError(f"{owner}: expected a weight column for min_rating {min_rating:g}, received a table with none")
    return frame.filter(pl.col("weight") >= min_rating)


def deduplicate(frames: Sequence[pl.DataFrame]) -> list[Interactions]:
    """Interactions of each table, all with the ids of them all; a repeated pair keeps its last time and largest weight.

    Times become whole numbers: dates, and numbers with fractions taken as seconds, are counted in microseconds.
    """
    frames = _unify_times(frames)
    user_ids, users = _encode([frame["user"] for frame in frames])
    item_ids, items = _encode([frame["item"] for frame in frames])
    return [
        _merge(users_P, items_P, frame, user_ids, item_ids)
        for users_P, items_P, frame in zip(users, items, frames, strict=True)
    ]


def k_core(interactions: Interactions, core: int) -> Interactions:
    """The largest part in which every user has at least ``core`` items and every item at least ``core`` users.

    Users and items with fewer are taken out, again and again, until none is left to take.
    """
    if core <= 1:
        return interactions  # a table has no user and no item without a pair
    users_P, items_P = interactions.users_of_pairs(), interactions.indices
    position_P = np.arange(interactions.n_pairs)
    while True:
        many_U = np.bincount(users_P, minlength=interactions.n_users) >= core
        many_I = np.bincount(items_P, minlength=interactions.n_items) >= core
        stays_P = many_U[users_P] & many_I[items_P]
        if stays_P.all():
            break
        users_P, items_P, position_P = users_P[stays_P], items_P[stays_P], position_P[stays_P]
    keep_P = np.zeros(interactions.n_pairs, bool)
    keep_P[position_P] = True
    return restrict(interactions.select(keep_P), many_U, many_I)


def restrict(interactions: Interactions, keep_U: BoolArray, keep_I: BoolArray) -> Interactions:
    """The same pairs without some users and items, none of which may have a pair."""
    new_index_I = np.cumsum(keep_I, dtype=np.int32) - 1
    return replace(
        interactions,
        indptr=interactions.indptr[np.append(keep_U, True)],
        indices=new_index_I[interactions.indices],
        user_ids=interactions.user_ids.filter(pl.Series(keep_U)),
        item_ids=interactions.item_ids.filter(pl.Series(keep_I)),
    )


def check_size(interactions: Interactions, owner: str) -> None:
    """Refuse what no recommender can learn from: nothing at all, or a single user."""
    if interactions.n_pairs == 0:
        raise InputError(f"{owner}: expected interactions that pass min_rating and core, received none")
    if interactions.n_users == 1:
        raise InputError(f"{owner}: expected at least two users, received only {interactions.user_ids[0]!r}")


def time_as_number(column: pl.Series) -> pl.Series:
    """Times as Int64, in microseconds if they are dates or have fractions of a second."""
    if column.dtype.is_float():
        return (column * MICROSECONDS).round().cast(pl.Int64)
    return column.to_physical()


def _merge(
    users_P: IntArray, items_P: IntArray, frame: pl.DataFrame, user_ids: pl.Series, item_ids: pl.Series
) -> Interactions:
    key_P = users_P.astype(np.int64) * len(item_ids) + items_P
    has_weight, has_time = "weight" in frame.columns, "time" in frame.columns
    order = np.argsort(key_P, kind="stable") if has_weight or has_time else None
    key_P = np.sort(key_P) if order is None else key_P[order]  # a sort is several times faster than an order
    first = np.flatnonzero(np.diff(key_P, prepend=-1))

    def largest(column: pl.Series) -> npt.NDArray[Any]:
        return np.maximum.reduceat(column.to_numpy()[order], first)

    weights = largest(frame["weight"]).astype(np.float32) if has_weight else None
    times = largest(time_as_number(frame["time"])) if has_time else None
    users_P, items_P = np.divmod(key_P[first], max(len(item_ids), 1))
    return Interactions.from_pairs(users_P, items_P, user_ids=user_ids, item_ids=item_ids, weights=weights, times=times)


def _encode(columns: Sequence[pl.Series]) -> tuple[pl.Series, list[IntArray]]:
    """The distinct ids of all columns in order, and each column as positions among them."""
    same_type = _unify(columns)
    ids = pl.concat([column.unique() for column in same_type]).unique().sort()
    if ids.dtype == pl.String:
        alphabet = pl.Enum(ids)
        return ids, [column.cast(alphabet).to_physical().to_numpy() for column in same_type]
    return ids, [np.searchsorted(ids.to_numpy(), column.to_numpy()) for column in same_type]


def _unify_times(frames: Sequence[pl.DataFrame]) -> Sequence[pl.DataFrame]:
    """Tables whose times can be compared: numbers with fractions if one table has them."""
    kinds = {frame.schema["time"] for frame in frames if "time" in frame.columns}
    if len(kinds) < 2:
        return frames
    if not all(kind.is_numeric() for kind in kinds):
        raise InputError(f"time: expected one kind in all tables, received {' and '.join(sorted(map(str, kinds)))}")
    return [frame.with_columns(pl.col("^time$").cast(pl.Float64)) for frame in frames]


def _unify(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Columns of one type: their own if it is one, 64 bits for different whole numbers, else text."""
    kinds = {column.dtype for column in columns}
    if len(kinds) == 1:
        return list(columns)
    is_unsigned = all(kind.is_unsigned_integer() for kind in kinds)
    if is_unsigned or (all(kind.is_integer() for kind in kinds) and pl.UInt64 not in kinds):
        return [column.cast(pl.UInt64 if is_unsigned else pl.Int64) for column in columns]
    return [column.cast(pl.String) for column in columns]
