"""Each baseline against a naive form of its formula, and the figures that are known."""

import builtins
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import FloatArray, Interactions
from shortlist.errors import InputError, ShortlistError
from shortlist.models import EASE, IALS, ItemKNN, Popularity
from shortlist.models.baselines.ease import invert_


@st.composite
def matrices(draw: st.DrawFn) -> FloatArray:
    users, items = draw(st.integers(1, 7)), draw(st.integers(2, 8))
    cells = draw(st.lists(st.booleans(), min_size=users * items, max_size=users * items))
    matrix = np.array(cells, np.float64).reshape(users, items)
    matrix[0, 0] = 1
    return matrix


def interactions(matrix: FloatArray) -> Interactions:
    users, items = np.nonzero(matrix)
    n_users, n_items = matrix.shape
    return Interactions.from_pairs(users, items, user_ids=np.arange(n_users), item_ids=np.arange(n_items))


@given(matrices())
def test_popularity_counts(matrix: FloatArray) -> None:
    model = Popularity()
    model.fit(interactions(matrix))
    np.testing.assert_array_equal(model.score(np.array([0, 0])).numpy(), np.stack([matrix.sum(0)] * 2))


@given(matrices(), st.floats(0.5, 100))
def test_ease_is_its_closed_form(matrix: FloatArray, regularization: float) -> None:
    model = EASE(regularization=regularization)
    model.fit(interactions(matrix))
    inverse = np.linalg.inv(matrix.T @ matrix + regularization * np.eye(matrix.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    np.testing.assert_allclose(model.score(np.arange(len(matrix))).numpy(), matrix @ weights, atol=1e-4)


def test_ease_weights_are_the_best_there_are() -> None:
    """No step from the solution with an empty diagonal makes the objective smaller: its gradient is zero there."""
    matrix = (np.random.default_rng(0).random((40, 12)) < 0.3).astype(np.float64)
    model = EASE(regularization=7.0)
    model.fit(interactions(matrix))
    weights = model.weights_II.double().numpy()
    gradient = -matrix.T @ (matrix - matrix @ weights) + 7.0 * weights
    np.fill_diagonal(gradient, 0)
    assert np.abs(gradient).max() < 1e-4


@pytest.mark.parametrize("size", [1, 2, 511, 512, 513, 1100])
def test_inverse_by_halves(size: int) -> None:
    rng = np.random.default_rng(size)
    root = torch.from_numpy(rng.standard_normal((size, size)))
    matrix = root @ root.T / size + torch.eye(size, dtype=torch.float64)
    inverse = matrix.clone()
    invert_(inverse)
    torch.testing.assert_close(inverse @ matrix, torch.eye(size, dtype=torch.float64), atol=1e-9, rtol=0)


def naive_item_knn(matrix: FloatArray, neighbours: int, shrinkage: float) -> FloatArray:
    n_users, n_items = matrix.shape
    count = matrix.sum(0)
    scores = np.zeros_like(matrix)
    for target in range(n_items):
        similarity = {}
        for other in range(n_items):
            both = float(matrix[:, target] @ matrix[:, other])
            if other != target and both > 0:
                similarity[other] = both / (np.sqrt(count[target] * count[other]) + shrinkage)
        nearest = sorted(similarity, key=lambda other: (-np.float32(similarity[other]), other))[:neighbours]
        for user in range(n_users):
            scores[user, target] = sum(similarity[other] for other in nearest if matrix[user, other])
    return scores


@given(matrices(), st.integers(1, 8), st.sampled_from([0.0, 1.0, 20.0]))
def test_item_knn_is_its_formula(matrix: FloatArray, neighbours: int, shrinkage: float) -> None:
    model = ItemKNN(neighbours=neighbours, shrinkage=shrinkage)
    model.fit(interactions(matrix))
    got = model.score(np.arange(len(matrix))).numpy()
    np.testing.assert_allclose(got, naive_item_knn(matrix, neighbours, shrinkage), atol=1e-5)


def test_item_knn_is_the_same_whatever_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = (np.random.default_rng(1).random((30, 25)) < 0.3).astype(np.float64)
    whole = ItemKNN(neighbours=4)
    whole.fit(interactions(matrix))
    monkeypatch.setattr("shortlist.models.baselines.item_knn.BLOCK", 7)
    blocks = ItemKNN(neighbours=4)
    blocks.fit(interactions(matrix))
    everybody = np.arange(30)
    assert torch.equal(whole.score(everybody), blocks.score(everybody))


@pytest.mark.parametrize("alpha", [1.0, 5.0])
def test_ials_solves_each_item_by_least_squares(alpha: float) -> None:
    """The last turn solves for items: each item's factors are the weighted ridge regression on those of the users."""
    matrix = (np.random.default_rng(2).random((15, 12)) < 0.3).astype(np.float64)
    model = IALS(factors=3, alpha=alpha, regularization=2.0, iterations=60, threads=1)
    model.fit(interactions(matrix))
    users = model.user_UD.double().numpy()
    for item in range(matrix.shape[1]):
        confidence = np.where(matrix[:, item] > 0, alpha, 1.0)
        normal = users.T @ (confidence[:, None] * users) + 2.0 * np.eye(3)
        expected = np.linalg.solve(normal, users.T @ (confidence * matrix[:, item]))
        np.testing.assert_allclose(model.item_ID[item].numpy(), expected, atol=2e-3)


def test_ials_says_how_to_install_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without_implicit(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("implicit"):
            raise ModuleNotFoundError("No module named 'implicit'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_implicit)
    with pytest.raises(ShortlistError, match=r"ials: .*pip install 'shortlist\[ials\]'"):
        IALS().fit(interactions(np.eye(3)))


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (EASE, {"regularization": 0}),
        (ItemKNN, {"neighbours": 0}),
        (ItemKNN, {"shrinkage": -1}),
        (IALS, {"factors": 1.5}),
    ],
)
def test_parameters_are_checked(model: type[EASE | ItemKNN | IALS], values: Mapping[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"{model.__name__}\.\w+: expected .*, received"):
        model(**values)
