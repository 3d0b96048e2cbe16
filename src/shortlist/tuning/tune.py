"""Tuning: run trials until a time limit, and write the best one as a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shortlist.data import Split
from shortlist.errors import InputError, Interrupted, ShortlistError, WriteError, described
from shortlist.experiment import Callbacks, ExperimentConfig, ExperimentResult
from shortlist.experiment.experiment import lengths_of, measure, refit, training_of, validation_value
from shortlist.runs import fingerprint
from shortlist.tasks import task_of
from shortlist.training import Progress
from shortlist.training.checkpoint import Checkpoint, load, save
from shortlist.tuning.space import Space
from shortlist.tuning.study import Study, Trial, adjusted_value, optuna

WEIGHTS = "best.safetensors"
"""The model of the best trial so far, identical to that of a second training."""

KEPT_BACK = 0.05
"""Fraction of the time that is reserved for evaluation and the report."""

FOR_TEMPERATURE = 0.25
"""Maximum fraction of the time for the temperature search, before the first trial."""

PATIENCE = 1.0
"""Seconds between two checks for a result once the time is over."""

OnTrial = Callable[[Trial, Trial | None], None]
"""Called with each trial that has ended, and the best one."""


class _Pruned(Exception):
    """Other trials were better at the same epoch."""


class _OutOfTime(Exception):
    """The time is over."""


def identity_of(space: Space, split: Split, protocol: str, seed: int) -> dict[str, Any]:
    """What identifies a study: data, protocol, seed, settings and search space."""
    chosen = space.plan({})
    config = {**chosen.config(), "model": {"name": chosen.model_name, **chosen.model.settings()}}
    for name in space.searched:
        section, _, key = name.partition(".")
        config[section].pop(key)
    return {"data": fingerprint(split), "protocol": protocol, "seed": seed, **config, "space": space.describe()}


def prepare(
    folder: Path,
    space: Space,
    split: Split,
    *,
    protocol: str,
    seed: int,
    until: float = math.inf,
    anew: bool = False,
    callbacks: Callbacks | None = None,
) -> Study:
    """Open the study of a folder, or create it; ``anew`` replaces an existing one.

    The first trial has the settings of plain training, including its temperature search, which takes at most a
    fraction of the time left until ``time.monotonic()`` reaches ``until``.
    """
    optuna()  # raises an error if it is not installed
    chosen = space.plan({})
    if split.valid is None or not split.valid.n_pairs:
        raise InputError("tune: expected a validation part to judge by (--valid-share 0.1), received none")
    lengths_of(chosen, split, [chosen.k])  # refuse a K larger than the catalogue before any work
    study = Study(folder, space, identity_of(space, split, protocol, seed))
    if anew or not study.exists():
        points = list(space.initial_points())
        if chosen.tau_is_open:
            now = time.monotonic()
            with (callbacks or Callbacks()).stage("looking for the temperature"):
                enough = now + FOR_TEMPERATURE * (until - now)
                points[0][1]["loss.tau"] = training_of(chosen, split, seed).search_temperature(enough)
        if anew:
            study.remove()
        study.make(points)
    study.open()
    return study


def work(
    study: Study,
    split: Split,
    *,
    until: float = math.inf,
    most: int | None = None,
    on_trial: OnTrial = lambda trial, best: None,
) -> None:
    """Run trials until ``time.monotonic()`` reaches ``until``, or there are ``most`` of them.

    At least one trial is always completed, even if it fails.
    """
    chosen, floor = study.space.plan({}), None
    if chosen.model.is_trained:
        floor = task_of(split).baseline_value(*chosen.decides())

    checked_at = -math.inf

    def check_time() -> None:
        """Once the time is over, a result of another process ends the trial. Not every step checks for one."""
        nonlocal checked_at
        now = time.monotonic()
        if now > until and now - checked_at >= PATIENCE:
            checked_at = now
            if study.best() is not None:
                raise _OutOfTime

    with suppress(_OutOfTime):
        while True:
            checked_at = -math.inf  # the trial that has just ended may be the result
            check_time()
            with study.next(most) as trial:
                if trial is None:
                    break
                ended = _try(study, trial, split, floor, check_time)
            on_trial(ended, study.best())
            if time.monotonic() > until:  # also if all trials fail, which would never end
                break


def _try(study: Study, trial: Any, split: Split, floor: float | None, check_time: Callable[[], None]) -> Trial:
    """Run a trial, record its result, and save its model if it is the best."""
    settings, started, progress = study.settings(trial), time.perf_counter(), Progress()

    def facts(why: str = "") -> dict[str, Any]:
        seconds = round(time.perf_counter() - started, 3)
        return {"seconds": seconds, "epochs": progress.epoch, **({"why": why} if why else {})}

    try:
        chosen = study.space.plan(settings)
    except InputError as problem:  # each setting is valid, their combination is not
        return study.done(trial, None, **facts(str(problem)))

    def after_epoch(now: Progress) -> None:
        nonlocal progress
        progress = now
        check_time()
        if now.epoch % chosen.training.validate_every == 0:
            share = now.epoch / chosen.training.epochs
            if study.seen(trial, now.best_value, now.epoch, share):
                raise _Pruned

    try:
        value, progress = _value(chosen, split, study.seed, floor, after_epoch, check_time)
        if math.isnan(value):
            raise ShortlistError("the metric became nan")
    except _Pruned:
        return study.done(trial, None, **facts())
    except (InputError, Interrupted, WriteError, _OutOfTime):  # not caused by the settings
        raise
    except ShortlistError as problem:
        return study.done(trial, None, **facts(str(problem)))
    except Exception as problem:  # if raised, the same trial would be repeated forever
        return study.done(trial, None, **facts(described(problem)))
    with study.alone():
        best = study.best()
        own_value = adjusted_value(value, trial.user_attrs.get("start", ""))
        if best is None or best.value is None or own_value > adjusted_value(best.value, best.start):
            known = {"number": trial.number, "settings": settings, "progress": vars(progress)}
            save(study.folder / WEIGHTS, Checkpoint(chosen.model.state(), {**known, **facts()}))
    return study.done(trial, value, **facts())


def _value(
    chosen: ExperimentConfig,
    split: Split,
    seed: int,
    floor: float | None = None,
    after_epoch: Callable[[Progress], None] = lambda progress: None,
    check_time: Callable[[], None] = lambda: None,
) -> tuple[float, Progress]:
    """Fit the model of a configuration. Returns the value on validation and the progress."""
    if not chosen.model.is_trained:
        chosen.model.fit(split, seed=seed)
        return validation_value(chosen, split), Progress()
    training = training_of(chosen, split, seed, floor)
    progress = training.run(on_epoch=after_epoch, on_step=lambda share: check_time())
    return progress.best_value, progress


def finish(
    study: Study,
    split: Split,
    out: Path | None,
    *,
    config: Mapping[str, Any],
    ks: Sequence[int] | None = None,
    seconds: Mapping[str, float] | None = None,
    overwrite: bool = False,
    callbacks: Callbacks | None = None,
    final: bool = False,
) -> ExperimentResult:
    """Write the best trial as a run, refitted on all data if it is to be ``final``.

    Test is evaluated here only, once per completed study.

    The saved model is used. If its file is missing the model is trained again, with the same result.
    """
    study.put_back()
    trials, best = study.trials(), study.best()
    if best is None:
        reason = next((each.why for each in reversed(trials) if each.why), "none was completed")
        raise ShortlistError(f"tune: no trial of {len(trials)} had a result: {reason}")
    chosen = study.space.plan(best.settings)
    progress = _load_model(study, chosen, best)
    if progress is None:
        _, progress = _value(chosen, split, study.seed)
    counts = {state: sum(each.state == state for each in trials) for state in ("done", "pruned", "failed")}
    tuned = {
        "metric": "{}@{}".format(*chosen.decides()),
        "validation": best.value,
        "trial": best.number,
        "trials": counts,
        "space": study.space.describe(),
    }
    times = {**(seconds or {}), "tune": sum(each.seconds for each in trials), "train": best.seconds}
    with study.alone():
        result = measure(
            chosen,
            split,
            None if final else out,
            progress,
            config={**config, "tuned": tuned},
            ks=lengths_of(chosen, split, ks),
            seconds=times,
            overwrite=overwrite,
            callbacks=callbacks,
        )
        if not final:
            return result
        fitted, seed = result.fitted, int(config["seed"])
        return refit(
            chosen, fitted, out, seed=seed, overwrite=overwrite, callbacks=callbacks, keeps_checkpoint=False
        )  # fmt: skip


def _load_model(study: Study, chosen: ExperimentConfig, best: Trial) -> Progress | None:
    """Load the model of the best trial. Returns its progress, or None if the file belongs to another trial."""
    try:
        kept = load(study.folder / WEIGHTS)
    except InputError:
        return None
    if kept.facts["settings"] != dict(best.settings):
        return None
    chosen.model.load_state(kept.tensors)
    return Progress(**kept.facts["progress"])
