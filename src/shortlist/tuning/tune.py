"""Tuning: trials until the time is over, and the best of them as a run."""

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
from shortlist.experiment.experiment import (
    found_temperature,
    lengths_of,
    measure,
    popularity_score,
    training_of,
    validation,
)
from shortlist.models import Baseline
from shortlist.runs import fingerprint
from shortlist.training import Progress
from shortlist.training.checkpoint import Checkpoint, load, save
from shortlist.tuning.space import Space
from shortlist.tuning.study import Study, Trial, adjusted_value, optuna

WEIGHTS = "best.safetensors"
"""The model of the best trial so far: what a second training would end with, to the last bit."""

KEPT_BACK = 0.05
"""The share of the time that is kept for measuring and drawing."""

FOR_TEMPERATURE = 0.25
"""The share of the time that the search for a temperature takes at most, before the first trial."""

PATIENCE = 1.0
"""Seconds from one question to the next whether there is a result, once the time is over."""

Told = Callable[[Trial, Trial | None], None]
"""Who is told of a trial that has just ended, and of the best one."""


class _GivenUp(Exception):
    """Others were better by then."""


class _OutOfTime(Exception):
    """The time is over."""


def identity_of(space: Space, split: Split, protocol: str, seed: int) -> dict[str, Any]:
    """What makes two studies the same."""
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
    watch: Callbacks | None = None,
) -> Study:
    """Open the study of a folder, or begin it; ``anew`` removes the one that is there, once a new one can begin.

    The first trial is what training does by itself, its search for a temperature included. That has a share of the
    time that is left until ``time.monotonic()`` says ``until``.
    """
    optuna()  # which may not be there
    chosen = space.plan({})
    if split.valid is None or not split.valid.n_pairs:
        raise InputError("tune: expected a validation part to judge by (--valid-share 0.1), received none")
    lengths_of(chosen, split, [chosen.k])  # a K that the catalogue cannot fill is said before any work is done
    study = Study(folder, space, identity_of(space, split, protocol, seed))
    if anew or not study.exists():
        starts = list(space.starts())
        if chosen.tau_is_open:
            now = time.monotonic()
            with (watch or Callbacks()).stage("looking for the temperature"):
                enough = now + FOR_TEMPERATURE * (until - now)
                starts[0][1]["loss.tau"] = found_temperature(chosen, split, seed, enough)
        if anew:
            study.remove()
        study.make(starts)
    study.open()
    return study


def work(
    study: Study,
    split: Split,
    *,
    until: float = math.inf,
    most: int | None = None,
    told: Told = lambda trial, best: None,
) -> None:
    """Run trials until ``time.monotonic()`` says ``until``, or there are ``most`` of them.

    One trial is always brought to its end, be it a failure.
    """
    floor = None
    if not isinstance(study.space.plan({}).model, Baseline):
        floor = popularity_score(study.space.plan({}), split)

    asked_at = -math.inf

    def look() -> None:
        """Once the time is over, a result of another process ends a trial, too; not every step asks for one."""
        nonlocal asked_at
        now = time.monotonic()
        if now > until and now - asked_at >= PATIENCE:
            asked_at = now
            if study.best() is not None:
                raise _OutOfTime

    with suppress(_OutOfTime):
        while True:
            asked_at = -math.inf  # what has just ended may be the result
            look()
            with study.next(most) as trial:
                if trial is None:
                    break
                ended = _try(study, trial, split, floor, look)
            told(ended, study.best())
            if time.monotonic() > until:  # also where trials only fail, which would else go on for ever
                break


def _try(study: Study, trial: Any, split: Split, floor: float | None, look: Callable[[], None]) -> Trial:
    """Run a trial, write down how it ended, and keep its model if there is no better one."""
    settings, started, progress = study.settings(trial), time.perf_counter(), Progress()

    def facts(why: str = "") -> dict[str, Any]:
        seconds = round(time.perf_counter() - started, 3)
        return {"seconds": seconds, "epochs": progress.epoch, **({"why": why} if why else {})}

    try:
        chosen = study.space.plan(settings)
    except InputError as problem:  # each setting is allowed, and not all together
        return study.done(trial, None, **facts(str(problem)))

    def after_epoch(now: Progress) -> None:
        nonlocal progress
        progress = now
        look()
        if now.epoch % chosen.training.validate_every == 0:
            share = now.epoch / chosen.training.epochs
            if study.seen(trial, now.best_value, now.epoch, share):
                raise _GivenUp

    try:
        value, progress = _value(chosen, split, study.seed, floor, after_epoch, look)
        if math.isnan(value):
            raise ShortlistError("the metric became nan")
    except _GivenUp:
        return study.done(trial, None, **facts())
    except (InputError, Interrupted, WriteError, _OutOfTime):  # which says nothing of the settings
        raise
    except ShortlistError as problem:
        return study.done(trial, None, **facts(str(problem)))
    except Exception as problem:  # were it raised, the same trial would come again, for ever
        return study.done(trial, None, **facts(described(problem)))
    with study.alone():
        best = study.best()
        mine = adjusted_value(value, trial.user_attrs.get("start", ""))
        if best is None or best.value is None or mine > adjusted_value(best.value, best.start):
            known = {"number": trial.number, "settings": settings, "progress": vars(progress)}
            save(study.folder / WEIGHTS, Checkpoint(chosen.model.state(), {**known, **facts()}))
    return study.done(trial, value, **facts())


def _value(
    chosen: ExperimentConfig,
    split: Split,
    seed: int,
    floor: float | None = None,
    after_epoch: Callable[[Progress], None] = lambda progress: None,
    look: Callable[[], None] = lambda: None,
) -> tuple[float, Progress]:
    """Fit the model of a plan; its value on validation, and how it got there."""
    if isinstance(chosen.model, Baseline):
        chosen.model.fit(split.train, seed=seed)
        return validation(chosen, split)(chosen.model), Progress()
    training = training_of(chosen, split, seed, floor)
    progress = training.run(on_epoch=after_epoch, on_step=lambda share: look())
    return progress.best_value, progress


def finish(
    study: Study,
    split: Split,
    out: Path,
    *,
    config: Mapping[str, Any],
    ks: Sequence[int] | None = None,
    seconds: Mapping[str, float] | None = None,
    overwrite: bool = False,
    watch: Callbacks | None = None,
) -> ExperimentResult:
    """The best trial as a run: here alone, each time that a study is brought to its end, test is looked at.

    Its model is at hand since it was trained. Should the file be gone, it is trained again, which gives the same.
    """
    study.put_back()
    trials, best = study.trials(), study.best()
    if best is None:
        reason = next((each.why for each in reversed(trials) if each.why), "none was brought to its end")
        raise ShortlistError(f"tune: no trial of {len(trials)} came to a result: {reason}")
    chosen = study.space.plan(best.settings)
    progress = _kept(study, chosen, best)
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
        return measure(
            chosen,
            split,
            out,
            progress,
            config={**config, "tuned": tuned},
            ks=lengths_of(chosen, split, ks),
            seconds=times,
            overwrite=overwrite,
            watch=watch,
        )


def _kept(study: Study, chosen: ExperimentConfig, best: Trial) -> Progress | None:
    """The model as the best trial left it, and how it was trained; none if the file is not of that trial."""
    try:
        kept = load(study.folder / WEIGHTS)
    except InputError:
        return None
    if kept.facts["settings"] != dict(best.settings):
        return None
    chosen.model.load_state(kept.tensors)
    return Progress(**kept.facts["progress"])
