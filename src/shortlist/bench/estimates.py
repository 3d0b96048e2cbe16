"""Estimate how long a cell takes, before it is computed."""

from __future__ import annotations

import time
from contextlib import suppress

from shortlist.bench.cells import Cell
from shortlist.data import Split
from shortlist.errors import ShortlistError
from shortlist.experiment.temperature_search import FACTORS, trial_epochs
from shortlist.models import TrainableModel
from shortlist.training import Training


def most_epochs(cell: Cell, split: Split) -> int:
    """How many epochs a cell takes at most, those of the trials for its temperature among them."""
    chosen = cell.plan()
    if chosen.loss is None or not isinstance(chosen.model, TrainableModel):
        return 0
    looks = chosen.tau_is_open and split.valid is not None and split.valid.n_pairs
    trial = trial_epochs(chosen.model, chosen.loss, split.train, chosen.training) if looks else 0
    return chosen.training.epochs + len(FACTORS) * trial


class _Enough(Exception):
    """A trial has seen what it came for."""


def seconds_of_epoch(cell: Cell, split: Split, patience: float = 0.3) -> float | None:
    """Estimate how long an epoch of a cell takes, by trying some steps; None without epochs or on failure."""
    chosen = cell.plan()
    if chosen.loss is None or not isinstance(chosen.model, TrainableModel):
        return None
    started, done = time.perf_counter(), 0.0

    def look(share: float) -> None:
        nonlocal done
        done = share
        if time.perf_counter() - started > patience:
            raise _Enough

    with suppress(_Enough, ShortlistError):
        trial = Training(chosen.model, chosen.loss, split.train, training=chosen.training, optimizer=chosen.optimizer)
        started = time.perf_counter()
        trial.epoch(look)
    return (time.perf_counter() - started) / done if done else None
