"""The thresholds of all users, kept between refreshes."""

from __future__ import annotations

import pytest
import torch

from scores.tables import random_case
from shortlist.losses import SLAtK
from shortlist.scores import Sizes
from shortlist.thresholds import Thresholds
from shortlist.thresholds.estimators import ESTIMATORS, Estimator


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("refresh", "due"), [(1, [1, 2, 3, 4, 5, 6]), (2, [2, 4, 6]), (5, [5]), (20, [])])
def test_every_so_many_epochs_refresh(refresh: int, due: list[int]) -> None:
    thresholds = Thresholds(3, 9, 2, refresh=refresh)
    assert [epoch for epoch in range(1, 7) if thresholds.due(epoch)] == due


def test_zero_until_the_first_refresh() -> None:
    assert Thresholds(4, 9, 2).read(torch.tensor([0, 3])).tolist() == [0, 0]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_update_reaches_the_given_users_only(estimator: Estimator) -> None:
    case, users = random_case(0, rows=3, items=9), torch.tensor([5, 0, 2])
    thresholds = Thresholds(6, 9, 2, estimator=estimator, samples=6)
    thresholds.update(users, case.factored(), seeded())
    expected = ESTIMATORS[estimator](case.factored(), 2, 9, 6, seeded()).float()
    assert torch.equal(thresholds.read(users), expected)
    assert thresholds.read(torch.tensor([1, 3, 4])).tolist() == [0, 0, 0]
    assert torch.equal(thresholds.read(torch.tensor([2, 2, 5])), expected[[2, 2, 0]])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_never_part_of_a_gradient(estimator: Estimator) -> None:
    case, thresholds = random_case(0, rows=3, items=9), Thresholds(3, 9, 2, estimator=estimator, samples=6)
    thresholds.update(torch.arange(3), case.dense(), seeded())
    assert not thresholds.read(torch.arange(3)).requires_grad
    assert not thresholds.value_U.requires_grad


def test_reading_gives_a_copy() -> None:
    """A loss that keeps what it read is not changed under its feet by the next refresh."""
    thresholds = Thresholds(2, 9, 2)
    read = thresholds.read(torch.arange(2))
    thresholds.value_U.fill_(7)
    assert read.tolist() == [0, 0]


def test_state_round_trip() -> None:
    case, thresholds, again = random_case(0, rows=3, items=9), Thresholds(3, 9, 2), Thresholds(3, 9, 2)
    thresholds.update(torch.arange(3), case.factored(), seeded())
    state = {name: tensor.clone() for name, tensor in thresholds.state().items()}
    again.load_state(state)
    assert torch.equal(again.read(torch.arange(3)), thresholds.read(torch.arange(3)))
    again.value_U.zero_()
    assert bool((state["value"] != 0).any())


def test_a_loss_says_what_is_kept_for_it() -> None:
    loss = SLAtK(k=7, threshold="stratified", samples=50, refresh=3)
    kept = loss.thresholds(Sizes(n_keys=4, n_items=9))
    assert (kept.k, kept.n_items, kept.estimator, kept.samples, kept.refresh) == (7, 9, "stratified", 50, 3)
    assert kept.value_U.shape == (4,)
