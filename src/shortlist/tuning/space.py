"""Search spaces: the ranges that losses, models and optimisers declare with their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shortlist.errors import InputError
from shortlist.experiment import PRESETS, ExperimentConfig, Preset, plan
from shortlist.losses import registry as losses
from shortlist.models import registry as models
from shortlist.parameters import Param, Search
from shortlist.training import OptimizerSettings, TrainingSettings

Point = Mapping[str, Any]
"""Settings by full name, such as ``loss.tau``."""

DIGITS = 3
"""Significant digits of a number: more have no effect and make commands longer."""


@dataclass(frozen=True)
class Space:
    """Searched parameters by full name, and the other settings. A point of the space gives a configuration.

    ``loss`` is the loss that trains the model, also if it is the default of the model; a baseline has none.
    ``values`` are defaults, such as those of a preset; ``texts``, given on the command line, are fixed.

    >>> space = space_of("mf", "sl", 20, texts={"optimizer": {"lr": "0.03"}})
    >>> list(space.searched)
    ['loss.tau', 'loss.positive_weight', 'training.epochs']
    >>> space.plan({"loss.tau": 0.1}).loss.settings()["tau"]
    0.1
    """

    model: str
    loss: str | None
    k: int
    searched: Mapping[str, Param]
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def plan(self, point: Point) -> ExperimentConfig:
        """The configuration of a point. Settings outside of it are as given, or the defaults of the library."""
        values = {section: dict(given) for section, given in self.values.items()}
        for name, value in point.items():
            section, _, key = name.partition(".")
            values.setdefault(section, {})[key] = value
        return plan(self.model, self.loss, self.k, values=values, texts=self.texts)

    def default(self) -> dict[str, Any]:
        """The point with the defaults of `shortlist train`, except for the temperature, which training searches for."""
        config = self.plan({}).config()
        config["model"] = self.plan({}).model.settings()
        return {name: _part(config, name) for name in self.searched}

    def initial_points(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Initial points by name: the default, then presets for the model and the loss, those with few epochs first.

        A preset also has settings that are not searched, such as its schedule; fixed settings are kept.
        """
        yield "default", self.default()
        names = (self.model, self.loss)
        fitting = [name for name, preset in PRESETS.items() if (preset.model, preset.loss) == names]
        for name in sorted(fitting, key=lambda name: PRESETS[name].settings.get("training", {}).get("epochs", 0)):
            yield name, {**self.default(), **self._free(PRESETS[name])}

    def _free(self, preset: Preset) -> dict[str, Any]:
        """The settings of a preset that are not fixed."""
        return {
            f"{section}.{key}": value
            for section, settings in preset.settings.items()
            for key, value in settings.items()
            if key not in self.texts.get(section, {})
        }

    def divided(self, point: Point) -> tuple[dict[str, Any], dict[str, Any]]:
        """Divide a point into one inside the space, defaults where it has no value there, and the rest."""
        inside = {
            name: point[name] if name in point and _holds(parameter.search, point[name]) else default
            for (name, parameter), default in zip(self.searched.items(), self.default().values(), strict=True)
        }
        return inside, {name: value for name, value in point.items() if name not in inside or inside[name] != value}

    def describe(self) -> dict[str, str]:
        """The searched ranges as text."""
        return {name: str(parameter.search) for name, parameter in self.searched.items()}


def space_of(
    model: str,
    loss: str | None,
    k: int,
    values: Mapping[str, Mapping[str, Any]] | None = None,
    texts: Mapping[str, Mapping[str, str]] | None = None,
) -> Space:
    """The search space of a model and a loss: all parameters that declare one and are not fixed.

    Weight decay is left out where scores are cosines, which do not depend on the length of vectors.
    """
    values, texts = values or {}, texts or {}
    chosen = plan(model, loss, k, values=values, texts=texts)
    owners: dict[str, Mapping[str, Param]] = {"model": models[model].declared}
    if chosen.loss_name is not None:
        owners |= {"loss": losses[chosen.loss_name].declared}
        owners |= {"optimizer": OptimizerSettings.declared, "training": TrainingSettings.declared}
    searched = {
        f"{section}.{name}": parameter
        for section, declared in owners.items()
        for name, parameter in declared.items()
        if parameter.search and name not in texts.get(section, {})
    }
    if chosen.model.settings().get("similarity", "dot") != "dot":
        searched.pop("optimizer.weight_decay", None)
    if not searched:
        what = f"{model} with {chosen.loss_name}" if chosen.loss_name else model
        raise InputError(f"tune: expected settings that can be searched, received none that is free ({what})")
    space = Space(model, chosen.loss_name, k, searched, values, texts)
    return replace(space, searched=_wide_enough(searched, space.default()))


def distributions(space: Space) -> dict[str, Any]:
    """The space as Optuna distributions."""
    from optuna import distributions as kinds

    def kind(parameter: Param) -> Any:
        search = parameter.search
        assert search is not None
        if search.choices:
            return kinds.CategoricalDistribution(search.choices)
        assert search.low is not None
        assert search.high is not None
        if parameter.annotation is int:
            return kinds.IntDistribution(int(search.low), int(search.high), log=search.log)
        return kinds.FloatDistribution(search.low, search.high, log=search.log)

    return {name: kind(parameter) for name, parameter in space.searched.items()}


def rounded(point: Point) -> dict[str, Any]:
    """The point with rounded numbers.

    >>> rounded({"loss.tau": 0.123456, "model.layers": 1234, "loss.weight": "detached"})
    {'loss.tau': 0.123, 'model.layers': 1234, 'loss.weight': 'detached'}
    """
    return {name: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for name, value in point.items()}


def _wide_enough(searched: Mapping[str, Param], point: Point) -> dict[str, Param]:
    """Ranges widened to include the point: a default may lie outside of the declared range."""
    return {name: Param(**{**vars(each), "search": _with(each.search, point[name])}) for name, each in searched.items()}


def _holds(search: Search | None, value: Any) -> bool:
    assert search is not None
    if search.choices:
        return value in search.choices
    assert search.low is not None
    assert search.high is not None
    return bool(search.low <= value <= search.high)


def _with(search: Search | None, value: Any) -> Search | None:
    if search is None or value in search.choices:
        return search
    if search.choices:
        return Search(choices=(value, *search.choices))
    assert search.low is not None
    assert search.high is not None
    return Search(min(search.low, value), max(search.high, value), search.log)


def _part(config: Mapping[str, Any], name: str) -> Any:
    section, _, key = name.partition(".")
    return config[section][key]
