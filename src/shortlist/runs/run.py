"""Run folders: atomic writes, validated reads."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from shortlist import __version__
from shortlist.errors import InputError, WriteError
from shortlist.files import json_text
from shortlist.metrics import Evaluation
from shortlist.models import Model, registry
from shortlist.runs.card import model_card
from shortlist.runs.fitted import FittedModel
from shortlist.runs.folder import CHECKPOINT, new_folder, replace_file
from shortlist.runs.identity import current_config
from shortlist.tasks import Evaluations, Task, evaluate_task, test_pairs
from shortlist.tasks import registry as tasks

FORMAT = 1
"""Grows when older versions could not read what newer ones write."""

FILES = (
    "config.json",
    "metrics.json",
    "per_user.parquet",
    "model.safetensors",
    "log.jsonl",
    "model_card.md",
)


class Run(FittedModel):
    """A run on disk. What is large is read when it is first asked for."""

    def __init__(self, folder: Path, config: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        self.folder, self._config, self._metrics = folder, config, metrics

    @property
    def config(self) -> Mapping[str, Any]:
        """What was done (``data``, ``model``, ``protocol``, ``seed`` …)."""
        return self._config

    @property
    def metrics(self) -> Mapping[str, Any]:
        """What was measured."""
        return self._metrics

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    @property
    def protocol(self) -> str:
        """The protocol of the evaluation."""
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
    def task(self) -> Task:
        """The data, read from the run's own tables."""
        return tasks[self.config.get("task", "collaborative")].from_tables(self._data_table, self.config)

    @cached_property
    def per_user(self) -> pl.DataFrame:
        """A row for each query of the test part: its id and a column for each metric."""
        return self._table("per_user.parquet")

    def test_pairs(self) -> pl.DataFrame:
        """The pairs of the test part by their ids, in order: equal where two runs have the same test part."""
        return test_pairs(self.split)

    def _data_table(self, name: str) -> pl.DataFrame:
        return self._table(f"{name}.parquet")

    def _table(self, name: str) -> pl.DataFrame:
        path = self.folder / name
        with _readable(path, "a Parquet table"):
            return pl.read_parquet(path)


class Fitted(FittedModel):
    """A fitted model in memory, what it was measured to do, and everything that a run folder says of it.

    ``name`` is that of the model in the registry; ``sections`` are those of ``config.json`` beside the model's own.
    """

    def __init__(
        self,
        model: Model,
        name: str,
        task: Task,
        evaluations: Evaluations,
        *,
        sections: Mapping[str, Any],
        seconds: Mapping[str, float],
        epochs: int = 0,
        log: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._model, self._task, self.evaluations, self.log = model, task, evaluations, log
        settings = {"name": name, **model.settings()}
        self._config = {"format": FORMAT, "shortlist": __version__, "model": settings, **sections}
        self._metrics = _metrics(evaluations, epochs, seconds)

    @property
    def model(self) -> Model:
        """The fitted model."""
        return self._model

    @property
    def task(self) -> Task:
        """The data, with the rules of its task."""
        return self._task

    @property
    def config(self) -> Mapping[str, Any]:
        """What ``config.json`` holds."""
        return self._config

    @property
    def metrics(self) -> Mapping[str, Any]:
        """What ``metrics.json`` holds."""
        return self._metrics

    @cached_property
    def per_user(self) -> pl.DataFrame:
        """A row for each query of the test part: its id and a column for each metric."""
        return _per_query(self.evaluations.test, self.task)


def write_run(folder: str | Path, fitted: Fitted, *, overwrite: bool = False) -> Run:
    """Write a run atomically: its folder appears with everything in it, or not at all."""
    folder = Path(folder)
    config, metrics, model = fitted.config, fitted.metrics, fitted.model
    with new_folder(folder, overwrite=overwrite) as draft, _written(folder):
        (draft / "config.json").write_text(json_text(config), encoding="utf-8")
        (draft / "metrics.json").write_text(json_text(metrics), encoding="utf-8")
        (draft / "per_user.parquet").write_bytes(_as_parquet(fitted.per_user))
        save_file({key: tensor.contiguous() for key, tensor in model.state().items()}, draft / "model.safetensors")
        for name, table in fitted.task.tables().items():
            (draft / f"{name}.parquet").write_bytes(_as_parquet(table))
        lines = "".join(json.dumps(dict(line)) + "\n" for line in fitted.log)
        (draft / "log.jsonl").write_text(lines, encoding="utf-8")
        (draft / "model_card.md").write_text(model_card(model, config, metrics, fitted.task), encoding="utf-8")
    return Run(folder, config, metrics)


def copy_run(run: Run, folder: str | Path, *, overwrite: bool = False) -> Run:
    """Copy a run to another folder, which appears with everything in it, or not at all."""
    target = Path(folder)
    with new_folder(target, overwrite=overwrite) as draft:
        for path in sorted(run.folder.iterdir()):
            if path.is_file():
                shutil.copyfile(path, draft / path.name)
    return open_run(target)


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
    evaluations = evaluate_task(run.model, run.task, ks=[*known, *ks])
    metrics = {**run.metrics, **_means(evaluations)}
    replace_file(run.folder / "per_user.parquet", _as_parquet(_per_query(evaluations.test, run.task)))
    replace_file(run.folder / "model_card.md", model_card(run.model, run.config, metrics, run.task).encode())
    replace_file(run.folder / "metrics.json", json_text(metrics).encode())
    return Run(run.folder, run.config, metrics)


def _metrics(evaluations: Evaluations, epochs: int, seconds: Mapping[str, float]) -> dict[str, Any]:
    test = evaluations.test
    return {
        **_means(evaluations),
        "users": 0 if test is None else len(test.queries_R),
        "skipped_users": 0 if test is None else test.n_skipped,
        "epochs": epochs,
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
    }


def _means(evaluations: Evaluations) -> dict[str, Any]:
    valid = evaluations.valid
    return {"test": _as_json(evaluations.test_means()), "valid": _as_json({} if valid is None else valid.means())}


def _as_json(means: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(mean) else mean for name, mean in means.items()}  # JSON has no NaN


def _per_query(test: Evaluation | None, task: Task) -> pl.DataFrame:
    ids = task.query_ids
    return pl.DataFrame({ids.name: ids.clear()}) if test is None else test.to_frame(ids)


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
