"""Weights of interactions: they reach the loss, can be turned off, and are refused where they make no sense."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.losses import BCE, BPR, SL, Loss
from shortlist.scores import ScoreTable
from shortlist.training import Training
from training.fixtures import training, two_tastes

KINDS = ["all", "shared", "pairs"]


def weighted(train: Interactions, weights: np.ndarray | None = None) -> Interactions:
    """The same interactions with weights: those that are given, or some from 0.5 to 3."""
    drawn = np.random.default_rng(0).choice([0.5, 1.0, 3.0], train.n_pairs) if weights is None else weights
    return replace(train, weights=drawn.astype(np.float64))


class Recorder(SL):
    """SL that notes the pairs that it sees and their weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seen: list[tuple[Tensor, Tensor | None]] = []

    def value(self, table: ScoreTable) -> Tensor:
        assert table.context.pair_P is not None
        self.seen.append((table.context.pair_P, table.context.weight_P))
        return super().value(table)


def trained(loss: Loss, train: Interactions, kind: str, **settings: Any) -> Training:
    run = training(loss, train, candidates=kind, negatives=6, epochs=2, **settings)
    run.run()
    return run


@pytest.mark.parametrize("kind", KINDS)
def test_weights_reach_the_loss(kind: str) -> None:
    train, loss = weighted(two_tastes()), Recorder(tau=0.2)
    trained(loss, train, kind)
    assert train.weights is not None
    for pair_P, weight_P in loss.seen:
        assert weight_P is not None
        np.testing.assert_allclose(weight_P.numpy(), train.weights[pair_P.numpy()], rtol=1e-6)
    assert sorted(torch.cat([pair_P for pair_P, _ in loss.seen]).tolist()) == sorted([*range(train.n_pairs)] * 2)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_turned_off_do_not_reach_it(kind: str) -> None:
    loss = Recorder(tau=0.2)
    trained(loss, weighted(two_tastes()), kind, use_weights=False)
    assert all(weight_P is None for _, weight_P in loss.seen)


@pytest.mark.parametrize("loss", [SL, BPR, BCE])
@pytest.mark.parametrize("kind", KINDS)
def test_without_weights_the_bits_are_those_of_data_without(kind: str, loss: type[Loss]) -> None:
    plain, train = two_tastes(), weighted(two_tastes())
    expected, off, on = (
        trained(loss(), data, kind, use_weights=use).model.state()
        for data, use in ((plain, True), (train, False), (train, True))
    )
    assert all(torch.equal(expected[name], off[name]) for name in expected)
    assert not all(torch.equal(expected[name], on[name]) for name in expected)


@pytest.mark.parametrize("kind", KINDS)
def test_interactions_of_weight_zero_pull_nothing(kind: str) -> None:
    """An item that only they name is no positive of anybody: its users do not learn to like it."""
    train = two_tastes()
    scores = {}
    for light in (0.0, 1.0):
        weights = np.where(train.indices == train.indices[0], light, 1.0)
        run = training(SL(tau=0.2), weighted(train, weights), candidates=kind, negatives=6, epochs=30)
        run.run()
        users = np.flatnonzero([train.indices[0] in train.row(user) for user in range(train.n_users)])
        scores[light] = float(run.model.score(users)[:, int(train.indices[0])].mean())
    assert scores[0.0] < scores[1.0] - 0.2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", ["negative", "all zero"])
def test_weights_that_make_no_sense_are_refused_in_one_line(kind: str, weights: str) -> None:
    train = two_tastes()
    given = np.zeros(train.n_pairs)
    if weights == "negative":
        given[:] = 1.0
        given[7] = -2.5
    with pytest.raises(InputError, match=r"^weights: expected numbers of at least 0, not all 0, received ") as caught:
        training(SL(), weighted(train, given), candidates=kind)
    message = str(caught.value)
    assert "\n" not in message
    assert "training.use_weights=false" in message
    if weights == "negative":
        assert f"received -2.5 for user 1, item {train.indices[7]};" in message
    training(SL(), weighted(train, given), candidates=kind, use_weights=False)
