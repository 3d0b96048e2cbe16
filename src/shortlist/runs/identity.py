"""What decides the result of a training: by it a checkpoint is known again, and a cell of a grid has its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from shortlist.data import Split
from shortlist.training.checkpoint import differing


def deciding(config: Mapping[str, Any], *, tau_is_open: bool) -> dict[str, Any]:
    """A configuration without what leaves the result as it is: how often a checkpoint is written, an idle pilot.

    >>> deciding({"k": 5, "training": {"metric": "ndcg", "pilot": 6, "checkpoint_every": 20.0}}, tau_is_open=False)
    {'k': 5, 'training': {'metric': 'ndcg@5'}}
    """
    if "training" not in config:
        return dict(config)
    idle = {"checkpoint_every", *(() if tau_is_open else ("pilot",))}
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
    before, now = deciding(saved, tau_is_open=tau_is_open), deciding(given, tau_is_open=tau_is_open)
    if before.get("pairs") == now.get("pairs"):
        before, now = {**before, "data": None}, {**now, "data": None}
    return differing(before, now)


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
