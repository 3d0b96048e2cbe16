"""A run: written whole, opened with suspicion."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from shortlist import __version__
from shortlist.data import Interactions, Split
from shortlist.errors import InputError, WriteError
from shortlist.losses import registry as losses
from shortlist.metrics import Evaluation
from shortlist.models import Factored, Model, VectorBaseline, registry
from shortlist.runs.card import model_card
from shortlist.runs.evaluation import Evaluations, evaluate_split, known_pairs
from shortlist.runs.folder import CHECKPOINT, new_folder, replace_file
from shortlist.runs.identity import current_config
from shortlist.runs.ids import Ids
from shortlist.training import TrainingSettings, fold_in

FORMAT = 1
"""Grows when older versions could not read what newer ones write."""

FILES = (
    "config.json",
    "metrics.json",
    "per_user.parquet",
    "model.safetensors",
    "ids.parquet",
    "history.parquet",
    "log.jsonl",
    "model_card.md",
)
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Run:
    """A run on the disk. What is large is read when it is first asked for.

    ``config`` says what was done (``data``, ``model``, ``protocol``, ``seed`` …), ``metrics`` what came of it.
    """

    folder: Path
    config: Mapping[str, Any]
    metrics: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.resolve().name

    @property
    def protocol(self) -> str:
        """How the run was evaluated."""
        return str(self.config["protocol"])

    @cached_property
    def model(self) -> Model:
        """The fitted model."""
        path = self.folder / "model.safetensors"
        settings = dict(self.config["model"])
        model = registry[settings.pop("name")](**settings)
        with _readable(path, "the weights of a model"):
            model.load_state(load_file(path))
        return model

    @cached_property
    def users(self) -> Ids:
        """The users by their ids."""
        return Ids("user", self._table("ids.parquet")["user_id"].drop_nulls())

    @cached_property
    def items(self) -> Ids:
        """The items by their ids."""
        return Ids("item", self._table("ids.parquet")["item_id"].drop_nulls())

    @cached_property
    def split(self) -> Split:
        """The pairs that the model learned from and those it was asked for."""
        pairs = self._table("history.parquet")
        parts: dict[str, Interactions | None] = {
            str(part): Interactions.from_pairs(
                frame["user"].to_numpy(),
                frame["item"].to_numpy(),
                user_ids=self.users.values,
                item_ids=self.items.values,
            )
            for (part,), frame in pairs.group_by("part")
        }
        train = parts.get("train")
        if train is None:
            raise InputError(f"{self.folder / 'history.parquet'}: expected pairs of the part train, received none")
        return Split(train, parts.get("valid"), parts.get("test"))

    @cached_property
    def known_pairs(self) -> list[Interactions]:
        """What the run's lists leave out, by its protocol."""
        return known_pairs(self.split, self.protocol)

    @cached_property
    def per_user(self) -> pl.DataFrame:
        """A row for each user of the test part: ``user_id`` and a column a metric."""
        return self._table("per_user.parquet")

    def test_pairs(self) -> pl.DataFrame:
        """The pairs of the test part by their ids, in order: equal where two runs were asked for the same."""
        pairs = self._table("history.parquet").filter(pl.col("part") == "test")
        users, items = self.users.values.gather(pairs["user"]), self.items.values.gather(pairs["item"])
        return pl.DataFrame({"user_id": users, "item_id": items}).sort("user_id", "item_id")

    def fold_in(self, histories: Sequence[Sequence[Any] | pl.Series]) -> Tensor:
        """Vectors of people who were not there in training, by the ids of the items of their histories.

        They are found by the run's own loss and settings (:func:`shortlist.training.fold_in`), or solved for.
        """
        met = [self.items.indices(history) for history in histories]
        if isinstance(self.model, VectorBaseline):
            return self.model.fold_in(met)
        if not isinstance(self.model, Factored):
            name = self.config["model"]["name"]
            raise InputError(f"{self.folder}: expected a model of vectors to take a history, received {name}")
        told = dict(self.config["loss"])
        return fold_in(self.model, losses[told.pop("name")](**told), met, TrainingSettings(**self.config["training"]))

    def _table(self, name: str) -> pl.DataFrame:
        path = self.folder / name
        with _readable(path, "a Parquet table"):
            return pl.read_parquet(path)


def write_run(
    folder: str | Path,
    *,
    model: Model,
    name: str,
    split: Split,
    evaluations: Evaluations,
    config: Mapping[str, Any],
    seconds: Mapping[str, float],
    epochs: int = 0,
    log: Iterable[Mapping[str, Any]] = (),
    overwrite: bool = False,
) -> Run:
    """Write a run as a whole: its folder appears with everything in it, or not at all.

    ``name`` is that of the model in the registry; ``config`` the sections beside the model's own settings.
    """
    folder = Path(folder)
    whole_config = {"format": FORMAT, "shortlist": __version__, "model": {"name": name, **model.settings()}, **config}
    metrics = _metrics(evaluations, epochs, seconds)
    with new_folder(folder, overwrite=overwrite) as draft, _written(folder):
        (draft / "config.json").write_text(_as_text(whole_config), encoding="utf-8")
        (draft / "metrics.json").write_text(_as_text(metrics), encoding="utf-8")
        (draft / "per_user.parquet").write_bytes(_as_parquet(_per_user(evaluations.test, split)))
        save_file({key: tensor.contiguous() for key, tensor in model.state().items()}, draft / "model.safetensors")
        (draft / "ids.parquet").write_bytes(_as_parquet(_ids(split)))
        (draft / "history.parquet").write_bytes(_as_parquet(_history(split)))
        (draft / "log.jsonl").write_text("".join(json.dumps(dict(line)) + "\n" for line in log), encoding="utf-8")
        (draft / "model_card.md").write_text(model_card(model, whole_config, metrics, split), encoding="utf-8")
    return Run(folder, whole_config, metrics)


def open_run(folder: str | Path) -> Run:
    """Open a run, after a look at whether it is one."""
    folder = Path(folder)
    if not folder.is_dir():
        received = "a file" if folder.exists() else "nothing"
        raise InputError(f"{folder}: expected the folder of a run, received {received}")
    missing = next((name for name in FILES if not (folder / name).is_file()), None)
    if missing and (folder / CHECKPOINT).is_file():
        raise InputError(f"{folder}: expected a finished run, received one that stopped on the way (train --resume)")
    if missing:
        raise InputError(f"{folder}: expected the folder of a run, received one without {missing}")
    config = _read_json(folder / "config.json", ("format", "model", "protocol"))
    if config["format"] != FORMAT:
        raise InputError(f"{folder / 'config.json'}: expected a run of format {FORMAT}, received {config['format']!r}")
    metrics = _read_json(folder / "metrics.json", ("test", "valid", "users", "seconds"))
    for part in ("test", "valid", "seconds"):
        if not isinstance(metrics[part], dict):
            received = type(metrics[part]).__name__
            raise InputError(f"{folder / 'metrics.json'}: expected figures as {part}, received {received}")
    return Run(folder, current_config(config), metrics)


def remeasure(run: Run, ks: Sequence[int]) -> Run:
    """Measure a run by its saved model at other lengths of list too. Training is not done again.

    Metrics are written last: before that the run counts as not measured there, whatever happens on the way.
    """
    known = [int(k) for name in run.metrics["test"] if (k := name.partition("@")[2]).isdecimal()]
    evaluations = evaluate_split(run.model, run.split, protocol=run.protocol, ks=[*known, *ks])
    metrics = {**run.metrics, **_means(evaluations)}
    replace_file(run.folder / "per_user.parquet", _as_parquet(_per_user(evaluations.test, run.split)))
    replace_file(run.folder / "model_card.md", model_card(run.model, run.config, metrics, run.split).encode())
    replace_file(run.folder / "metrics.json", _as_text(metrics).encode())
    return Run(run.folder, run.config, metrics)


def _metrics(evaluations: Evaluations, epochs: int, seconds: Mapping[str, float]) -> dict[str, Any]:
    test = evaluations.test
    return {
        **_means(evaluations),
        "users": 0 if test is None else len(test.users_R),
        "skipped_users": 0 if test is None else test.skipped_users,
        "epochs": epochs,
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
    }


def _means(evaluations: Evaluations) -> dict[str, Any]:
    valid = evaluations.valid
    return {"test": _as_json(evaluations.test_means()), "valid": _as_json({} if valid is None else valid.means())}


def _as_json(means: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(mean) else mean for name, mean in means.items()}  # JSON has no NaN


def _per_user(test: Evaluation | None, split: Split) -> pl.DataFrame:
    user_ids = split.train.user_ids
    return pl.DataFrame({"user_id": user_ids.clear()}) if test is None else test.to_frame(user_ids)


def _ids(split: Split) -> pl.DataFrame:
    """Both kinds of id in one table, each in its own type; the shorter column is filled up with nulls."""
    users, items = split.train.user_ids, split.train.item_ids
    length = max(len(users), len(items))
    return pl.DataFrame({"user_id": users.extend_constant(None, length - len(users)),
                         "item_id": items.extend_constant(None, length - len(items))})  # fmt: skip


def _history(split: Split) -> pl.DataFrame:
    frames = [
        pl.DataFrame({"user": pairs.users_of_pairs(), "item": pairs.indices}).with_columns(part=pl.lit(part))
        for part, pairs in zip(PARTS, (split.train, split.valid, split.test), strict=True)
        if pairs is not None
    ]
    return pl.concat(frames).with_columns(pl.col("part").cast(pl.Enum(PARTS)))


def _as_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _as_parquet(table: pl.DataFrame) -> bytes:
    """By way of memory: polars would not say why a disk does not take what it writes."""
    content = BytesIO()
    table.write_parquet(content)
    return content.getvalue()


def _read_json(path: Path, keys: Iterable[str]) -> dict[str, Any]:
    with _readable(path, "JSON"):
        content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object, received {type(content).__name__}")
    missing = [key for key in keys if key not in content]
    if missing:
        raise InputError(f"{path}: expected the keys of a run, received none named {', '.join(missing)}")
    return content


@contextmanager
def _readable(path: Path, expected: str) -> Iterator[None]:
    """Say in one line that a file is not what it should be."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, pl.exceptions.PolarsError, SafetensorError) as problem:
        first_line = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise InputError(f"{path}: expected {expected}, received a damaged file ({first_line})") from problem


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    """Say in one line that a file could not be written."""
    try:
        yield
    except SafetensorError as problem:
        raise WriteError(f"{folder}: the run cannot be written: {problem}") from problem
