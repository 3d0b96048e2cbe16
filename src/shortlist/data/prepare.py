"""From a table to :class:`Interactions`: checks, rating threshold, merging of repeated pairs, k-core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from shortlist.data.bad_rows import BadRows
from shortlist.data.checks import Origin, check_columns, check_texts, distinct
from shortlist.data.columns import NONE, Columns, assign
from shortlist.data.frames import AnyFrame, open_frame
from shortlist.data.interactions import BoolArray, IntArray, Interactions
from shortlist.data.tables import Table
from shortlist.errors import InputError

MICROSECONDS = 1_000_000


def to_interactions(
    frame: Any, *, min_rating: float | None = None, core: int = 0, owner: str = "table"
) -> Interactions:
    """Interactions of a frame with the columns user, item and optionally weight and time, as returned by :func:`read`.

    The same as :meth:`Interactions.from_frame` without inference of columns. ``owner`` names the table in errors.

    >>> frame = pl.DataFrame({"user": ["b", "a", "b", "b"], "item": [30, 10, 10, 30], "weight": [5.0, 4.0, 1.0, 3.0]})
    >>> interactions = to_interactions(frame, min_rating=3)
    >>> interactions.user_ids.to_list(), interactions.item_ids.to_list(), interactions.row(1).tolist()
    (['a', 'b'], [10, 30], [1])
    """
    names = open_frame(frame, owner).columns
    optional = {role: role if role in names else NONE for role in ("weight", "time")}
    return from_frame(frame, Columns("user", "item", **optional), min_rating=min_rating, core=core, label=owner)


def from_frame(
    frame: Any, columns: Columns, *, min_rating: float | None = None, core: int = 0, label: str | None = None
) -> Interactions:
    """Implements :meth:`Interactions.from_frame`; ``label`` names the frame in errors."""
    opened = open_frame(frame, label)
    chosen = _choose(opened, columns)
    keeps_rows = min_rating is None
    table = check_columns(Origin(opened.label), opened.read(chosen.values()), chosen, texts=not keeps_rows)
    (interactions,) = deduplicate([keep_rated(table, min_rating, opened.label)])
    if keeps_rows:  # reuses the distinct ids
        for role, ids in (("user", interactions.user_ids), ("item", interactions.item_ids)):
            if ids.dtype == pl.String:
                check_texts(Origin(opened.label), table[role].alias(chosen[role]), ids)
    interactions = k_core(interactions, core)
    check_size(interactions, opened.label)
    return interactions


def read_frame(frame: AnyFrame, columns: Columns, *, skip_bad_rows: bool = False) -> Table:
    """A frame's columns user, item and optionally weight and time, checked like those of files."""
    chosen, bad_rows = _choose(frame, columns), BadRows(frame.label) if skip_bad_rows else None
    checked = check_columns(Origin(frame.label), frame.read(chosen.values()), chosen, bad_rows=bad_rows)
    return Table(checked, {role: name for role, name in chosen.items() if not name.isdigit()}, bad_rows)


def _choose(frame: AnyFrame, columns: Columns) -> dict[str, str]:
    return assign(frame.label, list(frame.columns), columns, is_file=False)


def keep_rated(frame: pl.DataFrame, min_rating: float | None, owner: str) -> pl.DataFrame:
    """The rows with a weight of at least ``min_rating``."""
    if min_rating is None:
        return frame
    if "weight" not in frame.columns:
        raise InputError(f"{owner}: expected a weight column for min_rating {min_rating:g}, received a table with none")
    return frame.filter(pl.col("weight") >= min_rating)


def deduplicate(frames: Sequence[pl.DataFrame]) -> list[Interactions]:
    """Interactions of each table, with the union of all ids; a repeated pair keeps its last time and largest weight.

    Times become integers: dates, and numbers with fractions (as seconds), are converted to microseconds.
    """
    frames = _unify_times(frames)
    user_ids, users = _encode([frame["user"] for frame in frames])
    item_ids, items = _encode([frame["item"] for frame in frames])
    return [
        Interactions.from_events(
            users_E,
            items_E,
            user_ids=user_ids,
            item_ids=item_ids,
            weights=frame["weight"].to_numpy() if "weight" in frame.columns else None,
            times=time_as_number(frame["time"]).to_numpy() if "time" in frame.columns else None,
        )
        for users_E, items_E, frame in zip(users, items, frames, strict=True)
    ]


def k_core(interactions: Interactions, core: int) -> Interactions:
    """The largest part in which every user has at least ``core`` items and every item at least ``core`` users.

    Users and items with fewer are removed repeatedly until all remaining ones have enough.
    """
    if core <= 1:
        return interactions  # every user and item of a table has a pair
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
    """The same pairs without the given users and items, which must have no pairs."""
    (restricted,) = restrict_all([interactions], keep_U, keep_I)
    return restricted


def restrict_all(parts: Sequence[Interactions], keep_U: BoolArray, keep_I: BoolArray) -> list[Interactions]:
    """The parts of a split without the given users and items. A log shared by parts remains shared."""
    new_index_I = np.cumsum(keep_I, dtype=np.int32) - 1
    user_ids, item_ids = parts[0].user_ids.filter(pl.Series(keep_U)), parts[0].item_ids.filter(pl.Series(keep_I))
    logs = {id(part.log): part.log for part in parts}
    new_logs = {key: None if log is None else log.restrict(keep_U, keep_I) for key, log in logs.items()}
    return [
        replace(
            part,
            indptr=part.indptr[np.append(keep_U, True)],
            indices=new_index_I[part.indices],
            user_ids=user_ids,
            item_ids=item_ids,
            log=new_logs[id(part.log)],
        )
        for part in parts
    ]


def check_size(interactions: Interactions, owner: str) -> None:
    """Raise an error for data without interactions or with a single user."""
    if interactions.n_pairs == 0:
        raise InputError(f"{owner}: expected interactions that pass min_rating and core, received none")
    if interactions.n_users == 1:
        raise InputError(f"{owner}: expected at least two users, received only {interactions.user_ids[0]!r}")


def time_as_number(column: pl.Series) -> pl.Series:
    """Times as Int64, in microseconds if they are dates or have fractions of a second."""
    if column.dtype.is_float():
        return (column * MICROSECONDS).round().cast(pl.Int64)
    return column.to_physical()


def _encode(columns: Sequence[pl.Series]) -> tuple[pl.Series, list[IntArray]]:
    """The sorted distinct ids of all columns, and each column as indices of these."""
    same_type = _unify(columns)
    ids = pl.concat([distinct(column) for column in same_type]).unique().sort()
    if ids.dtype != pl.String:
        return ids, [np.searchsorted(ids.to_numpy(), column.to_numpy()) for column in same_type]
    position = pl.all().cast(pl.Enum(ids)).to_physical()
    frames = [column.to_frame().lazy().select(position).collect(engine="streaming") for column in same_type]
    return ids, [frame.to_series().rechunk().to_numpy() for frame in frames]


def _unify_times(frames: Sequence[pl.DataFrame]) -> Sequence[pl.DataFrame]:
    """Tables with comparable times: numbers with fractions if one table has them."""
    kinds = {frame.schema["time"] for frame in frames if "time" in frame.columns}
    if len(kinds) < 2:
        return frames
    if not all(kind.is_numeric() for kind in kinds):
        raise InputError(f"time: expected one kind in all tables, received {' and '.join(sorted(map(str, kinds)))}")
    return [frame.with_columns(pl.col("^time$").cast(pl.Float64)) for frame in frames]


def _unify(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Columns of one type: the common type, 64 bits for different integer types, else text."""
    kinds = {column.dtype for column in columns}
    if len(kinds) == 1:
        return list(columns)
    is_unsigned = all(kind.is_unsigned_integer() for kind in kinds)
    if is_unsigned or (all(kind.is_integer() for kind in kinds) and pl.UInt64 not in kinds):
        return [column.cast(pl.UInt64 if is_unsigned else pl.Int64) for column in columns]
    return [column.cast(pl.String) for column in columns]
