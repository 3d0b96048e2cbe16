"""Metrics by user activity and item popularity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from shortlist.data import IntArray
from shortlist.formatting import MISSING, format_number, format_range
from shortlist.metrics import Evaluation, by_activity, by_popularity
from shortlist.ranking import Ranking, top_k
from shortlist.report.charts import groups
from shortlist.report.page import Figure, Section, Table
from shortlist.report.run.context import RANKED, SHOWN, Subject
from shortlist.report.run.score_analysis import FEWEST


def breakdown_section(subject: Subject) -> Section:
    """By the user's activity and by the item's popularity."""
    title, split, k = "By user activity and item popularity", subject.split, subject.k
    if split.test is None or not subject.per_user:
        return Section(title, ["The run has no test items to evaluate users and items by."])
    users_R = subject.run.users.indices(subject.run.per_user["user_id"])
    nothing = Ranking(users_R, np.empty((len(users_R), 0), np.int32), np.empty((len(users_R), 0), np.float32))
    by_user = by_activity(Evaluation(users_R, subject.per_user, 0, nothing), split.train.user_counts(), groups=5)
    ranked_R, texts = _sample(users_R, split.train.n_items, subject.seed), []
    if len(ranked_R) < len(users_R):
        texts.append(
            f"By the item's popularity, {len(ranked_R):,} of the {len(users_R):,} users were ranked again, drawn at "
            "random, because the catalogue is large."
        )
    by_item = _by_popularity(subject, ranked_R)
    return Section(title, texts, figures=[_activity(by_user, k), *_popularity(by_item, k)])


def _sample(users_R: IntArray, n_items: int, seed: int) -> IntArray:
    most = max(FEWEST, RANKED // max(1, n_items))
    if len(users_R) <= most:
        return users_R
    return np.sort(np.random.default_rng([seed, 1]).choice(users_R, most, replace=False))


def _by_popularity(subject: Subject, users_R: IntArray) -> pl.DataFrame:
    split, k = subject.split, subject.k
    assert split.test is not None
    ranking = top_k(subject.run.model, users_R, k, exclude=subject.run.measured_exclusions)
    truth = split.test.select(np.isin(split.test.users_of_pairs(), users_R))
    counts_I = split.train.item_counts()
    return by_popularity(Evaluation(users_R, {}, 0, ranking), truth, counts_I, ks=[k], bands=5)


def _activity(frame: pl.DataFrame, k: int) -> Figure:
    names = {f"{name}@{k}": f"{SHOWN[name]}@{k}" for name in ("ndcg", "recall") if f"{name}@{k}" in frame.columns}
    rows = list(frame.iter_rows(named=True))
    points = [
        {"name": label, "group": _group(row), "value": row[name]} for name, label in names.items() for row in rows
    ]
    columns = ["items in training", "users", *names.values()]
    return Figure(
        "By the user's activity",
        groups(pl.DataFrame(points), title=f"mean at K = {k}", axis="items of the user in training"),
        "Users in five groups of about the same size, by the number of training items. A level line means equal "
        "quality for all users; recall falls for the most active, who have more held-out items than K places.",
        "; ".join(f"users with {_group(row)} items: {row[next(iter(names))]:.4f}" for row in rows) + ".",
        Table(
            columns,
            [
                [_group(row), f"{row['users']:,}", *(format_number(row[name], missing=MISSING) for name in names)]
                for row in rows
            ],
            numbers=columns,
        ),
    )


def _popularity(frame: pl.DataFrame, k: int) -> list[Figure]:
    rows = list(frame.iter_rows(named=True))
    columns = ["users in training", "items", "held-out pairs", f"recall@{k}", "share of places"]
    table = Table(
        columns,
        [
            [
                _group(row),
                f"{row['items']:,}",
                f"{row['pairs']:,}",
                format_number(row[f"recall@{k}"], missing=MISSING) if row["pairs"] else MISSING,
                f"{row[f'share@{k}']:.1%}",
            ]
            for row in rows
        ],
        numbers=columns,
    )
    found = [{"name": f"recall@{k}", "group": _group(row), "value": row[f"recall@{k}"]} for row in rows if row["pairs"]]
    taken = [{"name": "share of places", "group": _group(row), "value": row[f"share@{k}"]} for row in rows]
    axis = "users of the item in training"
    return [
        Figure(
            "By the item's popularity",
            groups(pl.DataFrame(found), title=f"share found at {k}", axis=axis),
            "Items in bands that each hold a fifth of all training pairs, from the most popular items to the long "
            "tail. Every model finds popular items more easily; a good one does not drop to zero on the right.",
            "; ".join(f"items with {row['group']} users: {row['value']:.4f} found" for row in found) + ".",
            table,
        ),
        Figure(
            "Exposure by popularity",
            groups(pl.DataFrame(taken), title=f"share of places at {k}", axis=axis),
            "The fraction of all places in the lists that each band takes. Each band has a fifth of the training "
            "pairs; a line that starts far above a fifth favours popular items.",
            "; ".join(f"items with {row['group']} users: {row['value']:.1%}" for row in taken) + ".",
        ),
    ]


def _group(row: Mapping[str, Any]) -> str:
    return format_range(row["from"], row["to"])
