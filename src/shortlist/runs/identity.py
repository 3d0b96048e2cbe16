"""What decides the result of a training: by it a checkpoint is known again, and a cell of a grid has its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from shortlist.data import Split
from shortlist.losses import registry as losses
from shortlist.models import registry as models
from shortlist.parameters import Configured, renamed
from shortlist.training import OptimizerSettings, TrainingSettings
from shortlist.training.checkpoint import config_diff


def current_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that an earlier version may have written, by the parameters' current names.

    >>> current_config({"format": 1, "loss": {"name": "sl", "pull": 0.9}, "training": {"against": "all"}})
    {'format': 1, 'loss': {'name': 'sl', 'positive_weight': 0.9}, 'training': {'candidates': 'all'}}
    """
    owners: dict[str, type[Configured]] = {"optimizer": OptimizerSettings, "training": TrainingSettings}
    for section, registry in (("model", models), ("loss", losses)):
        name = config.get(section, {}).get("name")
        if name in registry:
            owners[section] = registry[name]
    current = dict(config)
    for section, owner in owners.items():
        if section in config:
            current[section] = renamed(owner, config[section])
    return current


def result_config(config: Mapping[str, Any], *, tau_is_open: bool) -> dict[str, Any]:
    """A configuration without what leaves the result as it is: checkpoint interval, unused temperature search.

    >>> training = {"metric": "ndcg", "temperature_epochs": 6, "checkpoint_every": 20.0}
    >>> result_config({"k": 5, "training": training}, tau_is_open=False)
    {'k': 5, 'training': {'metric': 'ndcg@5'}}
    """
    if "training" not in config:
        return dict(config)
    idle = {"checkpoint_every", *(() if tau_is_open else ("temperature_epochs",))}
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
    before = result_config(current_config(saved), tau_is_open=tau_is_open)
    now = result_config(given, tau_is_open=tau_is_open)
    if before.get("pairs") == now.get("pairs"):
        before, now = {**before, "data": None}, {**now, "data": None}
    return config_diff(before, now)


def fingerprint(split: Split) -> str:
    """A short text that changes with any pair or id."""
    digest = hashlib.blake2b(digest_size=12)
    for part in (split.train, split.valid, split.test):
        if part is not None:
            digest.update(part.indptr.tobytes())
            digest.update(part.indices.tobytes())
    for ids in (split.train.user_ids, split.train.item_ids):
        digest.update("\n".join(map(str, ids.to_list())).encode())
    return digest.hexdigest()
