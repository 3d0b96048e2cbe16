"""Estimates of the time that a cell takes."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from shortlist.bench.cells import Cell
from shortlist.data import Split
from shortlist.errors import ShortlistError
from shortlist.experiment.experiment import training_of
from shortlist.training.temperature import FACTORS, trial_epochs


def most_epochs(cell: Cell, split: Split) -> int:
    """Maximum number of epochs of a cell, including those of the temperature search."""
    chosen = cell.plan()
    if not chosen.model.is_trained:
        return 0
    searches = chosen.tau_is_open and split.valid is not None and split.valid.n_pairs
    settings, trial = chosen.training, 0
    if searches:
        steps = training_of(chosen, split, cell.seed).batches.steps
        trial = trial_epochs(steps, settings.temperature_epochs, settings.epochs)
    return settings.epochs + len(FACTORS) * trial


class _Enough(Exception):
    """The trial has run long enough."""


def seconds_of_epoch(cell: Cell, split: Split, patience: float = 0.3) -> float | None:
    """Estimate the seconds of an epoch by running some steps; None without epochs or after an error."""
    chosen = cell.plan()
    if not chosen.model.is_trained:
        return None
    started, done = time.perf_counter(), 0.0

    def look(share: float) -> None:
        nonlocal done
        done = share
        if time.perf_counter() - started > patience:
            raise _Enough

    with suppress(_Enough, ShortlistError):
        trial = training_of(chosen, replace(split, valid=None), cell.seed)
        started = time.perf_counter()
        trial.epoch(look)
    return (time.perf_counter() - started) / done if done else None
