"""An experiment: a model is fitted with its training settings, evaluated on a task, and written as a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from shortlist.data import Split
from shortlist.errors import InputError
from shortlist.experiment.config import ExperimentConfig, with_temperature
from shortlist.formatting import plain
from shortlist.metrics import evaluate_set
from shortlist.models import TrainableModel
from shortlist.runs.folder import CHECKPOINT, MARK, TRAINED, check_places, check_target, lock, writing
from shortlist.runs.identity import difference
from shortlist.runs.run import Fitted, Run, write_run
from shortlist.tasks import Collaborative, Evaluations, Task, checked_ks, default_ks, evaluate_task, task_of
from shortlist.tracking.base import RunInfo, Tracker, TrackerGroup, track
from shortlist.training import Progress, Training
from shortlist.training.checkpoint import Checkpoint, Compared, load, save

TEMPERATURE_SEARCH = "temperature_search"
"""The name of the temperature search in the log and in the timings of a run."""


@dataclass
class Callbacks:
    """Functions that are called while an experiment runs."""

    stage: Callable[[str], Any] = field(default=lambda label: nullcontext())
    """A context manager for each stage, by its label."""
    epoch: Callable[[Progress, float], None] = field(default=lambda progress, share: None)
    """Called with the state of training and the completed fraction of the epoch."""
    evaluation: Callable[[int, int], None] = field(default=lambda done, total: None)
    """Called with the number of evaluated queries and their total."""
    warning: Callable[[str], None] = field(default=lambda text: print(f"shortlist: {plain(text)}", file=sys.stderr))
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
    final: bool = False,
) -> ExperimentResult:
    """Fit and evaluate; write a run if ``out`` is given. ``config`` holds ``data``, ``protocol`` and ``seed``.

    During training, ``out`` contains a checkpoint from which ``resume`` continues; without one, training begins from
    the start, with a warning. ``trackers`` receive configuration, curves and results. With ``final``, the model is then
    refitted on all data; the metrics stay those from before.
    """
    _check_config(config)
    task, callbacks = task_of(data), callbacks or Callbacks()
    lengths = lengths_of(chosen, task, ks)
    if final:
        whole_of(task)
    with _reserved(out, overwrite=overwrite, resume=resume, trackers=trackers):
        return _fit_reserved(
            chosen, task, out, config=config, lengths=lengths, resume=resume, overwrite=overwrite, final=final,
            seconds=seconds or {}, callbacks=callbacks, trackers=trackers,
        )  # fmt: skip


def _fit_reserved(
    chosen: ExperimentConfig,
    task: Task,
    out: Path | None,
    *,
    config: Mapping[str, Any],
    lengths: Sequence[int],
    resume: bool,
    overwrite: bool,
    final: bool,
    seconds: Mapping[str, float],
    callbacks: Callbacks,
    trackers: Sequence[Tracker],
) -> ExperimentResult:
    """What :func:`fit` does in a folder that is checked and locked, or in memory."""
    seed = int(config["seed"])
    if out is not None:
        if resume and not (out / CHECKPOINT).is_file():  # interrupted before the first checkpoint, or a mistyped name
            callbacks.warning(f"{out}: nothing to resume; starting a new training")
            resume = False
        if resume and not final and (out / TRAINED).is_file() and "final" in load(out / CHECKPOINT).facts["identity"]:
            raise InputError(f"{out}: expected final (--final), to resume a refit on all data, received none")
    progress, times = Progress(), dict(seconds)
    training = training_of(chosen, task, seed) if chosen.model.is_trained else None
    compared = partial(difference, tau_is_open=chosen.tau_is_open) if resume else None
    if training is not None and chosen.tau_is_open:
        checkpoint = out / CHECKPOINT if resume and out is not None else None
        training = _find_temperature(chosen, training, checkpoint, callbacks, progress.log)
        chosen = replace(chosen, loss=training.loss)
    sections = {**chosen.config(), **config}
    model = {"name": chosen.model_name, **chosen.model.settings()}
    info = RunInfo((out or Path("memory")).resolve(), {"model": model, **sections}, resumed=resume)
    trained = out / TRAINED if final and out is not None and training is not None else None
    if out is not None and not resume:
        with writing(out):
            (out / TRAINED).unlink(missing_ok=True)  # of an earlier attempt that is not resumed
    with track(trackers, info, callbacks.warning) as tracked:
        started = perf_counter()
        with callbacks.stage(f"fitting {chosen.model_name}"):
            if training is None:
                tracked.begin()
                chosen.model.fit(task.train, seed=seed)
            elif trained is not None and compared is not None and trained.is_file():
                progress = _load_trained(training, trained, _identity(chosen, training, sections), compared)
                tracked.begin(progress.log)
            else:
                training.progress = progress
                progress = _train(chosen, training, out, compared, sections, callbacks, tracked)
                if trained is not None:
                    facts = {"identity": _identity(chosen, training, sections), "progress": vars(progress)}
                    save(trained, Checkpoint(dict(chosen.model.state()), facts))
        times |= {line["event"]: line["seconds"] for line in progress.log if "event" in line}
        times["train"] = progress.seconds or perf_counter() - started
        overwrite = overwrite or (out is not None and (out / CHECKPOINT).is_file())
        result = measure(
            chosen, task, None if final else out, progress, config=config, ks=lengths, overwrite=overwrite,
            merge=True, seconds=times, callbacks=callbacks,
        )  # fmt: skip
        if final:
            result = refit(chosen, result.fitted, out, seed=seed, overwrite=overwrite, merge=True, callbacks=callbacks)
        tracked.close("finished", result.fitted.metrics)
    return result


@contextmanager
def _reserved(out: Path | None, *, overwrite: bool, resume: bool, trackers: Sequence[Tracker]) -> Iterator[None]:
    """Check and lock the folder of a run for the length of the block. One that was made for it is removed if empty."""
    if out is None:
        yield
        return
    check_target(out, overwrite=overwrite, resume=resume)
    places = ((f"--log {each.name}", place) for each in trackers if (place := _folder_of(each)) is not None)
    check_places(out, places)
    is_new = not out.exists()
    try:
        with lock(out):
            check_target(out, overwrite=overwrite, resume=resume)  # another process may have finished meanwhile
            yield
    finally:
        if is_new:
            with suppress(OSError):
                out.rmdir()


def _folder_of(tracker: Tracker) -> Path | None:
    """Where a tracker writes on this machine, if it does."""
    place = getattr(tracker, "place", None)
    if isinstance(place, Path):
        return place
    uri = getattr(tracker, "uri", None)
    if not isinstance(uri, str):
        return None
    scheme, found, path = uri.partition(":")
    if not found or len(scheme) == 1:  # a path, perhaps with the letter of a drive
        return Path(uri)
    if scheme == "file" or scheme.startswith("sqlite"):
        is_sqlite = scheme.startswith("sqlite")
        return Path(path.removeprefix("///") if is_sqlite else path.removeprefix("//"))
    return None


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
    merge: bool = False,
    seconds: Mapping[str, float],
    callbacks: Callbacks | None = None,
) -> ExperimentResult:
    """Evaluate a configuration whose model is fitted; write the run if ``out`` is given.

    ``merge`` accepts a folder that has received files of others since it was checked; they are kept.
    """
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
    if out is None:
        return ExperimentResult(fitted)
    return ExperimentResult(fitted, write_run(out, fitted, overwrite=overwrite, merge=merge, warn=callbacks.warning))


def refit(
    chosen: ExperimentConfig,
    measured: Fitted,
    out: Path | None,
    *,
    seed: int,
    overwrite: bool = False,
    merge: bool = False,
    callbacks: Callbacks | None = None,
    keeps_checkpoint: bool = True,
) -> ExperimentResult:
    """Fit a new model on the data of all parts, and write the run if ``out`` is given.

    It has the settings of the measured one, and is trained for as many epochs as that was at its best, by the same
    schedule. In ``out`` there is a checkpoint during the refit, from which a later call continues.
    """
    callbacks, epochs, started = callbacks or Callbacks(), int(measured.metrics["epochs"]), perf_counter()
    whole = whole_of(measured.task)
    again = replace(chosen, model=type(chosen.model)(**chosen.model.settings()))
    if chosen.loss is not None:
        again = replace(again, loss=type(chosen.loss)(**chosen.loss.settings()))
    with callbacks.stage(f"refitting {chosen.model_name} on all data"):
        if again.loss is None:
            again.model.fit(whole.train, seed=seed)
        else:
            training = Training(
                cast(TrainableModel, again.model), again.loss, whole, training=again.training,
                optimizer=again.optimizer, seed=seed, k=again.k, validate=False, stop_after=epochs,
            )  # fmt: skip
            sections = {**again.config(), **{name: measured.config[name] for name in ("data", "protocol", "seed")}}
            identity = {**_identity(again, training, sections), "final": epochs}
            _train_again(training, out if keeps_checkpoint else None, identity, callbacks)
    fitted = measured.refitted(again.model, epochs, perf_counter() - started)
    overwrite = overwrite or (out is not None and (out / CHECKPOINT).is_file())
    if out is None:
        return ExperimentResult(fitted)
    return ExperimentResult(fitted, write_run(out, fitted, overwrite=overwrite, merge=merge, warn=callbacks.warning))


def whole_of(task: Task) -> Task:
    """The task with the events of all parts for training, and nothing to measure."""
    if not isinstance(task, Collaborative):
        raise InputError(f"final: expected a task of users and items, received {task.name}")
    return Collaborative(replace(task.split, train=task.split.whole(), valid=None, test=None))


def _train_again(training: Training, out: Path | None, identity: Mapping[str, Any], callbacks: Callbacks) -> None:
    """Train on all data, from a checkpoint if it was made there; another one is replaced."""

    def on_step(share: float) -> None:
        callbacks.epoch(training.progress, share)

    if out is None:
        training.run(on_step=on_step)
        return
    checkpoint = out / CHECKPOINT
    if checkpoint.is_file() and "final" in load(checkpoint).facts["identity"]:
        training.resume(checkpoint, identity, partial(difference, tau_is_open=False))
    training.run(checkpoint, identity, on_step=on_step)


def _load_trained(training: Training, path: Path, identity: Mapping[str, Any], compared: Compared) -> Progress:
    """The model that was trained before the refit began, if it had the same data and settings."""
    found = load(path)
    differs = compared(found.facts["identity"], json.loads(json.dumps(dict(identity))))
    if differs is not None:
        raise InputError(f"{path}: made with other data or settings: {differs}")
    training.model.load_state(found.tensors)
    training.model.to(training.device)
    training.model.eval()
    training.progress = Progress(**found.facts["progress"])
    return training.progress


def _check_config(config: Mapping[str, Any]) -> None:
    """Refuse a configuration that a run could not be written with, before anything is trained.

    >>> _check_config({"seed": 0})
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: config: expected data, protocol and seed, received seed
    """
    missing = [name for name in ("data", "protocol", "seed") if name not in config]
    if missing:
        raise InputError(f"config: expected data, protocol and seed, received {', '.join(config) or 'nothing'}")
    if not isinstance(config["data"], Mapping):
        raise InputError(f"config.data: expected names with values, received {config['data']!r:.60}")
    if not isinstance(config["protocol"], str):
        raise InputError(f"config.protocol: expected a name, received {config['protocol']!r:.60}")
    if not isinstance(config["seed"], int) or isinstance(config["seed"], bool):
        raise InputError(f"config.seed: expected a whole number, received {config['seed']!r:.60}")
    try:
        json.dumps(dict(config))
    except (TypeError, ValueError) as problem:
        raise InputError(f"config: expected values that JSON can hold, received others ({problem})") from None


def lengths_of(chosen: ExperimentConfig, data: Task | Split, ks: Sequence[int] | None) -> list[int]:
    """The list lengths to evaluate: the given ones, and those of the configuration."""
    n_items = task_of(data).n_candidates
    trained_for = [] if chosen.loss is None else [chosen.k, chosen.decides()[1]]  # a baseline has no K
    return checked_ks([*trained_for, *(ks or default_ks(n_items))], n_items)


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
    identity = _identity(chosen, training, config)
    checkpoint = out / CHECKPOINT
    if compared is not None:
        training.resume(checkpoint, identity, compared)
    tracked.begin(training.progress.log)
    return training.run(checkpoint, identity, on_epoch=on_epoch, on_step=on_step)


def _identity(chosen: ExperimentConfig, training: Training, config: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint must have been made with to be resumed."""
    return {
        **config,
        "data": {name: value for name, value in config["data"].items() if name != "source"},  # the pairs identify it
        "model": {"name": chosen.model_name, **chosen.model.settings()},
        "pairs": training.task.fingerprint(),
    }
