"""Propagation against dense matrices and torch's own gradients."""

import numpy as np
import pytest
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.models.graph import InteractionGraph, layer_sums, noise


@pytest.fixture
def train() -> Interactions:
    """Nine users and seven items; user 4, item 0 and item 6 met nobody."""
    met = np.random.default_rng(1).random((9, 7)) < 0.5
    met[4], met[:, 0], met[:, 6] = False, False, False
    users, items = met.nonzero()
    return Interactions.from_pairs(users, items, user_ids=np.arange(9), item_ids=np.arange(7))


def dense(train: Interactions, user_power: float, item_power: float) -> Tensor:
    """Users × items, filled pair by pair."""
    count_U, count_I = train.user_counts(), train.item_counts()
    matrix = torch.zeros(train.n_users, train.n_items)
    for user in range(train.n_users):
        for item in train.row(user):
            matrix[user, item] = float(count_U[user]) ** -user_power * float(count_I[item]) ** -item_power
    return matrix


def vectors(n: int, seed: int) -> Tensor:
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("powers", [(0.5, 0.5), (0.6, -0.1), (1.0, 0.0)])
def test_products_and_their_gradients_equal_dense_ones(train: Interactions, powers: tuple[float, float]) -> None:
    adjacency, matrix_UI = InteractionGraph.of(train).adjacency(*powers), dense(train, *powers)
    for way, reference in ((adjacency, matrix_UI), (adjacency.reversed(), matrix_UI.T)):
        x = vectors(reference.shape[1], 0)
        y, expected = way.times(x), reference @ x
        torch.testing.assert_close(y, expected)
        weight = vectors(len(reference), 1).detach()
        got, wanted = (torch.autograd.grad((out * weight).sum(), x)[0] for out in (y, expected))
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize(
    "weights", [[[1.0]], [[1 / 3] * 3], [[0, 0.5, 0.25, 0.25], [0, 1, 0, 0]], [[0, 0, 1], [1, 0, 0]]]
)
def test_sums_of_layers_and_their_gradients_equal_dense_ones(train: Interactions, weights: list[list[float]]) -> None:
    half = dense(train, 0.5, 0.5)
    adjacency = torch.zeros(16, 16)
    adjacency[:9, 9:], adjacency[9:, :9] = half, half.T
    user, item = vectors(9, 0), vectors(7, 1)
    layers = [torch.cat([user, item])]
    for _ in range(len(weights[0]) - 1):
        layers.append(adjacency @ layers[-1])
    expected = [sum(w * layer for w, layer in zip(row, layers, strict=True)) for row in weights]
    got = [
        torch.cat(halves) for halves in layer_sums(user, item, InteractionGraph.of(train).adjacency(0.5, 0.5), weights)
    ]
    torch.testing.assert_close(got, expected)
    pull = [torch.randn(16, 5, generator=torch.Generator().manual_seed(9 + place)) for place in range(len(weights))]
    gradients = [
        torch.autograd.grad(sum((p * out).sum() for p, out in zip(pull, outs, strict=True)), [user, item])
        for outs in (got, expected)
    ]
    torch.testing.assert_close(*gradients)


def test_one_sum_alone_can_be_asked_for_its_gradient(train: Interactions) -> None:
    user, item = vectors(9, 0), vectors(7, 1)
    adjacency = InteractionGraph.of(train).adjacency(0.5, 0.5)
    both = layer_sums(user, item, adjacency, [[0, 0.5, 0.5], [0, 1, 0]])
    alone = layer_sums(user, item, adjacency, [[0, 1, 0]])
    for half in (0, 1):
        got, expected = (torch.autograd.grad(sums[-1][half].sum(), [user, item]) for sums in (both, alone))
        torch.testing.assert_close(got, expected)


def test_noise_stays_in_the_orthant_and_has_its_length() -> None:
    before = torch.randn(5000, 6, generator=torch.Generator().manual_seed(0))
    before[3] = 0
    after = before.clone()
    noise(0.3, torch.Generator().manual_seed(1))(after)
    moved = after - before
    assert torch.equal(moved[3], torch.zeros(6))
    moved, before = (torch.cat([part[:3], part[4:]]) for part in (moved, before))
    torch.testing.assert_close(moved.norm(dim=1), torch.full((4999,), 0.3))
    assert (moved * before.sign() >= 0).all()
    again = before.clone()
    noise(0.3, torch.Generator().manual_seed(2))(again)
    assert not torch.equal(again - before, moved)


def test_noise_is_the_same_from_the_same_generator() -> None:
    first, again = torch.ones(10, 3), torch.ones(10, 3)
    for each in (first, again):
        noise(0.1, torch.Generator().manual_seed(4))(each)
    assert torch.equal(first, again)


def test_noise_passes_gradients_by(train: Interactions) -> None:
    """Noise within an orthant is a constant: the gradient is that of the clean propagation."""
    adjacency, weights = InteractionGraph.of(train).adjacency(0.5, 0.5), [[0, 0.5, 0.5]]
    user, item = vectors(9, 0), vectors(7, 1)
    clean = layer_sums(user, item, adjacency, weights)[0]
    noisy = layer_sums(user, item, adjacency, weights, noise(0.1, torch.Generator().manual_seed(0)))[0]
    assert not torch.allclose(clean[0], noisy[0])
    pull = vectors(9, 5).detach()
    got, expected = (torch.autograd.grad((pull * sums[0]).sum(), [user, item]) for sums in (noisy, clean))
    torch.testing.assert_close(got, expected)


def test_a_thinned_mean_is_the_mean_of_what_is_left(train: Interactions) -> None:
    pairs = InteractionGraph.of(train)
    adjacency = pairs.thinned_mean(0.5, torch.Generator().manual_seed(0))
    item = vectors(7, 1)
    mean_UD = adjacency.times(item)
    left = adjacency.matrix.weight_E > 0
    assert 0 < int(left.sum()) < train.n_pairs
    for user in range(train.n_users):
        kept = [
            int(i)
            for i, stays in zip(train.row(user), left[train.indptr[user] : train.indptr[user + 1]], strict=True)
            if stays
        ]
        torch.testing.assert_close(mean_UD[user], item[kept].mean(0) if kept else torch.zeros(5))


def test_the_same_bits_on_any_number_of_threads(train: Interactions) -> None:
    rng = np.random.default_rng(0)
    users, items = (rng.random((600, 500)) < 0.05).nonzero()
    met = Interactions.from_pairs(users, items, user_ids=np.arange(600), item_ids=np.arange(500))
    adjacency, item = InteractionGraph.of(met).adjacency(0.5, 0.5), vectors(500, 0).detach()
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(adjacency.matrix.times(item))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
