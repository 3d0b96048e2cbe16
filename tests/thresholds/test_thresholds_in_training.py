"""Estimators that remember, in the training loop, with every kind of batch; a checkpoint keeps what they know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from shortlist.losses import SLAtK
from shortlist.tasks.batches import user_batch
from shortlist.training import Training
from training.fixtures import training, two_tastes

KINDS: list[dict[str, Any]] = [
    {"candidates": "all", "batch": 16},
    {"candidates": "pairs", "negatives": 8, "batch": 50},
    {"candidates": "shared", "negatives": 12, "batch": 16},
    {"candidates": "shared", "negatives": 12, "batch": 16, "distribution": "popularity"},
]


def made(estimator: Any, kind: dict[str, Any], epochs: int = 6, refresh: int = 3) -> Training:
    loss = SLAtK(k=2, threshold=estimator, samples=12, refresh=refresh)
    return training(loss, two_tastes(items=200), epochs=epochs, **kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("estimator", ["regression", "incremental"])
def test_a_resumed_run_ends_with_the_same_bits(estimator: str, kind: dict[str, Any], tmp_path: Path) -> None:
    whole = made(estimator, kind)
    whole.run()
    for stop in (1, 4):
        first = made(estimator, kind)
        for _ in range(stop):
            first.epoch()
        first.save(tmp_path / "checkpoint", {})
        second = made(estimator, kind)
        second.resume(tmp_path / "checkpoint", {})
        second.run()
        assert whole.thresholds is not None
        assert second.thresholds is not None
        state, expected = second.thresholds.state(), whole.thresholds.state()
        assert state.keys() == expected.keys()
        assert all(torch.equal(state[name], expected[name]) for name in expected)
        assert torch.equal(second.model.embeddings().item_ID, whole.model.embeddings().item_ID)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_incremental_thresholds_are_there_from_the_first_epoch_and_near_the_exact_ones(kind: dict[str, Any]) -> None:
    """Read off before the step for batches of users, after the epoch for batches of pairs."""
    run = made("incremental", kind, epochs=12, refresh=4)
    for _ in range(12):
        run.epoch()
    assert run.thresholds is not None
    batch = user_batch(run.task.train, run.batches.active_users)
    exact = run.model.encode(batch).table(batch, run.workspace).kth_largest(2)
    assert batch.key_R is not None
    error = (run.thresholds.read(batch.key_R) - exact).abs()
    assert bool((run.thresholds.read(batch.key_R) != 0).all())
    assert float(error.mean()) < (1e-3 if kind["candidates"] == "pairs" else 0.05)
