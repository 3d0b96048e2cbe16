"""Collaborative filtering: users are queries, items of the catalogue are ranked for them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from shortlist.data import Interactions, Split
from shortlist.errors import InputError
from shortlist.metrics import Evaluation, EvaluationSet, beyond_accuracy, evaluate
from shortlist.models import Popularity
from shortlist.scores import Sizes
from shortlist.tasks.base import Part, Task, registry
from shortlist.tasks.batches import UserBatches, collaborative_batches
from shortlist.tasks.settings import BatchSettings

PARTS = ("train", "valid", "test")


@registry.register("collaborative")
class Collaborative(Task):
    """Users and items of a split. Lists leave out what the split's protocol excludes.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> task = Collaborative(Split(train, valid=None, test=None))
    >>> task.sizes
    Sizes(n_keys=2, n_items=3, n_pairs=2)
    """

    name: ClassVar[str] = "collaborative"

    def __init__(self, split: Split) -> None:
        self.split = split

    @property
    def train(self) -> Interactions:
        """The interactions of training."""
        return self.split.train

    @property
    def sizes(self) -> Sizes:
        """Sizes for per-user state."""
        return Sizes(n_keys=self.train.n_users, n_items=self.train.n_items, n_pairs=self.train.n_pairs)

    @property
    def n_candidates(self) -> int:
        """The size of the catalogue."""
        return self.train.n_items

    @property
    def query_ids(self) -> pl.Series:
        """The ids of the users."""
        return self.train.user_ids.alias("user_id")

    @property
    def item_ids(self) -> pl.Series:
        """The ids of the items."""
        return self.train.item_ids.alias("item_id")

    def batches(self, settings: BatchSettings, sampled: int | None) -> UserBatches:
        """Batches of users, or of pairs where negatives are drawn for each."""
        return collaborative_batches(self.train, settings, sampled)

    def evaluation_set(self, part: Part) -> EvaluationSet | None:
        """Users with items in the part; exclusions are those of the split."""
        truth = self.split.valid if part == "valid" else self.split.test
        if truth is None or truth.n_pairs == 0:
            return None
        return EvaluationSet.of_users(truth, self.split.exclusions(part))

    def baseline_value(self, metric: str, k: int) -> float | None:
        """The value of popularity on validation."""
        valid = self.split.valid
        if valid is None or valid.n_pairs == 0:
            return None
        popularity = Popularity().fit(self.train)
        found = evaluate(popularity, valid, self.split.exclusions("valid"), [k], metrics=[metric])
        return found.means()[f"{metric}@{k}"]

    def beyond_accuracy(self, test: Evaluation, ks: Sequence[int]) -> Mapping[str, float]:
        """Coverage, Gini and mean popularity of the test lists at each K."""
        return beyond_accuracy(test.ranking, ks, self.train.item_counts())

    def summary(self) -> list[str]:
        """Users, items and pairs of training."""
        train = self.train
        return [f"{train.n_users:,} users, {train.n_items:,} items, {train.n_pairs:,} pairs for training"]

    def fingerprint(self) -> str:
        """A digest of all pairs and ids, and of events, times and weights if there are any."""
        digest = hashlib.blake2b(digest_size=12)
        for part in self._parts().values():
            digest.update(part.indptr.tobytes())
            digest.update(part.indices.tobytes())
        for ids in (self.train.user_ids, self.train.item_ids):
            digest.update("\n".join(map(str, ids.to_list())).encode())
        for name, part in self._parts().items():
            for column, values in _history(part).items():
                if column in ("time", "weight") or part.log is not None:
                    digest.update(f"{name} {column}".encode() + values.tobytes())
        return digest.hexdigest()

    def difference_at_test(self, other: Task) -> str | None:
        """Results are comparable where test items and protocol are the same, whatever the rest of the data."""
        if not isinstance(other, Collaborative):
            return f"data of the task {other.name}"
        if not test_pairs(self.split).equals(test_pairs(other.split)):
            return "other test items"
        ours, theirs = self.split.protocol, other.split.protocol
        return None if ours == theirs else f"the protocol {theirs!r} beside {ours!r}"

    def _parts(self) -> dict[str, Interactions]:
        """The existing parts, by name."""
        parts = {"train": self.split.train, "valid": self.split.valid, "test": self.split.test}
        return {name: part for name, part in parts.items() if part is not None}

    def tables(self) -> dict[str, pl.DataFrame]:
        """The ids of both kinds, and the history: the events of all parts, in chronological order for each user."""
        users, items = self.query_ids, self.item_ids
        length = max(len(users), len(items))
        ids = [series.extend_constant(None, length - len(series)) for series in (users, items)]  # padded with nulls
        parts = [pl.DataFrame(_history(part)).with_columns(part=pl.lit(name)) for name, part in self._parts().items()]
        history = pl.concat(parts, how="diagonal").with_columns(pl.col("part").cast(pl.Enum(PARTS)))
        return {"ids": pl.DataFrame(ids), "history": history}

    @classmethod
    def from_tables(cls, read: Callable[[str], pl.DataFrame], config: Mapping[str, Any]) -> Self:
        """The split of a run folder."""
        ids = read("ids")
        user_ids, item_ids = (_checked_ids(ids, name) for name in ("user_id", "item_id"))
        history = read("history")
        _check_history(history)
        parts = {
            str(name): Interactions.from_events(
                rows["user"].to_numpy(),
                rows["item"].to_numpy(),
                user_ids=user_ids,
                item_ids=item_ids,
                times=_column(rows, "time"),
                weights=_column(rows, "weight"),
            )
            for (name,), rows in history.group_by("part", maintain_order=True)
        }
        if "train" not in parts:
            raise InputError("history: expected pairs of the part train, received none")
        split = Split(
            parts["train"],
            parts.get("valid"),
            parts.get("test"),
            protocol=config["protocol"],
            frame_library=config.get("data", {}).get("frame_library", "polars"),
            origin=config.get("data", {}),
        )
        return cls(split)


def test_pairs(split: Split) -> pl.DataFrame:
    """The pairs of the test part by their ids, in order."""
    test = split.test
    if test is None:
        return pl.DataFrame({"user_id": split.train.user_ids.clear(), "item_id": split.train.item_ids.clear()})
    users, items = test.user_ids.gather(test.users_of_pairs()), test.item_ids.gather(test.indices)
    return pl.DataFrame({"user_id": users, "item_id": items}).sort("user_id", "item_id")


def _history(part: Interactions) -> dict[str, np.ndarray[Any, Any]]:
    """The columns of a part's events, or of its pairs without a log."""
    if part.log is None:
        columns = {"user": part.users_of_pairs(), "item": part.indices, "time": part.times, "weight": part.weights}
    else:
        events = part.events
        columns = {
            "user": events.users_of_events(),
            "item": events.items,
            "time": events.times,
            "weight": None if part.weights is None else events.weights,
        }
    return {name: values for name, values in columns.items() if values is not None}


def _checked_ids(table: pl.DataFrame, name: str) -> pl.Series:
    """The ids of one kind, which are followed by nulls where there are fewer of them than of the other kind."""
    ids = table[name].drop_nulls()
    if ids.dtype != pl.String and not ids.dtype.is_integer():
        raise InputError(f"{name}: expected text or whole numbers, received {ids.dtype}")
    if table[name].head(len(ids)).null_count():
        raise InputError(f"{name}: expected an id for each index, received gaps")
    if ids.n_unique() < len(ids):
        raise InputError(f"{name}: expected each id once, received {ids.filter(ids.is_duplicated())[0]!r} twice")
    return ids


def _check_history(history: pl.DataFrame) -> None:
    """Check what :class:`Interactions` would not notice; the range of indices is checked there."""
    for name in ("user", "item"):
        if not history[name].dtype.is_integer() or history[name].null_count():
            raise InputError(f"{name}: expected indices, received {history[name].dtype} or gaps")
    unknown = set(history["part"].cast(pl.String).unique().to_list()) - set(PARTS)
    if unknown:
        raise InputError(f"part: expected {', '.join(PARTS)}, received {next(iter(unknown))!r}")
    if "weight" in history.columns and not history["weight"].drop_nulls().cast(pl.Float64).is_finite().all():
        raise InputError("weight: expected finite numbers, received NaN or infinity")


def _column(rows: pl.DataFrame, name: str) -> np.ndarray[Any, Any] | None:
    """A column that may be missing in some parts."""
    if name not in rows.columns or rows[name].null_count() == len(rows):
        return None
    return rows[name].to_numpy()


def task_of(data: Task | Split | Interactions, valid: Interactions | None = None) -> Task:
    """The task of the caller's data: a task unchanged, collaborative filtering for interactions or a split."""
    if isinstance(data, Interactions):
        return Collaborative(Split(data, valid, None))
    if valid is not None:
        raise InputError("valid: expected none with a split or a task, which has its own, received interactions")
    return Collaborative(data) if isinstance(data, Split) else data
