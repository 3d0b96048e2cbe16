"""An experiment: a model, how it learns, and the run that comes of it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from shortlist.data import Split
from shortlist.errors import InputError
from shortlist.experiment.temperature_search import find_temperature
from shortlist.losses import Loss
from shortlist.losses import registry as losses
from shortlist.metrics import AT_K, evaluate
from shortlist.models import Baseline, Model, Popularity, TrainableModel
from shortlist.models import registry as models
from shortlist.runs.evaluation import Evaluations, checked_ks, default_ks, evaluate_split
from shortlist.runs.folder import CHECKPOINT, MARK, check_target, lock, writing
from shortlist.runs.identity import difference, fingerprint
from shortlist.runs.run import Run, write_run
from shortlist.tracking.base import RunInfo, Tracker, TrackerGroup, telling
from shortlist.training import OptimizerSettings, Progress, Training, TrainingSettings
from shortlist.training.checkpoint import Compared, load

SECTIONS = ("model", "loss", "optimizer", "training")
"""What settings belong to: the part before the dot in ``loss.tau``."""

PILOT = "temperature_search"
"""The search for a temperature, as the log and the seconds of a run name it."""

Settings = Mapping[str, Mapping[str, Any]]
"""Values by section and name."""


@dataclass(frozen=True)
class ExperimentConfig:
    """What is fitted and how. Baselines have no loss; the K of the list also decides what is best on validation."""

    model_name: str
    model: Model
    loss_name: str | None
    loss: Loss | None
    optimizer: OptimizerSettings
    training: TrainingSettings
    k: int
    tau_is_open: bool = False
    """Whether the temperature is still to be found, by :mod:`shortlist.experiment.temperature_search`."""

    def config(self) -> dict[str, Any]:
        """The sections of ``config.json`` that say what was done, the model's own apart."""
        if self.loss is None:
            return {"k": self.k}
        return {
            "k": self.k,
            "loss": {"name": self.loss_name, **self.loss.settings()},
            "optimizer": self.optimizer.settings(),
            "training": self.training.settings(),
        }

    def decides(self) -> tuple[str, int]:
        """The metric and the K that decide on validation."""
        name, at, k = self.training.metric.partition("@")
        if name not in AT_K or bool(at) != (k.isdecimal() and int(k) > 0):
            known = ", ".join(AT_K)
            raise InputError(
                f"training.metric: expected one of {known}, with or without @K, received {self.training.metric!r}"
            )
        return name, int(k or self.k)


def plan(
    model: str = "mf",
    loss: str | None = None,
    k: int = 20,
    values: Settings | None = None,
    texts: Mapping[str, Mapping[str, str]] | None = None,
) -> ExperimentConfig:
    """Put a plan together from names and settings: ``values`` as they are, ``texts`` as typed on a command line.

    A trained model names the loss that trains it where none is named here, and takes its similarity from the loss.

    >>> plan("mf", "slatk", k=10, texts={"loss": {"tau": "0.1"}}).loss.settings()["tau"]
    0.1
    """
    if k < 1:
        raise InputError(f"K: expected a whole number of at least 1, received {k}")
    values, texts = values or {}, texts or {}

    def settings_of(section: str, **defaults: Any) -> tuple[dict[str, Any], Mapping[str, str]]:
        return {**defaults, **values.get(section, {})}, texts.get(section, {})

    model_class = models[model]
    if not issubclass(model_class, TrainableModel):
        given = next((section for section in SECTIONS[1:] if values.get(section) or texts.get(section)), None)
        if loss is not None or given is not None:
            raise InputError(f"{model}: expected no loss or training settings (it has none), received {loss or given}")
        told, typed = settings_of("model")
        return ExperimentConfig(
            model, model_class.from_text(typed, **told), None, None, OptimizerSettings(), TrainingSettings(), k
        )
    name = loss or model_class.default_loss
    loss_class = losses[name]
    told, typed = settings_of("loss", **({"k": k} if "k" in loss_class.declared else {}))
    chosen_loss = loss_class.from_text(typed, **told)
    similarity = {"similarity": loss_class.similarity} if "similarity" in model_class.declared else {}
    told, typed = settings_of("model", **similarity)
    chosen_model = model_class.from_text(typed, **told)
    told, typed = settings_of("optimizer")
    optimizer = OptimizerSettings.from_text(typed, **told)
    told, typed = settings_of("training")
    training = TrainingSettings.from_text(typed, **told)
    is_set = "tau" in values.get("loss", {}) or "tau" in texts.get("loss", {})
    is_open = "tau" in loss_class.declared and not is_set and training.temperature_epochs > 0
    result = ExperimentConfig(model, chosen_model, name, chosen_loss, optimizer, training, k, is_open)
    result.decides()
    return result


@dataclass
class Callbacks:
    """Who is told what goes on: each is called as often as there is something new."""

    stage: Callable[[str], Any] = field(default=lambda label: nullcontext())
    """A context manager that is entered for each stage, by its label."""
    epoch: Callable[[Progress, float], None] = field(default=lambda progress, share: None)
    """Where training stands, and which share of the epoch is done."""
    evaluation: Callable[[int, int], None] = field(default=lambda done, total: None)
    """How many users of how many have been evaluated."""
    warning: Callable[[str], None] = field(default=lambda text: print(f"shortlist: {text}", file=sys.stderr))
    """What went wrong beside the work, which goes on."""


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """A run, and the evaluations that its figures were taken from."""

    run: Run
    evaluations: Evaluations


def fit(
    chosen: ExperimentConfig,
    split: Split,
    out: Path,
    *,
    config: Mapping[str, Any],
    ks: Sequence[int] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    seconds: Mapping[str, float] | None = None,
    watch: Callbacks | None = None,
    sinks: Sequence[Tracker] = (),
) -> ExperimentResult:
    """Fit, evaluate and write a run. ``config`` says where the split came from: ``data``, ``protocol`` and ``seed``.

    While a loss trains the model, ``out`` holds a checkpoint from which ``resume`` goes on; where there is none yet, it
    begins from the start and says so. ``sinks`` are told of all.
    """
    watch, seed = watch or Callbacks(), int(config["seed"])
    lengths = lengths_of(chosen, split, ks)
    check_target(out, overwrite=overwrite, resume=resume)
    if resume and not (out / CHECKPOINT).is_file():  # it stopped before the first one, or the name is mistyped
        watch.warning(f"{out}: there is nothing to resume; training begins from the start")
        resume = False
    progress, times = Progress(), dict(seconds or {})
    compared = partial(difference, tau_is_open=chosen.tau_is_open) if resume else None
    if chosen.tau_is_open and resume:  # it was found before the first checkpoint was written
        chosen = with_temperature(chosen, load(out / CHECKPOINT).facts["identity"].get("loss", {}).get("tau"))
    elif chosen.tau_is_open and split.valid is not None and split.valid.n_pairs:
        looked = perf_counter()
        with watch.stage("looking for the temperature"):
            chosen = with_temperature(chosen, found_temperature(chosen, split, seed))
        progress.log.append({"event": PILOT, "seconds": round(perf_counter() - looked, 4)})
    sections = {**chosen.config(), **config}
    model = {"name": chosen.model_name, **chosen.model.settings()}
    about = RunInfo(out.resolve(), {"model": model, **sections}, resumed=resume)
    with telling(sinks, about, watch.warning) as told:
        started = perf_counter()
        with watch.stage(f"fitting {chosen.model_name}"):
            if isinstance(chosen.model, Baseline):
                told.begin()
                chosen.model.fit(split.train, seed=seed)
            else:
                progress = _train(chosen, split, out, seed, progress, compared, sections, watch, told)
        times |= {line["event"]: line["seconds"] for line in progress.log if "event" in line}
        times["train"] = progress.seconds or perf_counter() - started
        overwrite = overwrite or (out / CHECKPOINT).is_file()
        outcome = measure(
            chosen, split, out, progress, config=config, ks=lengths, overwrite=overwrite, seconds=times, watch=watch
        )
        told.close("finished", outcome.run.metrics)
    return outcome


def measure(
    chosen: ExperimentConfig,
    split: Split,
    out: Path,
    progress: Progress,
    *,
    config: Mapping[str, Any],
    ks: Sequence[int],
    overwrite: bool = False,
    seconds: Mapping[str, float],
    watch: Callbacks | None = None,
) -> ExperimentResult:
    """Evaluate a plan whose model is fitted, and write the run."""
    watch, started = watch or Callbacks(), perf_counter()
    with watch.stage("evaluating"):
        protocol = str(config["protocol"])
        evaluations = evaluate_split(chosen.model, split, protocol=protocol, ks=ks, progress=watch.evaluation)
    times = {**seconds, "evaluate": perf_counter() - started}
    run = write_run(
        out,
        model=chosen.model,
        name=chosen.model_name,
        split=split,
        evaluations=evaluations,
        config={**config, **chosen.config()},
        seconds=times,
        epochs=progress.best_epoch or progress.epoch,
        log=[
            *progress.log,
            *({"event": event, "seconds": round(took, 4)} for event, took in times.items() if event != PILOT),
        ],
        overwrite=overwrite,
    )
    return ExperimentResult(run, evaluations)


def lengths_of(chosen: ExperimentConfig, split: Split, ks: Sequence[int] | None) -> list[int]:
    """The lengths of list that are measured: those that are asked for, and those that the plan is about."""
    n_items = split.train.n_items
    trained_for = [] if chosen.loss is None else [chosen.k, chosen.decides()[1]]  # a baseline has no K of its own
    return checked_ks([*trained_for, *(ks or default_ks(n_items))], n_items)


def with_temperature(chosen: ExperimentConfig, tau: float | None) -> ExperimentConfig:
    """The same plan with the temperature decided; none leaves it at the loss's default."""
    assert chosen.loss is not None
    given = {} if tau is None else {"tau": tau}
    return replace(chosen, loss=type(chosen.loss)(**{**chosen.loss.settings(), **given}), tau_is_open=False)


def found_temperature(chosen: ExperimentConfig, split: Split, seed: int, until: float = math.inf) -> float:
    """The temperature that short trials found best, of those that ended before ``time.monotonic()`` said ``until``."""
    assert isinstance(chosen.model, TrainableModel)
    assert chosen.loss is not None
    return find_temperature(
        chosen.model,
        chosen.loss,
        split.train,
        validation(chosen, split),
        training=chosen.training,
        optimizer=chosen.optimizer,
        seed=seed,
        until=until,
    )


def validation(chosen: ExperimentConfig, split: Split) -> Callable[[Model], float]:
    """What decides: the value of a model on the validation part."""
    metric, k = chosen.decides()
    train, valid = split.train, split.valid
    assert valid is not None
    return lambda model: evaluate(model, valid, [train], [k], metrics=[metric]).means()[f"{metric}@{k}"]


def training_of(chosen: ExperimentConfig, split: Split, seed: int, floor: float | None = None) -> Training:
    """The training of a plan, judged on the validation part where there is one.

    ``floor`` is what popularity reaches there; it is found out where it is not given.
    """
    assert isinstance(chosen.model, TrainableModel)
    assert chosen.loss is not None
    validate = None
    if split.valid is not None and split.valid.n_pairs:
        validate = partial(validation(chosen, split), chosen.model)
        floor = popularity_score(chosen, split) if floor is None else floor
    return Training(
        chosen.model,
        chosen.loss,
        split.train,
        training=chosen.training,
        optimizer=chosen.optimizer,
        seed=seed,
        validate=validate,
        floor=floor,
    )


def popularity_score(chosen: ExperimentConfig, split: Split) -> float:
    """What popularity reaches on validation, which a training has to get past."""
    popularity = Popularity()
    popularity.fit(split.train)
    return validation(chosen, split)(popularity)


def _train(
    chosen: ExperimentConfig,
    split: Split,
    out: Path,
    seed: int,
    progress: Progress,
    compared: Compared | None,
    config: Mapping[str, Any],
    watch: Callbacks,
    told: TrackerGroup,
) -> Progress:
    """Train from a beginning that only the log may tell of, or from a checkpoint that ``compared`` finds alike."""
    training = training_of(chosen, split, seed)
    identity = {
        **config,
        "data": {name: value for name, value in config["data"].items() if name != "source"},  # the pairs tell better
        "model": {"name": chosen.model_name, **chosen.model.settings()},
        "pairs": fingerprint(split),
    }
    checkpoint = out / CHECKPOINT
    training.progress = progress
    if compared is not None:
        training.resume(checkpoint, identity, compared)
    log = out / "log.jsonl"

    def after_epoch(progress: Progress) -> None:
        if out.is_dir() and not (out / MARK).is_file():  # an earlier run keeps its log until it is replaced as a whole
            with writing(out):
                log.write_text("".join(json.dumps(line) + "\n" for line in progress.log), encoding="utf-8")
        told.epochs(progress.log)
        watch.epoch(progress, 0.0)

    with lock(out):
        told.begin(training.progress.log)
        return training.run(
            checkpoint, identity, on_epoch=after_epoch, on_step=lambda share: watch.epoch(training.progress, share)
        )
