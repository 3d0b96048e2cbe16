"""What decides the result of a training: by it a checkpoint is known again, and a cell of a grid has its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shortlist.data import Split
from shortlist.losses import registry as losses
from shortlist.models import registry as models
from shortlist.parameters import Configured, renamed
from shortlist.tasks import Task, task_of
from shortlist.training import OptimizerSettings, TrainingSettings
from shortlist.training.checkpoint import config_diff


def current_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that an earlier version may have written, by the parameters' current names.

    >>> current_config({"format": 1, "loss": {"name": "sl", "pull": 0.9}, "training": {"against": "all"}})
    {'format': 1, 'loss': {'name': 'sl', 'positive_weight': 0.9}, 'training': {'candidates': 'all'}}
    """
    sections = {section: renamed(owner, config[section]) for section, owner in _owners(config).items()}
    return {**config, **sections}


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the defaults of settings that did not exist when it was written."""
    full = dict(config)
    for section, owner in _owners(config).items():
        defaults = {name: parameter.default for name, parameter in owner.declared.items()}
        name = {"name": config[section]["name"]} if "name" in config[section] else {}  # the first difference to name
        full[section] = {**name, **json.loads(json.dumps(defaults)), **config[section]}
    return full


def _owners(config: Mapping[str, Any]) -> dict[str, type[Configured]]:
    """The class whose parameters each section of a configuration holds."""
    owners: dict[str, type[Configured]] = {"optimizer": OptimizerSettings, "training": TrainingSettings}
    for section, registry in (("model", models), ("loss", losses)):
        name = config.get(section, {}).get("name")
        if name in registry:
            owners[section] = registry[name]
    return {section: owner for section, owner in owners.items() if section in config}


def result_config(config: Mapping[str, Any], *, tau_is_open: bool) -> dict[str, Any]:
    """A configuration without what does not change the result: checkpoint interval, device, unused temperature search.

    >>> training = {"metric": "ndcg", "temperature_epochs": 6, "checkpoint_every": 20.0}
    >>> result_config({"k": 5, "training": training}, tau_is_open=False)
    {'k': 5, 'training': {'metric': 'ndcg@5'}}
    """
    if "training" not in config:
        return dict(config)
    idle = {"checkpoint_every", "device", *(() if tau_is_open else ("temperature_epochs",))}
    if config["training"].get("stop_on_collapse", True):  # as before there was a choice
        idle.add("stop_on_collapse")
    training = {name: value for name, value in config["training"].items() if name not in idle}
    metric, _, k = training["metric"].partition("@")
    return {**config, "training": {**training, "metric": f"{metric}@{int(k or config['k'])}"}}


def difference(saved: Mapping[str, Any], given: Mapping[str, Any], *, tau_is_open: bool) -> str | None:
    """The first place in which two trainings differ in what decides, in words.

    How ``data`` were read is looked at only where the ``pairs`` that came of it are not the same.

    >>> saved = {"data": {"core": 0}, "pairs": "b40d", "seed": 0}
    >>> difference(saved, {**saved, "data": {"core": 1}}, tau_is_open=False)
    >>> difference(saved, {**saved, "data": {"core": 5}, "pairs": "8f1d"}, tau_is_open=False)
    'data.core: expected 0, received 5'
    """
    before = result_config(with_defaults(current_config(saved)), tau_is_open=tau_is_open)
    now = result_config(given, tau_is_open=tau_is_open)
    if before.get("pairs") == now.get("pairs"):
        before, now = {**before, "data": None}, {**now, "data": None}
    return config_diff(before, now)


def fingerprint(data: Split | Task) -> str:
    """A digest that changes with the data."""
    return task_of(data).fingerprint()
