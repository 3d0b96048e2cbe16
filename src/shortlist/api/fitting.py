"""Fit a recommender, like the command `shortlist train`, in memory or into a run folder."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shortlist.api.recommender import Recommender
from shortlist.data import Split, load
from shortlist.errors import InputError
from shortlist.experiment import (
    SECTIONS,
    Callbacks,
    ExperimentConfig,
    ExperimentResult,
    plan,
    preset,
    progress_callbacks,
)
from shortlist.experiment import fit as run_experiment
from shortlist.losses import Loss
from shortlist.losses import registry as losses
from shortlist.models import Model
from shortlist.models import registry as models
from shortlist.parameters import Configured
from shortlist.tasks import Task, default_ks, task_of
from shortlist.tracking import Tracker, parse_tracker
from shortlist.training import OptimizerSettings, TrainingSettings

UNITS = {"s": 1, "m": 60, "h": 3600}


def fit(
    data: Split | Task | Any,
    model: str | Model = "mf",
    loss: str | Loss | None = None,
    *,
    k: int | None = None,
    settings: Mapping[str, Any] | None = None,
    training: TrainingSettings | None = None,
    optimizer: OptimizerSettings | None = None,
    preset: str | None = None,
    tune: str | float | None = None,
    final: bool = False,
    seed: int | None = None,
    ks: Sequence[int] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Callbacks | None = None,
    trackers: Tracker | str | Sequence[Tracker | str] = (),
    progress: bool = True,
) -> Recommender:
    """Fit a model on a split, evaluate it over the full catalogue, and return a recommender.

    Anything that is neither a split nor a task is loaded first (:func:`shortlist.load`): a frame, a path, a name.

    ``model`` and ``loss`` are names or instances; instances are copied, not modified. Training stops early by the
    validation metric and keeps the best epoch. Short trials find the temperature of the loss if it is not set.

    - ``k``: the length of the recommendation list; by default the K of the loss if it has one, else 20.
    - ``settings``: values by full name, as for ``--set``: ``{"optimizer.lr": 0.03}``.
    - ``training``, ``optimizer``: settings as objects.
    - ``preset``: the settings of a published result, as defaults.
    - ``tune``: time budget for tuning on validation: ``"90s"``, ``"2m"``, ``"1h"`` or seconds.
    - ``final``: after the evaluation, refit on all data (train, validation and test) for the number of epochs that was
      best on validation. The metrics stay those of the model before; lists leave out all known items.
    - ``seed``: by default the seed of the split.
    - ``out``: a run folder to write; training then keeps a checkpoint there, from which ``resume`` continues.
    - ``callbacks``, ``trackers`` (``"tensorboard=DIR"``, ``"mlflow=URI"``), ``progress``: receivers of the progress.

    >>> from shortlist.data import load
    >>> split = load("debian", seed=0)
    >>> fit(split, "popularity").recommend(["git"], k=2)["item_id"].to_list()
    ['libstdc++6', 'libgcc-s1']
    """
    notes: tuple[str, ...] = ()
    if not isinstance(data, Split | Task):
        data = load(data)
        notes = data.notes
    names = Request.of(model, loss, k=k, settings=settings, training=training, optimizer=optimizer, start=preset)
    chosen = names.config()
    source: Mapping[str, Any] = data.origin if isinstance(data, Split) else {}
    seed = int(source.get("seed", 0)) if seed is None else seed
    protocol = data.protocol if isinstance(data, Split) else "shortlist"
    config = {"data": {"source": "data of a program", **source}, "protocol": protocol, "seed": seed}
    lengths = ks if k is None else [k, *(ks or default_ks(task_of(data).n_candidates))]
    target = None if out is None else Path(out)
    followers = _trackers(trackers)
    bars = progress_callbacks(chosen) if progress and callbacks is None else nullcontext(callbacks or Callbacks())
    with bars as calls:
        for note in notes:
            calls.warning(note)
        if tune is not None:
            if followers or resume:
                raise InputError("fit: expected neither trackers nor resume with tune, received them")
            result = names.tuned(data, seconds_of(tune), config, lengths, target, overwrite, calls, final)
        else:
            result = run_experiment(
                chosen, data, target, config=config, ks=lengths, resume=resume, overwrite=overwrite, callbacks=calls,
                trackers=followers, final=final,
            )  # fmt: skip
    return Recommender(result.fitted if result.written is None else result.written)


@dataclass(frozen=True)
class Request:
    """What to fit, as names and the caller's settings."""

    model: str
    loss: str | None
    k: int
    fixed: Mapping[str, Mapping[str, Any]]
    """The caller's settings, by section."""

    start: Mapping[str, Mapping[str, Any]]
    """Settings of a preset, the starting point of tuning."""

    @classmethod
    def of(
        cls,
        model: str | Model,
        loss: str | Loss | None,
        *,
        k: int | None,
        settings: Mapping[str, Any] | None,
        training: TrainingSettings | None,
        optimizer: OptimizerSettings | None,
        start: str | None,
    ) -> Request:
        """A request from names or instances; the settings of an instance are the parameters set at its construction."""
        fixed: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        instances = {"model": model, "loss": loss, "training": training, "optimizer": optimizer}
        for section, instance in instances.items():
            if isinstance(instance, Configured):
                fixed[section] = {name: getattr(instance, name) for name in instance.given}
        for name, value in (settings or {}).items():
            section, _, key = name.partition(".")
            if section not in fixed or not key:
                expected = "names such as " + ", ".join(f"{section}.…" for section in SECTIONS)
                raise InputError(f"fit.settings: expected {expected}, received {name!r}")
            fixed[section][key] = value
        own_k = fixed["loss"].get("k")
        if k is not None and own_k is not None and own_k != k:
            raise InputError(f"fit.k: expected {own_k}, the K of the loss, or none, received {k}")
        model_name = model if isinstance(model, str) else models.name_of(type(model))
        loss_name = (
            losses.resolve(loss) if isinstance(loss, str) else None if loss is None else losses.name_of(type(loss))
        )
        begin: Mapping[str, Mapping[str, Any]] = {}
        length = k if k is not None else own_k
        if start is not None:
            known = preset(start)
            loss_name, length = loss_name or known.loss, length or known.k
            begin = known.settings_for(model_name, loss_name)
        return cls(model_name, loss_name, 20 if length is None else int(length), fixed, begin)

    def config(self) -> ExperimentConfig:
        """The configuration of an experiment."""
        return plan(self.model, self.loss, self.k, values=self.start, texts=self.fixed)

    def tuned(
        self,
        data: Split | Task,
        seconds: float,
        config: Mapping[str, Any],
        ks: Sequence[int] | None,
        out: Path | None,
        overwrite: bool,
        callbacks: Callbacks,
        final: bool = False,
    ) -> ExperimentResult:
        """The best of the trials on validation within this number of seconds, evaluated on test."""
        from shortlist.tuning import KEPT_BACK, finish, prepare, space_of, work

        if not isinstance(data, Split):
            raise InputError("fit.tune: expected a split, received another task")
        until = time.monotonic() + (1 - KEPT_BACK) * seconds
        space = space_of(self.model, self.loss, self.k, self.start, self.fixed)
        with tempfile.TemporaryDirectory(prefix="shortlist-") as folder:
            study = prepare(
                Path(folder) / "study", space, data, protocol=str(config["protocol"]), seed=int(config["seed"]),
                until=until, callbacks=callbacks,
            )  # fmt: skip
            with callbacks.stage("tuning"):
                work(study, data, until=until)
            return finish(study, data, out, config=config, ks=ks, overwrite=overwrite, callbacks=callbacks, final=final)


def seconds_of(text: str | float) -> float:
    """A duration: seconds, or a text such as ``90s``, ``2m`` or ``1h``.

    >>> seconds_of("2m"), seconds_of("0.5h"), seconds_of(30)
    (120.0, 1800.0, 30.0)
    """
    seconds = 0.0
    if isinstance(text, str):
        with suppress(ValueError, KeyError):
            seconds = float(text[:-1]) * UNITS[text[-1:]]
    else:
        seconds = float(text)
    if not 0 < seconds < math.inf:
        raise InputError(f"tune: expected a time such as 90s, 2m or 1h, received {text!r}")
    return seconds


def _trackers(given: Tracker | str | Sequence[Tracker | str]) -> list[Tracker]:
    """Trackers from texts and instances, checked before any work is done."""
    listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    found = [parse_tracker(each) if isinstance(each, str) else each for each in listed]
    for each in found:
        each.check()
    return found
