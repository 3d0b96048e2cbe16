"""An experiment: a model is fitted with its training settings, evaluated on a task, and written as a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from shortlist.data import Split
from shortlist.errors import InputError
from shortlist.losses import Loss
from shortlist.losses import registry as losses
from shortlist.metrics import evaluate_set
from shortlist.models import Model, TrainableModel
from shortlist.models import registry as models
from shortlist.runs.folder import CHECKPOINT, MARK, check_target, lock, writing
from shortlist.runs.identity import difference
from shortlist.runs.run import Fitted, Run, write_run
from shortlist.tasks import Evaluations, Task, checked_ks, default_ks, evaluate_task, task_of
from shortlist.tracking.base import RunInfo, Tracker, TrackerGroup, track
from shortlist.training import OptimizerSettings, Progress, Training, TrainingSettings
from shortlist.training.checkpoint import Compared, load

SECTIONS = ("model", "loss", "optimizer", "training")
"""Sections of settings: the part before the dot in ``loss.tau``."""

TEMPERATURE_SEARCH = "temperature_search"
"""The name of the temperature search in the log and in the timings of a run."""

Settings = Mapping[str, Mapping[str, Any]]
"""Values by section and name."""


@dataclass(frozen=True)
class ExperimentConfig:
    """What is fitted and how. Baselines have no loss; K is also the K of the validation metric by default."""

    model_name: str
    model: Model
    loss_name: str | None
    loss: Loss | None
    optimizer: OptimizerSettings
    training: TrainingSettings
    k: int

    @property
    def tau_is_open(self) -> bool:
        """Whether short trials on validation should find the temperature."""
        loss = self.loss
        return (
            loss is not None
            and "tau" in loss.declared
            and "tau" not in loss.given
            and self.training.temperature_epochs > 0
        )

    def config(self) -> dict[str, Any]:
        """The sections of ``config.json``, except the model's."""
        task = {} if self.model.task == "collaborative" else {"task": self.model.task}
        if self.loss is None:
            return {**task, "k": self.k}
        return {
            **task,
            "k": self.k,
            "loss": {"name": self.loss_name, **self.loss.settings()},
            "optimizer": self.optimizer.settings(),
            "training": self.training.settings(),
        }

    def decides(self) -> tuple[str, int]:
        """The validation metric and its K."""
        return self.training.validation_metric(self.k)


def plan(
    model: str = "mf",
    loss: str | None = None,
    k: int = 20,
    values: Settings | None = None,
    texts: Mapping[str, Mapping[str, str]] | None = None,
) -> ExperimentConfig:
    """A configuration from names and settings: ``values`` are typed, ``texts`` are parsed from a command line.

    A trainable model has a default loss, and by default its similarity is that of the loss.

    >>> plan("mf", "slatk", k=10, texts={"loss": {"tau": "0.1"}}).loss.settings()["tau"]
    0.1
    """
    _check_k(k)
    values, texts = values or {}, texts or {}

    def settings_of(section: str, **defaults: Any) -> tuple[dict[str, Any], Mapping[str, str]]:
        return {**defaults, **values.get(section, {})}, texts.get(section, {})

    model_class = models[model]
    if not model_class.is_trained:
        given = next((section for section in SECTIONS[1:] if values.get(section) or texts.get(section)), None)
        if loss is not None or given is not None:
            raise InputError(f"{model}: expected no loss or training settings (it has none), received {loss or given}")
        chosen, typed = settings_of("model")
        return configure(model_class.from_text(typed, **chosen), None, k=k, model_name=model)
    name = loss or cast(type[TrainableModel], model_class).default_loss
    loss_class = losses[name]
    chosen, typed = settings_of("loss", **({"k": k} if "k" in loss_class.declared else {}))
    chosen_loss = loss_class.from_text(typed, **chosen)
    similarity = {"similarity": loss_class.similarity} if "similarity" in model_class.declared else {}
    chosen, typed = settings_of("model", **similarity)
    chosen_model = model_class.from_text(typed, **chosen)
    chosen, typed = settings_of("optimizer")
    optimizer = OptimizerSettings.from_text(typed, **chosen)
    chosen, typed = settings_of("training")
    training = TrainingSettings.from_text(typed, **chosen)
    return configure(
        chosen_model, chosen_loss, optimizer=optimizer, training=training, k=k, model_name=model, loss_name=name
    )


def configure(
    model: Model,
    loss: Loss | None,
    *,
    optimizer: OptimizerSettings | None = None,
    training: TrainingSettings | None = None,
    k: int = 20,
    model_name: str | None = None,
    loss_name: str | None = None,
) -> ExperimentConfig:
    """A configuration from instances; their names are those of their classes in the registries."""
    _check_k(k)
    result = ExperimentConfig(
        model_name or models.name_of(type(model)),
        model,
        None if loss is None else loss_name or losses.name_of(type(loss)),
        loss,
        optimizer or OptimizerSettings(),
        training or TrainingSettings(),
        k,
    )
    result.decides()
    return result


def _check_k(k: int) -> None:
    if k < 1:
        raise InputError(f"K: expected a whole number of at least 1, received {k}")


@dataclass
class Callbacks:
    """Functions that are called while an experiment runs."""

    stage: Callable[[str], Any] = field(default=lambda label: nullcontext())
    """A context manager for each stage, by its label."""
    epoch: Callable[[Progress, float], None] = field(default=lambda progress, share: None)
    """Called with the state of training and the completed fraction of the epoch."""
    evaluation: Callable[[int, int], None] = field(default=lambda done, total: None)
    """Called with the number of evaluated queries and their total."""
    warning: Callable[[str], None] = field(default=lambda text: print(f"shortlist: {text}", file=sys.stderr))
    """Called with a problem that does not stop the experiment."""


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """The fitted and evaluated model, and its run, if any."""

    fitted: Fitted
    written: Run | None = None

    @property
    def evaluations(self) -> Evaluations:
        """The evaluations that the metrics were computed from."""
        return self.fitted.evaluations

    @property
    def run(self) -> Run:
        """The run on disk."""
        assert self.written is not None
        return self.written


def fit(
    chosen: ExperimentConfig,
    data: Task | Split,
    out: Path | None = None,
    *,
    config: Mapping[str, Any],
    ks: Sequence[int] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    seconds: Mapping[str, float] | None = None,
    callbacks: Callbacks | None = None,
    trackers: Sequence[Tracker] = (),
) -> ExperimentResult:
    """Fit and evaluate; write a run if ``out`` is given. ``config`` holds ``data``, ``protocol`` and ``seed``.

    During training, ``out`` contains a checkpoint from which ``resume`` continues; without one, training begins from
    the start, with a warning. ``trackers`` receive configuration, curves and results.
    """
    task, callbacks, seed = task_of(data), callbacks or Callbacks(), int(config["seed"])
    lengths = lengths_of(chosen, task, ks)
    if out is not None:
        check_target(out, overwrite=overwrite, resume=resume)
        if resume and not (out / CHECKPOINT).is_file():  # interrupted before the first checkpoint, or a mistyped name
            callbacks.warning(f"{out}: nothing to resume; starting a new training")
            resume = False
    progress, times = Progress(), dict(seconds or {})
    training = training_of(chosen, task, seed) if chosen.model.is_trained else None
    compared = partial(difference, tau_is_open=chosen.tau_is_open) if resume else None
    if training is not None and chosen.tau_is_open:
        checkpoint = out / CHECKPOINT if resume and out is not None else None
        training = _find_temperature(chosen, training, checkpoint, callbacks, progress.log)
        chosen = replace(chosen, loss=training.loss)
    sections = {**chosen.config(), **config}
    model = {"name": chosen.model_name, **chosen.model.settings()}
    info = RunInfo((out or Path("memory")).resolve(), {"model": model, **sections}, resumed=resume)
    with track(trackers, info, callbacks.warning) as tracked:
        started = perf_counter()
        with callbacks.stage(f"fitting {chosen.model_name}"):
            if training is None:
                tracked.begin()
                chosen.model.fit(task.train, seed=seed)
            else:
                training.progress = progress
                progress = _train(chosen, training, out, compared, sections, callbacks, tracked)
        times |= {line["event"]: line["seconds"] for line in progress.log if "event" in line}
        times["train"] = progress.seconds or perf_counter() - started
        overwrite = overwrite or (out is not None and (out / CHECKPOINT).is_file())
        result = measure(
            chosen, task, out, progress, config=config, ks=lengths, overwrite=overwrite, seconds=times,
            callbacks=callbacks,
        )  # fmt: skip
        tracked.close("finished", result.fitted.metrics)
    return result


def _find_temperature(
    chosen: ExperimentConfig,
    training: Training,
    checkpoint: Path | None,
    callbacks: Callbacks,
    log: list[dict[str, Any]],
) -> Training:
    """The training with the temperature that short trials find, or that a checkpoint was made with."""
    if checkpoint is not None:  # it was found before the first checkpoint was written
        tau = load(checkpoint).facts["identity"].get("loss", {}).get("tau")
        return training_of(with_temperature(chosen, tau), training.task, training.seed)
    if training.valid is not None:
        started = perf_counter()
        with callbacks.stage("searching the temperature"):
            training.search_temperature()
        log.append({"event": TEMPERATURE_SEARCH, "seconds": round(perf_counter() - started, 4)})
    return training


def measure(
    chosen: ExperimentConfig,
    data: Task | Split,
    out: Path | None,
    progress: Progress,
    *,
    config: Mapping[str, Any],
    ks: Sequence[int],
    overwrite: bool = False,
    seconds: Mapping[str, float],
    callbacks: Callbacks | None = None,
) -> ExperimentResult:
    """Evaluate a configuration with a fitted model; write the run if ``out`` is given."""
    task, callbacks, started = task_of(data), callbacks or Callbacks(), perf_counter()
    with callbacks.stage("evaluating"):
        evaluations = evaluate_task(chosen.model, task, ks=ks, progress=callbacks.evaluation)
    times = {**seconds, "evaluate": perf_counter() - started}
    events = ({"event": event, "seconds": round(took, 4)} for event, took in times.items())
    fitted = Fitted(
        chosen.model,
        chosen.model_name,
        task,
        evaluations,
        sections={**config, **chosen.config()},
        seconds=times,
        epochs=progress.best_epoch or progress.epoch,
        log=[*progress.log, *(event for event in events if event["event"] != TEMPERATURE_SEARCH)],
    )
    return ExperimentResult(fitted, None if out is None else write_run(out, fitted, overwrite=overwrite))


def lengths_of(chosen: ExperimentConfig, data: Task | Split, ks: Sequence[int] | None) -> list[int]:
    """The list lengths to evaluate: the given ones, and those of the configuration."""
    n_items = task_of(data).n_candidates
    trained_for = [] if chosen.loss is None else [chosen.k, chosen.decides()[1]]  # a baseline has no K
    return checked_ks([*trained_for, *(ks or default_ks(n_items))], n_items)


def with_temperature(chosen: ExperimentConfig, tau: float | None) -> ExperimentConfig:
    """The same configuration with this temperature; None keeps the loss's default."""
    assert chosen.loss is not None
    given = {} if tau is None else {"tau": tau}
    return replace(chosen, loss=type(chosen.loss)(**{**chosen.loss.settings(), **given}))


def validation_value(chosen: ExperimentConfig, data: Task | Split) -> float:
    """The validation metric of a fitted model."""
    metric, k = chosen.decides()
    asked = task_of(data).evaluation_set("valid")
    assert asked is not None
    return evaluate_set(chosen.model, asked, [k], metrics=[metric]).means()[f"{metric}@{k}"]


def training_of(
    chosen: ExperimentConfig, data: Task | Split, seed: int, baseline_value: float | None = None
) -> Training:
    """The training of a configuration, with the validation part if there is one."""
    assert chosen.loss is not None
    return Training(
        cast(TrainableModel, chosen.model),
        chosen.loss,
        data,
        training=chosen.training,
        optimizer=chosen.optimizer,
        seed=seed,
        k=chosen.k,
        baseline_value=baseline_value,
    )


def _train(
    chosen: ExperimentConfig,
    training: Training,
    out: Path | None,
    compared: Compared | None,
    config: Mapping[str, Any],
    callbacks: Callbacks,
    tracked: TrackerGroup,
) -> Progress:
    """Train from the start, or from a checkpoint that ``compared`` accepts; in memory without a folder."""

    def on_step(share: float) -> None:
        callbacks.epoch(training.progress, share)

    def on_epoch(progress: Progress) -> None:
        if out is not None and out.is_dir() and not (out / MARK).is_file():  # a complete run keeps its log
            with writing(out):
                lines = "".join(json.dumps(line) + "\n" for line in progress.log)
                (out / "log.jsonl").write_text(lines, encoding="utf-8")
        tracked.epochs(progress.log)
        callbacks.epoch(progress, 0.0)

    if out is None:
        tracked.begin()
        return training.run(on_epoch=on_epoch, on_step=on_step)
    identity = {
        **config,
        "data": {name: value for name, value in config["data"].items() if name != "source"},  # the pairs identify it
        "model": {"name": chosen.model_name, **chosen.model.settings()},
        "pairs": training.task.fingerprint(),
    }
    checkpoint = out / CHECKPOINT
    if compared is not None:
        training.resume(checkpoint, identity, compared)
    with lock(out):
        tracked.begin(training.progress.log)
        return training.run(checkpoint, identity, on_epoch=on_epoch, on_step=on_step)
