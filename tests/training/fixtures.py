"""Small sets of interactions, models and trainings for the tests of the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.losses import Loss
from shortlist.models.mf import MF
from shortlist.training import OptimizerSettings, Training, TrainingSettings


def interactions(rows: list[list[int]], n_items: int) -> Interactions:
    """One list of items a user; a user may have none."""
    users = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    items = np.array([item for row in rows for item in row], dtype=np.int64)
    return Interactions.from_pairs(users, items, user_ids=np.arange(len(rows)), item_ids=np.arange(n_items))


def two_tastes(seed: int = 0, users: int = 40, items: int = 30) -> Interactions:
    """Even users take from the first half of the items and odd ones from the second; the last user takes nothing."""
    rng = np.random.default_rng(seed)
    half = items // 2
    rows = [sorted(rng.choice(half, 6, replace=False) + half * (user % 2)) for user in range(users - 1)]
    return interactions([*rows, []], items)


def started(train: Interactions, seed: int = 0, **settings: Any) -> MF:
    model = MF(**{"dim": 4, **settings})
    model.initialize(train, torch.Generator().manual_seed(seed))
    return model


def hits(model: MF, train: Interactions) -> float:
    """The share of each user's six best items that are of the user's taste."""
    users = np.flatnonzero(train.user_counts())
    best_RK = model.score(users).topk(6, 1).indices.numpy()
    return float((best_RK // (train.n_items // 2) == (users % 2)[:, None]).mean())


def training(
    loss: Loss,
    train: Interactions | None = None,
    *,
    seed: int = 0,
    model: dict[str, Any] | None = None,
    optimizer: dict[str, Any] | None = None,
    validate: Callable[[MF], float] | None = None,
    popularity: float = -math.inf,
    **settings: Any,
) -> Training:
    """A short training without a temperature search; ``settings`` are those of :class:`TrainingSettings`.

    ``validate`` replaces the validation value, and ``popularity`` that of the baseline.
    """
    train = train or two_tastes()
    made = MF(**{"dim": 4, "similarity": loss.similarity, **(model or {})})
    short = {"epochs": 6, "batch": 16, "checkpoint_every": 0.0, "temperature_epochs": 0}
    run = Training(
        made,
        loss,
        train,
        valid=None if validate is None else train,
        training=TrainingSettings(**{**short, **settings}),
        optimizer=OptimizerSettings(**{"lr": 0.05, "schedule": "constant", **(optimizer or {})}),
        seed=seed,
        baseline_value=popularity,
    )
    if validate is not None:
        run._validated = validate  # type: ignore[method-assign,assignment]
    return run
