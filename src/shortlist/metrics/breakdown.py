"""Metrics by group: means by users' activity and recall by items' popularity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from shortlist.data import FloatArray, IntArray, Interactions
from shortlist.errors import InputError
from shortlist.metrics.beyond_accuracy import exposure
from shortlist.metrics.evaluation import KS, Evaluation
from shortlist.metrics.hits import find_hits


def by_activity(evaluation: Evaluation, activity_U: IntArray, *, groups: int = 4) -> pl.DataFrame:
    """Means of every metric for groups of users, from the least to the most active.

    ``activity_U`` is the number of training items of each user. Groups have nearly equal sizes; users with the same
    activity are in the same group. Columns: ``from``, ``to`` (activity), ``users`` and the metrics.
    """
    _check("groups", groups)
    activity_R = activity_U[evaluation.queries_R]
    share_R = np.searchsorted(np.sort(activity_R), activity_R) / max(1, len(activity_R))
    group_R = _floor_times(share_R, groups)
    frame = pl.DataFrame({"group": group_R, "activity": activity_R, **evaluation.per_query})
    return (
        frame.group_by("group")
        .agg(
            pl.col("activity").min().alias("from"),
            pl.col("activity").max().alias("to"),
            pl.len().alias("users"),
            *(pl.col(name).drop_nans().mean() for name in evaluation.per_query),
        )
        .sort("group")
        .drop("group")
    )


def by_popularity(
    evaluation: Evaluation, truth: Interactions, popularity_I: IntArray, *, ks: Sequence[int] = KS, bands: int = 4
) -> pl.DataFrame:
    """Recall and exposure for bands of items, from the most to the least popular.

    ``popularity_I`` is the number of training users of each item. Each band has about the same number of training
    interactions: the first contains the few most popular items, the last the long tail. Items of the same popularity
    are in the same band. Columns: ``from``, ``to`` (popularity), ``items``, ``pairs`` (of the truth), ``recall@K`` (the
    fraction of these pairs in the lists) and ``share@K`` (the band's fraction of all filled ranks).
    """
    _check("bands", bands)
    band_I = popularity_bands(popularity_I, bands)
    hits, ranking = find_hits(evaluation.ranking, truth), evaluation.ranking
    band_B = np.unique(band_I)
    pairs_B = np.bincount(band_I[truth.indices], minlength=bands)[band_B]
    columns: dict[str, IntArray | FloatArray | list[int]] = {
        "from": [int(popularity_I[band_I == band].min()) for band in band_B],
        "to": [int(popularity_I[band_I == band].max()) for band in band_B],
        "items": np.bincount(band_I)[band_B],
        "pairs": pairs_B,
    }
    for k in (k for k in ks if k <= ranking.k):
        found_B = np.bincount(band_I[hits.item_H[hits.within(k)]], minlength=bands)[band_B]
        columns[f"recall@{k}"] = _share(found_B, pairs_B)
        shown_B = np.bincount(band_I, exposure(ranking, k, len(band_I)), minlength=bands)[band_B]
        columns[f"share@{k}"] = _share(shown_B, shown_B.sum())
    return pl.DataFrame(columns)


def popularity_bands(popularity_I: IntArray, bands: int) -> IntArray:
    """The band of each item, 0 for the most popular: by the fraction of interactions with more popular items.

    >>> popularity_bands(np.array([1, 6, 1, 4, 0]), bands=2).tolist()
    [1, 0, 1, 1, 1]
    """
    descending_I = np.sort(popularity_I)[::-1]
    before_I = np.concatenate([[0], np.cumsum(descending_I)])
    more_popular_I = np.searchsorted(-descending_I, -popularity_I)
    return _floor_times(before_I[more_popular_I] / max(1, before_I[-1]), bands)


def _floor_times(share: FloatArray, n: int) -> IntArray:
    """The index of the n equal parts of [0, 1] that each value lies in."""
    return np.minimum(share * n, n - 1).astype(np.int64)


def _share(part_B: IntArray, whole_B: IntArray) -> FloatArray:
    value_B: FloatArray = np.full(len(part_B), np.nan)
    np.divide(part_B, whole_B, out=value_B, where=np.asarray(whole_B) > 0)
    return value_B


def _check(name: str, count: int) -> None:
    if count < 1:
        raise InputError(f"breakdown.{name}: expected a whole number of at least 1, received {count}")
