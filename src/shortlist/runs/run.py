"""Run folders: atomic writes, validated reads."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
from safetensors import SafetensorError
from safetensors.torch import save_file

from shortlist import __version__
from shortlist.data import LoadOptions
from shortlist.errors import InputError, WriteError
from shortlist.files import check_regular, json_text
from shortlist.metrics import Evaluation
from shortlist.models import Model, registry
from shortlist.models.state import check_finite
from shortlist.parameters import Configured
from shortlist.runs.card import model_card
from shortlist.runs.fitted import FittedModel
from shortlist.runs.folder import CHECKPOINT, kept_message, new_folder
from shortlist.runs.identity import current_config
from shortlist.runs.manifest import DamagedFile, RunFiles, replace_files, write_manifest
from shortlist.tasks import Collaborative, Evaluations, Task, evaluate_task, test_pairs
from shortlist.tasks import registry as tasks
from shortlist.training import OptimizerSettings, TrainingSettings

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
    """A run on disk. What is large is read when it is first asked for, and checked then."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], metrics: Mapping[str, Any], files: RunFiles | None = None
    ) -> None:
        self.folder, self._config, self._metrics = folder, config, metrics
        if files is not None:
            self._files = files

    @cached_property
    def _files(self) -> RunFiles:
        """The files as they were when the run was opened, or else when one is first read."""
        return RunFiles(self.folder)

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
        with _readable(self.folder / "config.json", "the settings of a model"):
            model = registry[settings.pop("name")](**settings)
        with _readable(path, "the weights of a model"):
            state = self._files.tensors(path.name)
            check_finite(state)
            model.load_state(state)
        if isinstance(self.task, Collaborative):
            train = self.task.train
            with _readable(path, "the weights of a model"):
                for what, known, received in (
                    ("items", train.n_items, model.n_items),
                    ("users", train.n_users, model.n_users),
                ):
                    if received is not None and received != known:
                        raise InputError(f"expected weights of {known:,} {what}, received those of {received:,}")
        return model

    @cached_property
    def task(self) -> Task:
        """The data, read from the run's own tables."""
        name, last = self.config.get("task", "collaborative"), ["ids"]

        def read(table: str) -> pl.DataFrame:
            last[0] = table
            return self._table(f"{table}.parquet")

        try:
            task = tasks[name].from_tables(read, self.config)
        except _NotReadable:
            raise
        except _DAMAGES as problem:
            raise _not_readable(self.folder / f"{last[0]}.parquet", "a table of a run", problem) from problem
        if isinstance(task, Collaborative) and self._files.digests is None:  # nothing else vouches for their order
            for ids in (task.query_ids, task.item_ids):
                if not bool((ids.slice(1) > ids.slice(0, len(ids) - 1)).all()):
                    disorder = InputError(f"{ids.name}: expected ids in order, received others")
                    raise _not_readable(self.folder / "ids.parquet", "a table of a run", disorder)
        return task

    @cached_property
    def per_user(self) -> pl.DataFrame:
        """A row for each query of the test part: its id and a column for each metric."""
        table, path = self._table("per_user.parquet"), self.folder / "per_user.parquet"
        with _readable(path, "a table of metrics"):
            if table.height != self.metrics["users"]:
                raise InputError(f"expected {self.metrics['users']:,} rows, received {table.height:,}")
            for name, dtype in table.schema.items():
                if "@" in name and not dtype.is_float():
                    raise InputError(f"{name}: expected numbers, received {dtype}")
            if table.width and table[:, 0].n_unique() < table.height:
                raise InputError(f"{table.columns[0]}: expected each id once, received repeated ones")
        return table

    def test_pairs(self) -> pl.DataFrame:
        """The pairs of the test part by their ids, in order: equal where two runs have the same test part."""
        return test_pairs(self.split)

    def _table(self, name: str) -> pl.DataFrame:
        path = self.folder / name
        with _readable(path, "a Parquet table"):
            return pl.read_parquet(self._files.read(name))


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

    def refitted(self, model: Model, epochs: int, seconds: float) -> Fitted:
        """The same with a model that was refitted on all data: the metrics stay those from before."""
        settings = dict(self.config["model"])
        sections = {name: value for name, value in self.config.items() if name not in ("format", "shortlist", "model")}
        return Fitted(
            model,
            settings["name"],
            self.task,
            self.evaluations,
            sections={**sections, "final": True, **({"final_epochs": epochs} if epochs else {})},
            seconds={**self.metrics["seconds"], "refit": seconds},
            epochs=self.metrics["epochs"],
            log=[*self.log, {"event": "refit", "seconds": round(seconds, 4)}],
        )


def write_run(
    folder: str | Path,
    fitted: Fitted,
    *,
    overwrite: bool = False,
    merge: bool = False,
    warn: Callable[[str], None] = lambda message: None,
) -> Run:
    """Write a run atomically: its folder appears with everything in it, or not at all.

    Files of others in a folder that is overwritten are kept, and ``warn`` is called with a notice. ``merge`` accepts a
    folder that has received such files since it was checked.
    """
    folder = Path(folder)

    def on_kept(names: list[str]) -> None:
        warn(kept_message(folder, names))

    config, metrics, model = fitted.config, fitted.metrics, fitted.model
    with new_folder(folder, overwrite=overwrite, merge=merge, on_kept=on_kept) as draft, _written(folder):
        (draft / "config.json").write_text(json_text(config), encoding="utf-8")
        (draft / "metrics.json").write_text(json_text(metrics), encoding="utf-8")
        (draft / "per_user.parquet").write_bytes(_as_parquet(fitted.per_user))
        save_file({key: tensor.contiguous() for key, tensor in model.state().items()}, draft / "model.safetensors")
        for name, table in fitted.task.tables().items():
            (draft / f"{name}.parquet").write_bytes(_as_parquet(table))
        lines = "".join(json.dumps(dict(line)) + "\n" for line in fitted.log)
        (draft / "log.jsonl").write_text(lines, encoding="utf-8")
        (draft / "model_card.md").write_text(model_card(model, config, metrics, fitted.task), encoding="utf-8")
        write_manifest(draft)
    return Run(folder, config, metrics, RunFiles(folder))


def copy_run(run: Run, folder: str | Path, *, overwrite: bool = False) -> Run:
    """Copy a run to another folder, which appears with everything in it, or not at all."""
    target = Path(folder)
    with new_folder(target, overwrite=overwrite) as draft:
        for path in sorted(run.folder.iterdir()):
            if path.is_file():
                shutil.copyfile(path, draft / path.name)
    return open_run(target)


def open_run(folder: str | Path, *, check: bool = True) -> Run:
    """Open a run. All of its files are checked against its manifest: sizes, and digests where files are small.

    With ``check=False`` only configuration and metrics are; each of the others when it is read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        received = "a file" if folder.exists() else "nothing"
        raise InputError(f"{folder}: expected the folder of a run, received {received}")
    missing = next((name for name in FILES if not (folder / name).is_file()), None)
    if missing and (folder / CHECKPOINT).is_file():
        raise InputError(f"{folder}: expected a finished run, received one that stopped on the way (train --resume)")
    if missing:
        raise InputError(f"{folder}: expected the folder of a run, received one without {missing}")
    inode = folder.stat().st_ino
    try:
        return _open(folder, check)
    except InputError:
        if folder.is_dir() and folder.stat().st_ino != inode:  # replaced while it was being opened
            return _open(folder, check)
        raise


def _open(folder: Path, check: bool) -> Run:
    with _readable(folder, "the folder of a run"):
        files = RunFiles(folder)
    config = _read_json(files, "config.json", ("format", "model", "protocol"))
    path = folder / "config.json"
    if config["format"] != FORMAT:
        raise InputError(f"{path}: expected a run of format {FORMAT}, received {config['format']!r}")
    with _readable(path, "the configuration of a run"):
        config = _checked_config(config)
    metrics = _read_json(files, "metrics.json", ("test", "valid", "users", "seconds"))
    for part in ("test", "valid", "seconds"):
        if not isinstance(metrics[part], dict):
            received = type(metrics[part]).__name__
            raise InputError(f"{folder / 'metrics.json'}: expected figures as {part}, received {received}")
    files.check(None if check else ("config.json", "metrics.json"))
    with _readable(folder / "metrics.json", "the metrics of a run"):
        _check_metrics(metrics)
    return Run(folder, config, metrics, files)


def _checked_config(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration under current names, after a check of the types of what is read from it."""
    for section in ("model", "loss", "optimizer", "training", "data", "tuned"):
        if not isinstance(config.get(section, {}), dict):
            raise InputError(f"{section}: expected settings, received {type(config[section]).__name__}")
    for section in ("model", "loss"):
        if section in config and not isinstance(config[section].get("name"), str):
            raise InputError(f"{section}.name: expected a name, received {config[section].get('name')!r:.60}")
    for name in ("k", "seed"):
        if name in config and (not isinstance(config[name], int) or isinstance(config[name], bool)):
            raise InputError(f"{name}: expected a whole number, received {config[name]!r:.60}")
    task = config.get("task", "collaborative")
    if not isinstance(task, str) or task not in tasks:
        raise InputError(f"task: expected one of {', '.join(tasks)}, received {task!r:.60}")
    known = LoadOptions.declared["protocol"]
    if not isinstance(config["protocol"], str) or (task == "collaborative" and not known.accepts(config["protocol"])):
        raise InputError(f"protocol: expected {known.allowed()}, received {config['protocol']!r:.60}")
    current = current_config(config)
    owners: dict[str, type[Configured]] = {"optimizer": OptimizerSettings, "training": TrainingSettings}
    for section, owner in owners.items():
        owner(**{name: value for name, value in current.get(section, {}).items() if name in owner.declared})
    return current


def _check_metrics(metrics: Mapping[str, Any]) -> None:
    """Check that metrics are numbers or missing, under names such as ``ndcg@20``."""
    for part in ("test", "valid"):
        for name, value in metrics[part].items():
            if not isinstance(value, int | float | None) or isinstance(value, bool):
                raise InputError(f"{part}.{name}: expected a number, received {value!r:.60}")
            length = name.partition("@")
            if length[1] and not (length[2].isascii() and length[2].isdecimal() and len(length[2]) < 10):
                raise InputError(f"{part}: expected names such as ndcg@20, received {name!r:.60}")
    for name in ("users", "skipped_users", "epochs"):
        value = metrics.get(name, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InputError(f"{name}: expected a whole number, received {value!r:.60}")


def remeasure(run: Run, ks: Sequence[int]) -> Run:
    """Measure a run by its saved model at other lengths of list too. Training is not done again.

    Metrics are written last: before that the run counts as not measured there, whatever happens on the way.
    """
    run.check_measurable(str(run.folder))
    known = [int(k) for name in run.metrics["test"] if (k := name.partition("@")[2]).isdecimal()]
    evaluations = evaluate_task(run.model, run.task, ks=[*known, *ks])
    metrics = {**run.metrics, **_means(evaluations)}
    contents = {
        "per_user.parquet": _as_parquet(_per_query(evaluations.test, run.task)),
        "model_card.md": model_card(run.model, run.config, metrics, run.task).encode(),
        "metrics.json": json_text(metrics).encode(),
    }
    replace_files(run.folder, contents)
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


def _read_json(files: RunFiles, name: str, keys: Iterable[str]) -> dict[str, Any]:
    path = files.folder / name
    with _readable(path, "JSON"):
        check_regular(path)
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda text: None)  # NaN is missing
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object, received {type(content).__name__}")
    missing = [key for key in keys if key not in content]
    if missing:
        raise InputError(f"{path}: expected the keys of a run, received none named {', '.join(missing)}")
    return content


class _NotReadable(InputError):
    """A file of a run is damaged; the message names it."""


_DAMAGES = (
    *(OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, IndexError, OverflowError, MemoryError),
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException, SafetensorError),
)
"""What readers raise when a file is not what it should be."""


@contextmanager
def _readable(path: Path, expected: str) -> Iterator[None]:
    """Say in one line that a file is not what it should be."""
    try:
        yield
    except _DAMAGES as problem:
        raise _not_readable(path, expected, problem) from problem


def _not_readable(path: Path, expected: str, problem: BaseException) -> InputError:
    reason = problem.reason if isinstance(problem, DamagedFile) else str(problem)
    first_line = next(iter(reason.splitlines()), type(problem).__name__)
    if isinstance(problem, InputError) and first_line.startswith(str(path)):  # it names the file itself
        return _NotReadable(first_line)
    return _NotReadable(f"{path}: expected {expected}, received a damaged file ({first_line:.300})")


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    """Say in one line that a file could not be written."""
    try:
        yield
    except SafetensorError as problem:
        raise WriteError(f"{folder}: the run cannot be written: {problem}") from problem
