"""The loop: it joins a loss to a model, and knows neither by name."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.errors import InputError, Interrupted, ShortlistError
from shortlist.losses import Loss
from shortlist.models.base import TrainableModel
from shortlist.scores import Workspace
from shortlist.training.batches import Batches, score_table, user_step
from shortlist.training.checkpoint import Checkpoint, Compared, config_diff, load, save
from shortlist.training.malloc import tune_malloc
from shortlist.training.optimizers import OptimizerSettings, RowAdam
from shortlist.training.settings import TrainingSettings, batches_for

Validate = Callable[[], float]
"""The value of the metric that decides, on validation, of the model as it is now."""

FAR_BELOW = 0.5
"""The share of its own best below which a run is taken to have collapsed."""


class Collapsed(ShortlistError):
    """Training fell far below its own best, or ended without having got past popularity."""


@dataclass
class Progress:
    """Where training stands: what the loop decides by, what a checkpoint keeps, what a progress bar shows."""

    epoch: int = 0
    loss: float = math.nan
    value: float | None = None
    best_value: float = -math.inf
    best_epoch: int = 0
    since_best: int = 0
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)


class Training:
    """A model, a loss and all that moves them, from the start or from a checkpoint to the end.

    ``run`` may be interrupted at any moment. With a checkpoint file it goes on from the last whole epoch that was
    saved, and ends with the same bits as if it had never stopped: what is random in an epoch is drawn from a generator
    that is seeded with the seed and the epoch's number.
    """

    def __init__(
        self,
        model: TrainableModel,
        loss: Loss,
        train: Interactions,
        *,
        training: TrainingSettings,
        optimizer: OptimizerSettings,
        seed: int = 0,
        validate: Validate | None = None,
        floor: float | None = None,
    ) -> None:
        self.model, self.loss, self.train, self.seed = model, loss, train, seed
        self.settings, self.optimizer_settings = training, optimizer
        self.validate, self.floor = validate, floor
        tune_malloc()
        generator = torch.Generator().manual_seed(seed)
        model.start(train, generator)
        loss.start(train.n_users, train.n_items, train.n_pairs, generator)
        self.batches: Batches = batches_for(model, loss, train, training)
        self.thresholds = loss.thresholds(train.n_users, train.n_items)
        if self.thresholds is not None and self.thresholds.needs_all and not self.batches.reaches_all:
            raise InputError(
                "loss.threshold: expected one that is estimated from a sample, such as 'stratified', where candidates "
                "are a sample, received 'exact'"
            )
        self.optimizer = RowAdam([*model.parameters(), *loss.parameters()], optimizer)
        self.workspace = Workspace()
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}

    def run(
        self,
        checkpoint: Path | None = None,
        identity: Mapping[str, Any] | None = None,
        on_epoch: Callable[[Progress], None] | None = None,
        on_step: Callable[[float], None] | None = None,
    ) -> Progress:
        """Train to the end; the model holds the best epoch's parameters afterwards.

        ``identity`` is what a checkpoint must have been made with (data and settings) to be resumed.
        """
        if checkpoint is not None:  # from the first moment on there is something to resume
            self.save(checkpoint, identity or {})
        saved = time.monotonic()
        try:
            while not self._over():
                self.epoch(on_step)
                if on_epoch is not None:
                    on_epoch(self.progress)
                if checkpoint is not None and time.monotonic() - saved >= self.settings.checkpoint_every:
                    self.save(checkpoint, identity or {})
                    saved = time.monotonic()
        except KeyboardInterrupt:
            if checkpoint is None:
                raise
            raise Interrupted(f"stopped in epoch {self.progress.epoch + 1}; resume to go on") from None
        if (
            self.settings.beat_popularity
            and self.floor is not None
            and self.best
            and self.progress.best_value < self.floor
        ):
            raise Collapsed(
                f"training never got past popularity: {self.settings.metric} {self.progress.best_value:.4f} at best, "
                f"popularity has {self.floor:.4f}; {self._advice()}; training.beat_popularity=false keeps such a run"
            )
        if self.best:
            self.model.load_state({name: tensor.clone() for name, tensor in self.best.items()})
        self.model.eval()
        return self.progress

    def _over(self) -> bool:
        done, progress = self.progress.epoch >= self.settings.epochs, self.progress
        return done or (self.validate is not None and progress.since_best >= self.settings.patience)

    def epoch(self, on_step: Callable[[float], None] | None = None) -> None:
        """Go through the data once, then judge."""
        progress, started = self.progress, time.perf_counter()
        epoch = progress.epoch + 1
        generator = torch.Generator().manual_seed(_mixed(self.seed, epoch))
        due = self.thresholds is not None and self.thresholds.due(epoch)
        rate = 0.0
        total = torch.zeros((), dtype=torch.float64)
        self.model.train()
        self.loss.before_epoch(epoch)
        for number, step in enumerate(self.batches.epoch(generator)):
            source, terms = self.model.step(step.user_R, step.item_P, generator)
            table = score_table(step, source, self.workspace)
            table.generator = generator
            if self.thresholds is not None:
                if due and self.batches.rows_are_users:
                    self.thresholds.update(step.user_R, table, generator)
                table.threshold_R = self.thresholds.read(step.user_R)
            value = sum(terms.values(), start=self.loss(table))
            if not bool(value.isfinite()):
                raise ShortlistError(f"the loss became {value.item()} in epoch {epoch}; {self._advice()}")
            value.backward()
            done = (epoch - 1 + number / self.batches.steps) / self.settings.epochs
            rate = self.optimizer_settings.rate(done)
            self.optimizer.step(rate)
            self.loss.after_step(rate)
            total += value.detach()
            if on_step is not None:
                on_step((number + 1) / self.batches.steps)
        if due and not self.batches.rows_are_users:
            self._refresh_thresholds(generator)
        if not all(bool(parameter.detach().sum().isfinite()) for parameter in self.optimizer.parameters):
            raise ShortlistError(f"the parameters became infinite in epoch {epoch}; {self._advice()}")
        progress.epoch, progress.loss = epoch, float(total) / self.batches.steps
        progress.seconds += time.perf_counter() - started
        self._judge(rate)

    @torch.no_grad()
    def _refresh_thresholds(self, generator: torch.Generator) -> None:
        """A pass over users, for batches of pairs: a pair's row does not show the user's other positives."""
        assert self.thresholds is not None
        source = self.model.source()
        for start in range(0, len(self.batches.active_users), 256):
            step = user_step(self.train, self.batches.active_users[start : start + 256])
            self.thresholds.update(step.user_R, score_table(step, source, self.workspace), generator)

    def _judge(self, rate: float) -> None:
        """Validate when it is time, keep what is best, notice a collapse, and write a line of the log.

        It tells the learning rate at the end of the epoch, and the seconds of training (not validation) so far.
        """
        progress, settings = self.progress, self.settings
        seconds = round(progress.seconds, 4)
        line: dict[str, Any] = {"epoch": progress.epoch, "loss": progress.loss, "lr": rate, "seconds": seconds}
        is_last = progress.epoch == settings.epochs
        if self.validate is not None and (progress.epoch % settings.validate_every == 0 or is_last):
            self.model.eval()
            progress.value = line[f"valid {settings.metric}"] = self.validate()
            if math.isnan(progress.value):
                raise ShortlistError(f"{settings.metric} became nan in epoch {progress.epoch}; {self._advice()}")
            if progress.value > progress.best_value:
                progress.best_value, progress.best_epoch, progress.since_best = progress.value, progress.epoch, 0
                self.best = {name: tensor.clone() for name, tensor in self.model.state().items()}
            else:
                progress.since_best += 1
                if progress.value < FAR_BELOW * progress.best_value:
                    raise Collapsed(
                        f"training collapsed by epoch {progress.epoch}: {settings.metric} fell from "
                        f"{progress.best_value:.4f} to {progress.value:.4f}; {self._advice()}"
                    )
        progress.log.append(line)

    def _advice(self) -> str:
        """What to try: more of the same where the last epoch was the best one, and else something milder."""
        if self.progress.best_epoch == self.settings.epochs:
            return f"the last epoch was the best: try training.epochs above {self.settings.epochs}"
        lower, collapse_hint_for = (
            f"an optimizer.lr below {self.optimizer_settings.lr:g}",
            self.loss.collapse_hint_for(),
        )
        return "try " + (f"{collapse_hint_for}, or {lower}" if collapse_hint_for else lower)

    def save(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Write everything that the next epoch depends on."""
        groups: dict[str, Mapping[str, Tensor]] = {
            "model": self.model.state(),
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state(),
            "best": self.best,
            "thresholds": {} if self.thresholds is None else self.thresholds.state(),
        }
        tensors = {f"{group}/{name}": tensor for group, part in groups.items() for name, tensor in part.items()}
        save(path, Checkpoint(tensors, {"identity": dict(identity), "progress": vars(self.progress)}))

    @torch.no_grad()
    def resume(self, path: Path, identity: Mapping[str, Any], compared: Compared = config_diff) -> None:
        """Take over what :meth:`save` wrote, if it was for the same data and settings, as ``compared`` finds."""
        checkpoint = load(path)
        difference = compared(checkpoint.facts["identity"], json.loads(json.dumps(dict(identity))))
        if difference is not None:
            raise InputError(f"{path}: made with other data or settings: {difference}")
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in checkpoint.tensors.items():
            group, _, rest = name.partition("/")
            groups.setdefault(group, {})[rest] = tensor
        self.model.load_state_dict(groups["model"])
        self.loss.load_state_dict(groups.get("loss", {}))
        self.optimizer.load_state(groups["optimizer"])
        if self.thresholds is not None:
            self.thresholds.load_state(groups["thresholds"])
        self.best = groups.get("best", {})
        self.progress = Progress(**checkpoint.facts["progress"])


def _mixed(seed: int, epoch: int) -> int:
    """A seed for one epoch; neighbouring seeds and epochs give unrelated ones."""
    return (seed * 0x9E3779B97F4A7C15 + epoch * 0xBF58476D1CE4E5B9) % (1 << 63)
