"""The configuration of an experiment: a model, a loss and their settings, from names or from instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from shortlist.errors import InputError
from shortlist.losses import Loss
from shortlist.losses import registry as losses
from shortlist.models import Model, TrainableModel
from shortlist.models import registry as models
from shortlist.training import OptimizerSettings, TrainingSettings

SECTIONS = ("model", "loss", "optimizer", "training")
"""Sections of settings: the part before the dot in ``loss.tau``."""

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
    name = losses.resolve(loss or cast(type[TrainableModel], model_class).default_loss)
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


def with_temperature(chosen: ExperimentConfig, tau: float | None) -> ExperimentConfig:
    """The same configuration with this temperature; None keeps the loss's default."""
    assert chosen.loss is not None
    given = {} if tau is None else {"tau": tau}
    return replace(chosen, loss=type(chosen.loss)(**{**chosen.loss.settings(), **given}))
