"""Comparison of several models on one split: tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from shortlist.data import Split
from shortlist.formatting import format_interval, format_range
from shortlist.metrics import Evaluation, Interval, bootstrap, by_activity, by_popularity
from shortlist.report.charts import curves, groups
from shortlist.report.page import Cell, Figure, Section, Table

SHOWN = {"ndcg": "NDCG@K", "recall": "Recall@K"}
"""The metrics that are shown, with their labels."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One of several models: test evaluation, beyond-accuracy metrics and training time."""

    name: str
    test: Evaluation
    beyond_accuracy: Mapping[str, float]
    seconds: float

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """95 % bootstrap intervals of the means that are shown."""
        shown = {name: values for name, values in self.test.per_query.items() if name.split("@")[0] in SHOWN}
        return bootstrap(shown, seed=0)


def table(entries: Sequence[Entry], k: int) -> Table:
    """NDCG, recall, coverage and seconds, with intervals; the best of each is marked."""
    columns = ["model", f"NDCG@{k}", f"Recall@{k}", f"coverage@{k}", "seconds to fit"]
    means = {entry.name: entry.test.means() for entry in entries}
    best = {metric: max(means[entry.name][metric] for entry in entries) for metric in (f"ndcg@{k}", f"recall@{k}")}

    def accuracy(entry: Entry, metric: str) -> Cell:
        mean, (low, high) = means[entry.name][metric], entry.intervals[metric]
        return Cell(f"{mean:.4f}", mean == best[metric], format_interval((low, high)))

    rows: list[list[Cell | str]] = [
        [
            entry.name,
            accuracy(entry, f"ndcg@{k}"),
            accuracy(entry, f"recall@{k}"),
            f"{entry.beyond_accuracy[f'coverage@{k}']:.1%}",
            f"{entry.seconds:.2f}",
        ]
        for entry in entries
    ]
    return Table(columns, rows, numbers=columns[1:])


def accuracy_section(entries: Sequence[Entry], k: int) -> Section:
    """The table, and the metrics against K."""
    figures = [
        Figure(f"{label} against K", curves(_against_k(entries, metric), title=label))
        for metric, label in SHOWN.items()
    ]
    users, skipped = len(entries[0].test.queries_R), entries[0].test.n_skipped
    left_out = f" ({skipped:,} users without a held-out item are excluded)" if skipped else ""
    text = (
        f"Means over {users:,} users{left_out}, ranked over the whole catalogue without the known items of a user. "
        "Ranges are 95 % bootstrap intervals over users. Coverage is the fraction of the catalogue in any list."
    )
    return Section("Accuracy on held-out items", [text], [table(entries, k)], figures)


def breakdown_section(entries: Sequence[Entry], split: Split, k: int) -> Section:
    """Metrics by user activity and item popularity."""
    assert split.test is not None
    activity_U, popularity_I = split.train.user_counts(), split.train.item_counts()
    by_user = [(entry.name, by_activity(entry.test, activity_U, groups=5)) for entry in entries]
    by_item = [(entry.name, by_popularity(entry.test, split.test, popularity_I, ks=[k], bands=5)) for entry in entries]
    activity = groups(_grouped(by_user, f"ndcg@{k}"), title=f"NDCG@{k}", axis="items of the user in training")
    recall = groups(_grouped(by_item, f"recall@{k}"), title=f"share found at {k}", axis="users of the item in training")
    shares = groups(
        _grouped(by_item, f"share@{k}"), title=f"share of places at {k}", axis="users of the item in training"
    )
    shown = curves(_coverage(entries), title="coverage@K")
    return Section(
        "By user activity and item popularity",
        [
            "Users are divided into five groups by the number of training items. Items are divided into bands that "
            "each hold a fifth of all training pairs, from the most popular items to the long tail."
        ],
        figures=[
            Figure("By the user's activity", activity),
            Figure("By the item's popularity", recall, "The fraction of held-out pairs that is found."),
            Figure("Exposure by popularity", shares, "The fraction of all places in the lists; a fifth would be even."),
            Figure("Coverage of the catalogue", shown, "The fraction of all items that appear in any list."),
        ],
    )


def _against_k(entries: Sequence[Entry], metric: str) -> pl.DataFrame:
    rows = [
        {"name": entry.name, "k": int(name.split("@")[1]), "mean": mean, "low": entry.intervals[name].low,
         "high": entry.intervals[name].high}
        for entry in entries
        for name, mean in entry.test.means().items()
        if name.split("@")[0] == metric
    ]  # fmt: skip
    return pl.DataFrame(rows)


def _coverage(entries: Sequence[Entry]) -> pl.DataFrame:
    rows = [
        {"name": entry.name, "k": int(name.split("@")[1]), "mean": value, "low": value, "high": value}
        for entry in entries
        for name, value in entry.beyond_accuracy.items()
        if name.startswith("coverage@")
    ]
    return pl.DataFrame(rows)


def _grouped(frames: Sequence[tuple[str, pl.DataFrame]], metric: str) -> pl.DataFrame:
    rows = [
        {"name": name, "group": format_range(row["from"], row["to"]), "value": row[metric]}
        for name, frame in frames
        for row in frame.iter_rows(named=True)
    ]
    return pl.DataFrame(rows)
