"""Users who arrive after training, beside the same users trained in."""

from functools import cache

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.losses import SL
from shortlist.models import MF, Factored, Pooled, registry
from shortlist.training import OptimizerSettings, Training, TrainingSettings

FACTORED = sorted(name for name in registry if issubclass(registry[name], Factored))
LATE = np.arange(0, 400, 10)
K = 10


@pytest.fixture(scope="module")
def train() -> Interactions:
    """400 users, each with two of eight tastes; a taste prefers 25 of 200 items, some more than others."""
    rng = np.random.default_rng(0)
    users, items = [], []
    for user in range(400):
        chance = np.full(200, 0.05)
        for taste in rng.choice(8, 2, replace=False):
            chance[25 * taste : 25 * taste + 25] += np.linspace(2.0, 0.2, 25)
        met = rng.choice(200, 12, replace=False, p=chance / chance.sum())
        users += [user] * 12
        items += met.tolist()
    return Interactions.from_pairs(users, items, user_ids=np.arange(400), item_ids=np.arange(200))


@cache
def fitted(name: str, train: Interactions, seed: int = 0) -> Factored:
    model = registry[name](dim=16)
    assert isinstance(model, Factored)
    settings, optimizer = TrainingSettings(epochs=15, batch=50), OptimizerSettings(lr=0.03)
    Training(model, SL(tau=0.2), train, training=settings, optimizer=optimizer, seed=seed).run()
    return model


def lists(score_RI: torch.Tensor, train: Interactions) -> list[set[int]]:
    """The best items of each late user that are not in the user's history."""
    for row, user in enumerate(LATE):
        score_RI[row, train.row(user).tolist()] = -torch.inf
    return [set(best) for best in score_RI.topk(K).indices.tolist()]


def overlap(first: list[set[int]], second: list[set[int]]) -> float:
    return float(np.mean([len(a & b) / K for a, b in zip(first, second, strict=True)]))


@pytest.mark.parametrize("name", FACTORED)
def test_a_late_user_gets_nearly_the_list_of_a_user_who_was_there(name: str, train: Interactions) -> None:
    """Nine of ten places with the items held; trained without the users, as many as two seeds have in common."""
    histories = [train.row(user) for user in LATE]
    there = fitted(name, train)
    expected = lists(there.score_all(LATE), train)
    assert overlap(expected, lists(there.score_vectors(there.fold_in(histories)), train)) > 0.85
    without = fitted(name, train.select(~np.isin(train.users_of_pairs(), LATE)))
    other = fitted(name, train, seed=1)
    by_chance = overlap(expected, lists(other.score_all(LATE), train))
    found = overlap(expected, lists(without.score_vectors(without.fold_in(histories)), train))
    assert found > by_chance - 0.05


def test_the_order_of_a_history_and_its_company_do_not_matter(train: Interactions) -> None:
    model = fitted("mf", train)
    alone = model.fold_in([np.array([3, 1, 2])])
    twice = model.fold_in([np.array([2, 3, 3, 1])])
    torch.testing.assert_close(twice, alone)
    among = model.fold_in([train.row(5), np.array([1, 2, 3]), *(train.row(user) for user in range(300))])
    torch.testing.assert_close(among[1:2], alone, rtol=1e-3, atol=1e-3)
    assert among.shape == (302, 16)


@pytest.mark.parametrize("settings", [{"similarity": "dot"}, {"item_bias": True}, {"similarity": "half_cosine"}])
def test_every_kind_of_score_is_folded_in(settings: dict[str, object], train: Interactions) -> None:
    model = MF(dim=16, **settings)
    optimizer = OptimizerSettings(lr=0.03)
    Training(model, SL(tau=0.2), train, training=TrainingSettings(epochs=10, batch=50), optimizer=optimizer).run()
    history = train.row(7)
    scores = model.score_vectors(model.fold_in([history]))[0]
    assert torch.isfinite(scores).all()
    others = np.setdiff1d(np.arange(200), history)
    assert scores[history.tolist()].mean() > scores[others].mean()


def test_one_who_has_met_everything_gets_finite_scores(train: Interactions) -> None:
    model = fitted("mf", train)
    assert torch.isfinite(model.score_vectors(model.fold_in([np.arange(200)]))).all()


def test_a_pooled_user_is_its_history(train: Interactions) -> None:
    model = fitted("pooled", train)
    assert isinstance(model, Pooled)
    torch.testing.assert_close(model.score_vectors(model.fold_in([train.row(8)])), model.score_all(np.array([8])))


@pytest.mark.parametrize("history", [[], [200], [-1, 3]])
def test_what_cannot_be_folded_in(history: list[int], train: Interactions) -> None:
    model = MF(dim=4)
    model.start(train, torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="fold_in: expected histories of items below 200"):
        model.fold_in([np.array([1]), np.array(history, dtype=np.int64)])
