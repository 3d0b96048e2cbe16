"""Several models on one split, side by side: tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from shortlist.data import Split
from shortlist.metrics import Evaluation, Interval, bootstrap, by_activity, by_popularity
from shortlist.report.charts import curves, groups, span
from shortlist.report.page import Cell, Figure, Section, Table

SHOWN = {"ndcg": "NDCG@K", "recall": "Recall@K"}
"""The metrics that are shown, and how they are called."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One model of several: its test evaluation, what its lists do to the catalogue, and the seconds it took to fit."""

    name: str
    test: Evaluation
    catalogue: Mapping[str, float]
    seconds: float

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """95 % bootstrap intervals of the means that are shown."""
        shown = {name: values for name, values in self.test.per_user.items() if name.split("@")[0] in SHOWN}
        return bootstrap(shown, seed=0)


def table(entries: Sequence[Entry], k: int) -> Table:
    """NDCG, recall, coverage and seconds, with intervals; the best of each is marked."""
    columns = ["model", f"NDCG@{k}", f"Recall@{k}", f"coverage@{k}", "seconds to fit"]
    means = {entry.name: entry.test.means() for entry in entries}
    best = {metric: max(means[entry.name][metric] for entry in entries) for metric in (f"ndcg@{k}", f"recall@{k}")}

    def accuracy(entry: Entry, metric: str) -> Cell:
        mean, (low, high) = means[entry.name][metric], entry.intervals[metric]
        return Cell(f"{mean:.4f}", mean == best[metric], f"{low:.4f} – {high:.4f}")

    rows: list[list[Cell | str]] = [
        [
            entry.name,
            accuracy(entry, f"ndcg@{k}"),
            accuracy(entry, f"recall@{k}"),
            f"{entry.catalogue[f'coverage@{k}']:.1%}",
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
    users, skipped = len(entries[0].test.users_R), entries[0].test.skipped_users
    left_out = f" ({skipped:,} users without a held-out item are left out)" if skipped else ""
    text = (
        f"Means over {users:,} users{left_out}, ranked over the whole catalogue without what a user already has. "
        "Ranges are 95 % bootstrap intervals over users. Coverage is the share of the catalogue that any list shows."
    )
    return Section("How well held-out items are found", [text], [table(entries, k)], figures)


def breakdown_section(entries: Sequence[Entry], split: Split, k: int) -> Section:
    """For whom and for which items the models are good."""
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
        "For whom, and for which items",
        [
            "Users are cut into fifths by how many items they have in training. Items are cut into bands that each "
            "hold a fifth of all training pairs, from the few that everybody has to the long tail."
        ],
        figures=[
            Figure("By the user's activity", activity),
            Figure("By the item's popularity", recall, "The share of held-out pairs that is found."),
            Figure("Who gets the places", shares, "The share of all places in the lists; an even share is a fifth."),
            Figure("How much of the catalogue is shown", shown, "The share of all items that stands in any list."),
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
        for name, value in entry.catalogue.items()
        if name.startswith("coverage@")
    ]
    return pl.DataFrame(rows)


def _grouped(frames: Sequence[tuple[str, pl.DataFrame]], metric: str) -> pl.DataFrame:
    rows = [
        {"name": name, "group": span(row["from"], row["to"]), "value": row[metric]}
        for name, frame in frames
        for row in frame.iter_rows(named=True)
    ]
    return pl.DataFrame(rows)
