"""The training loop: it combines a model, a loss and a task, and depends on their interfaces only."""

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

from shortlist.data import Interactions, Split
from shortlist.errors import InputError, Interrupted, ShortlistError
from shortlist.losses import Loss
from shortlist.losses import registry as losses
from shortlist.memory import check_memory
from shortlist.metrics import evaluate_set
from shortlist.models import TrainableModel
from shortlist.scores import Batch, ScoreTable, Workspace
from shortlist.tasks import Batches, Task, task_of
from shortlist.training.checkpoint import Checkpoint, Compared, config_diff, load, save
from shortlist.training.malloc import tune_malloc
from shortlist.training.optimizers import OptimizerSettings, RowAdam
from shortlist.training.settings import TrainingSettings, batches_for
from shortlist.training.temperature import best_temperature, check_time, trial_epochs

FAR_BELOW, CERTAIN = 0.5, 2.5
"""A run has collapsed if its validation value falls below this fraction of its best, by so many standard errors."""


class Collapsed(ShortlistError):
    """Training fell far below its best validation value, or ended without exceeding popularity."""


@dataclass
class Progress:
    """The state of the loop, which checkpoints store and progress bars show."""

    epoch: int = 0
    loss: float = math.nan
    value: float | None = None
    best_value: float = -math.inf
    best_epoch: int = 0
    since_best: int = 0
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)


class Training:
    """Training of a model with a loss on data, from the start or from a checkpoint.

    The data is a task, a split, or interactions (with ``valid`` for validation). With validation data, the loop
    validates every few epochs, keeps the best epoch, stops early after ``patience`` validations without improvement,
    and raises :class:`Collapsed` for a model that does not exceed popularity. If the temperature of the loss is not
    set, :meth:`search_temperature` finds it first. ``k`` is the list length of the metric; by default the loss's K.
    ``device`` overrides the device of the settings. ``stop_after`` ends training after so many epochs of a schedule
    that is made for ``training.epochs``.

    ``run`` can be interrupted at any time. With a checkpoint file it resumes after the last saved epoch, and the result
    is bit-exact as without the interruption: random numbers of an epoch come from a generator that is seeded with the
    seed and the epoch's number.

    >>> from shortlist.losses import SL
    >>> from shortlist.models import MF
    >>> train = Interactions.from_pairs([0, 1, 1], [0, 1, 2], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> training = Training(MF(dim=8), SL(tau=0.2), train, training=TrainingSettings(epochs=3))
    >>> training.run().epoch
    3
    """

    def __init__(
        self,
        model: TrainableModel,
        loss: Loss,
        data: Task | Split | Interactions,
        *,
        valid: Interactions | None = None,
        training: TrainingSettings | None = None,
        optimizer: OptimizerSettings | None = None,
        seed: int = 0,
        k: int | None = None,
        baseline_value: float | None = None,
        validate: bool = True,
        device: torch.device | None = None,
        stop_after: int | None = None,
    ) -> None:
        self.model, self.loss, self.task, self.seed = model, loss, task_of(data, valid), seed
        self.settings, self.optimizer_settings = training or TrainingSettings(), optimizer or OptimizerSettings()
        self.metric, self.k = self.settings.validation_metric(int(loss.settings().get("k") or 20) if k is None else k)
        self.valid = self.task.evaluation_set("valid") if validate else None
        self.baseline_value = baseline_value
        self.stop_after = stop_after
        self.device = self.settings.torch_device() if device is None else device
        tune_malloc()
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self._value_Q: Tensor | None = None
        """The value of each query at the last validation, and at the best one; None where they are not known."""
        self._best_Q: Tensor | None = None
        self._prepare()

    def _prepare(self) -> None:
        """Initialize model, loss and optimiser from the seed."""
        model, loss, task = self.model, self.loss, self.task
        if model.task != task.name:
            name = type(model).__name__
            raise InputError(f"{name}: expected data of the task {model.task}, received data of {task.name}")
        # parameters, and two moments of the optimiser
        n_users, n_items = (size or 0 for size in (task.sizes.n_keys, task.sizes.n_items))
        check_memory(type(model).__name__, 3 * 4 * model.n_parameters(n_users, n_items))
        generator = torch.Generator().manual_seed(self.seed)
        model.initialize(task.train, generator)
        loss.initialize(task.sizes, generator)
        model.to(self.device)
        loss.to(self.device)
        self.batches: Batches = batches_for(model, loss, task, self.settings)
        self.thresholds = loss.thresholds(task.sizes)
        if self.thresholds is not None:
            if self.thresholds.needs_all and not self.batches.reaches_all:
                raise InputError(
                    "loss.threshold: expected an estimator for samples, such as 'stratified', where "
                    "candidates are a sample, received 'exact'"
                )
            self.thresholds.to(self.device)
        self.optimizer = RowAdam([*model.parameters(), *loss.parameters()], self.optimizer_settings)
        self.workspace = Workspace()

    @property
    def temperature_is_open(self) -> bool:
        """Whether the loss has a temperature that is not set and trials should find it."""
        return "tau" in self.loss.declared and "tau" not in self.loss.given and self.settings.temperature_epochs > 0

    def search_temperature(self, until: float = math.inf) -> float | None:
        """Find the temperature by short trials on validation, if it is not set; return it.

        The loss is replaced by a copy with the temperature. Each trial trains new copies of model and loss with a
        complete learning rate schedule. The search ends when ``time.monotonic()`` exceeds ``until``.
        """
        if self.valid is None or not self.temperature_is_open or self.progress.epoch:
            return None
        epochs = trial_epochs(self.batches.steps, self.settings.temperature_epochs, self.settings.epochs)
        short = TrainingSettings(**{**self.settings.settings(), "epochs": epochs})
        falling = OptimizerSettings(**{**self.optimizer_settings.settings(), "schedule": "linear"})
        settings = self.loss.settings()

        def trial(tau: float) -> float:
            run = Training(
                type(self.model)(**self.model.settings()),
                type(self.loss)(**{**settings, "tau": tau}),
                self.task,
                training=short,
                optimizer=falling,
                seed=self.seed,
                validate=False,
                device=self.device,
            )
            run.run(on_step=lambda share: check_time(until))
            return self._validated(run.model)

        tau = best_temperature(float(self.loss.declared["tau"].default), trial, until)
        self.loss = type(self.loss)(**{**settings, "tau": tau})
        self._prepare()
        return tau

    def _validated(self, model: TrainableModel) -> float:
        """The value of the validation metric."""
        assert self.valid is not None
        found = evaluate_set(model, self.valid, [self.k], metrics=[self.metric])
        self._value_Q = torch.from_numpy(found.per_query[f"{self.metric}@{self.k}"])
        return found.means()[f"{self.metric}@{self.k}"]

    def _is_far_below(self) -> bool:
        """Whether validation is far below its best, and not by chance: the fall is several standard errors of it."""
        progress = self.progress
        assert progress.value is not None
        if progress.value >= FAR_BELOW * progress.best_value:
            return False
        if self._value_Q is None or self._best_Q is None or len(self._value_Q) != len(self._best_Q):
            return True
        fall_Q = (self._best_Q - self._value_Q).double()
        fall_V = fall_Q[~fall_Q.isnan()]
        if len(fall_V) < 2:
            return False
        error = float(fall_V.std()) / math.sqrt(len(fall_V))
        return float(fall_V.mean()) > CERTAIN * error

    def run(
        self,
        checkpoint: Path | None = None,
        identity: Mapping[str, Any] | None = None,
        on_epoch: Callable[[Progress], None] | None = None,
        on_step: Callable[[float], None] | None = None,
    ) -> Progress:
        """Train to the end; afterwards the model has the parameters of the best epoch.

        ``identity`` (data and settings) must equal that of the checkpoint to resume from.
        """
        self.search_temperature()
        if checkpoint is not None:  # a first checkpoint, so that resuming is always possible
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
            raise Interrupted(f"stopped in epoch {self.progress.epoch + 1}; resume to continue") from None
        self._compare_with_baseline()
        if self.best:
            self.model.load_state({name: tensor.clone() for name, tensor in self.best.items()})
            self.model.to(self.device)
        self.model.eval()
        return self.progress

    def _compare_with_baseline(self) -> None:
        """Raise :class:`Collapsed` if the task's simplest baseline is better on validation."""
        if not (self.settings.beat_popularity and self.best):
            return
        if self.baseline_value is None:
            self.baseline_value = self.task.baseline_value(self.metric, self.k)
        if self.baseline_value is not None and self.progress.best_value < self.baseline_value:
            raise Collapsed(
                f"training did not exceed popularity: {self.settings.metric} {self.progress.best_value:.4f} at best, "
                f"popularity has {self.baseline_value:.4f}; {self._advice()}; training.beat_popularity=false keeps "
                "such a run"
            )

    def _over(self) -> bool:
        progress = self.progress
        done = progress.epoch >= (self.settings.epochs if self.stop_after is None else self.stop_after)
        return done or (self.valid is not None and progress.since_best >= self.settings.patience)

    def epoch(self, on_step: Callable[[float], None] | None = None) -> None:
        """Train one epoch, then validate if due."""
        progress, started = self.progress, time.perf_counter()
        epoch = progress.epoch + 1
        generator = torch.Generator().manual_seed(_mixed(self.seed, epoch))
        due = self.thresholds is not None and self.thresholds.due(epoch)
        rate = 0.0
        total = torch.zeros((), dtype=torch.float64)
        self.model.train()
        self.loss.before_epoch(epoch)
        for number, batch in enumerate(self.batches.epoch(generator)):
            batch = batch.to(self.device)
            encoding = self.model.encode(batch, generator)
            table = encoding.table(batch, self.workspace, generator)
            if self.thresholds is not None:
                table = table.with_threshold(self._thresholds_of(batch, table, due, generator))
            value = sum(encoding.terms.values(), start=self.loss(table))
            if not bool(value.isfinite()):
                raise ShortlistError(f"the loss became {value.item()} in epoch {epoch}; {self._advice()}")
            value.backward()
            done = (epoch - 1 + number / self.batches.steps) / self.settings.epochs
            rate = self.optimizer_settings.rate(done)
            self.optimizer.step(rate)
            self.loss.after_step(rate)
            total += value.detach().cpu()
            if on_step is not None:
                on_step((number + 1) / self.batches.steps)
        if due and not self.batches.rows_are_complete:
            self._refresh_thresholds(generator)
        if not all(bool(parameter.detach().sum().isfinite()) for parameter in self.optimizer.parameters):
            raise ShortlistError(f"the parameters became infinite in epoch {epoch}; {self._advice()}")
        progress.epoch, progress.loss = epoch, float(total) / self.batches.steps
        progress.seconds += time.perf_counter() - started
        self._judge(rate)

    def _thresholds_of(self, batch: Batch, table: ScoreTable, due: bool, generator: torch.Generator) -> Tensor:
        """The Top-K threshold of each row: stored by key, or estimated from the row if it has none."""
        assert self.thresholds is not None
        if batch.key_R is None:
            return self.thresholds.estimate(table, generator)
        if due and self.batches.rows_are_complete:
            self.thresholds.update(batch.key_R, table, generator)
        return self.thresholds.read(batch.key_R)

    @torch.no_grad()
    def _refresh_thresholds(self, generator: torch.Generator) -> None:
        """A pass over keys, for batches of pairs: the row of a pair does not have the other positives of its key."""
        assert self.thresholds is not None
        self.model.eval()  # embeddings are computed once for all batches
        for batch in self.batches.complete_rows():
            batch = batch.to(self.device)
            assert batch.key_R is not None
            table = self.model.encode(batch).table(batch, self.workspace)
            self.thresholds.update(batch.key_R, table, generator)

    def _judge(self, rate: float) -> None:
        """Validate if due, keep the best epoch, detect a collapse, and write a line of the log.

        The line has the learning rate at the end of the epoch and the seconds of training so far, without validation.
        """
        progress, settings = self.progress, self.settings
        seconds = round(progress.seconds, 4)
        line: dict[str, Any] = {"epoch": progress.epoch, "loss": progress.loss, "lr": rate, "seconds": seconds}
        is_last = progress.epoch == settings.epochs
        if self.valid is not None and (progress.epoch % settings.validate_every == 0 or is_last):
            self.model.eval()
            progress.value = line[f"valid {settings.metric}"] = self._validated(self.model)
            if math.isnan(progress.value):
                raise ShortlistError(f"{settings.metric} became nan in epoch {progress.epoch}; {self._advice()}")
            if progress.value > progress.best_value:
                progress.best_value, progress.best_epoch, progress.since_best = progress.value, progress.epoch, 0
                self.best = {name: tensor.clone() for name, tensor in self.model.state().items()}
                self._best_Q = self._value_Q
            else:
                progress.since_best += 1
                if settings.stop_on_collapse and self._is_far_below():
                    raise Collapsed(
                        f"training collapsed by epoch {progress.epoch}: {settings.metric} fell from "
                        f"{progress.best_value:.4f} to {progress.value:.4f}; {self._advice()}"
                    )
        progress.log.append(line)

    def _advice(self) -> str:
        """Advice: more epochs if the last epoch was the best, otherwise milder settings."""
        if self.progress.best_epoch == self.settings.epochs:
            return f"the last epoch was the best: try training.epochs above {self.settings.epochs}"
        lower, collapse_hint_for = (
            f"an optimizer.lr below {self.optimizer_settings.lr:g}",
            self.loss.collapse_hint_for(),
        )
        return "try " + (f"{collapse_hint_for}, or {lower}" if collapse_hint_for else lower)

    def save(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Save everything that the next epoch depends on."""
        groups: dict[str, Mapping[str, Tensor]] = {
            "model": self.model.state(),
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state(),
            "best": self.best,
            "validation": {} if self._best_Q is None else {"best": self._best_Q},
            "thresholds": {} if self.thresholds is None else self.thresholds.state(),
        }
        tensors = {f"{group}/{name}": tensor for group, part in groups.items() for name, tensor in part.items()}
        save(path, Checkpoint(tensors, {"identity": dict(identity), "progress": vars(self.progress)}))

    @torch.no_grad()
    def resume(self, path: Path, identity: Mapping[str, Any], compared: Compared = config_diff) -> None:
        """Load what :meth:`save` wrote; ``compared`` must find the same data and settings."""
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
            self.thresholds.to(self.device)
        self.best = groups.get("best", {})
        self._best_Q = groups.get("validation", {}).get("best")
        self.progress = Progress(**checkpoint.facts["progress"])


def _mixed(seed: int, epoch: int) -> int:
    """A seed for one epoch; adjacent seeds and epochs give unrelated ones."""
    return (seed * 0x9E3779B97F4A7C15 + epoch * 0xBF58476D1CE4E5B9) % (1 << 63)


def fit_model(
    model: TrainableModel, data: Task | Split | Interactions, *, loss: Loss | str | None = None, **settings: Any
) -> Training:
    """Train a model with a loss, by default the model's; ``settings`` are those of :class:`Training`."""
    task = task_of(data, settings.pop("valid", None))
    if loss is None or isinstance(loss, str):
        chosen = losses[loss or model.default_loss]
        short = {"k": min(20, task.n_candidates)} if "k" in chosen.declared else {}
        loss = chosen(**short)
    training = Training(model, loss, task, **settings)
    training.run()
    return training
