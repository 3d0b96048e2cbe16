"""Lists of queries that are not users: vectors and histories, against the same rows scored directly."""

from typing import Any

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.metrics import EvaluationSet, evaluate, evaluate_set
from shortlist.models import EASE, IALS, MF, ItemKNN, Model, Popularity
from shortlist.ranking import RowItems, top_k

N_USERS, N_ITEMS, K = 150, 60, 7  # more users than a tile has rows


@pytest.fixture(scope="module")
def train() -> Interactions:
    """Every user has at least three items."""
    met_UI = np.random.default_rng(0).random((N_USERS, N_ITEMS)) < 0.1
    met_UI[np.arange(N_USERS)[:, None], (np.arange(N_USERS)[:, None] * 7 + np.arange(3) * 11) % N_ITEMS] = True
    return Interactions.from_pairs(*np.nonzero(met_UI), user_ids=range(N_USERS), item_ids=range(N_ITEMS))


def histories_of(train: Interactions) -> list[np.ndarray]:
    return [train.row(user) for user in range(train.n_users)]


def lists_of(score_RI: torch.Tensor, train: Interactions) -> tuple[list[list[int]], np.ndarray]:
    """The K best items and scores of every row by a full sort, without those of the user."""
    scores = score_RI.numpy().copy()
    for user in range(train.n_users):
        scores[user, train.row(user)] = -np.inf
    order_RK = np.lexsort((np.broadcast_to(np.arange(N_ITEMS), scores.shape), -scores))[:, :K]
    return order_RK.tolist(), np.take_along_axis(scores, order_RK, 1)


def check(model: Model, queries: Any, train: Interactions) -> None:
    """Lists by the ranking equal those of the rows that the model scores all at once."""
    ranking = top_k(
        model, queries, K, exclude=RowItems.of_lists([row.tolist() for row in histories_of(train)], N_ITEMS)
    )
    assert ranking.queries_R.tolist() == list(range(N_USERS))
    items_RK, scores_RK = lists_of(model.score(queries), train)
    np.testing.assert_allclose(ranking.scores_RK, scores_RK, rtol=1e-5, atol=1e-6)
    different = np.array(items_RK) != ranking.items_RK
    assert not (different & ~tied(scores_RK)).any()


def tied(scores_RK: np.ndarray) -> np.ndarray:
    """Places whose score is within rounding of a neighbour's, so that the order of items may differ."""
    close = np.isclose(scores_RK[:, 1:], scores_RK[:, :-1], rtol=1e-5, atol=1e-6)
    never = np.zeros((len(scores_RK), 1), bool)
    return np.hstack([never, close]) | np.hstack([close, never]) | (np.arange(scores_RK.shape[1]) == K - 1)


@pytest.mark.parametrize("model", [Popularity(), ItemKNN(shrinkage=1.0), EASE(regularization=5.0)])
def test_histories(model: EASE | ItemKNN | Popularity, train: Interactions) -> None:
    model.fit(train)
    check(model, model.fold_in(histories_of(train)), train)


@pytest.mark.parametrize("bias", [False, True])
def test_vectors(bias: bool, train: Interactions) -> None:
    model, generator = MF(dim=6, item_bias=bias), torch.Generator().manual_seed(0)
    model.initialize(train, generator)
    if bias:
        torch.nn.init.normal_(model.get_parameter("bias"), generator=generator)
    model.eval()
    check(model, torch.randn(N_USERS, 6, generator=generator), train)


def test_vectors_of_trained_users_give_their_lists(train: Interactions) -> None:
    model = MF(dim=6)
    model.initialize(train, torch.Generator().manual_seed(0))
    model.eval()
    vectors, users = top_k(model, model.vectors().user_UD, K), top_k(model, np.arange(N_USERS), K)
    assert np.array_equal(vectors.items_RK, users.items_RK)
    assert np.array_equal(vectors.scores_RK, users.scores_RK)


@pytest.mark.parametrize(
    "model",
    [Popularity(), ItemKNN(shrinkage=1.0), EASE(regularization=5.0), IALS(factors=5, iterations=300, threads=1)],
)
def test_a_history_of_training_gives_the_list_of_its_user(
    model: EASE | ItemKNN | Popularity | IALS, train: Interactions
) -> None:
    """To the bit where the history is all that the model reads; iALS solves for the factors once more."""
    if isinstance(model, IALS):
        pytest.importorskip("implicit")
    model.fit(train)
    folded = model.fold_in(histories_of(train))
    assert folded.learned is None
    users = np.arange(N_USERS)
    known, new = (top_k(model, queries, K, exclude=RowItems.of(train, users)) for queries in (users, folded.queries()))
    if isinstance(model, IALS):
        np.testing.assert_allclose(new.scores_RK, known.scores_RK, rtol=0.02, atol=0.01)
        assert (new.items_RK == known.items_RK).mean() > 0.95
    else:
        assert np.array_equal(new.items_RK, known.items_RK)
        assert np.array_equal(new.scores_RK, known.scores_RK)


def test_the_order_and_repeats_of_a_history_do_not_matter(train: Interactions) -> None:
    model = EASE(regularization=5.0).fit(train)
    alone = model.score(model.fold_in([np.array([3, 20, 41])]))
    other = model.score(model.fold_in([np.array([41, 3, 3, 20]), np.array([1])]))
    assert torch.equal(alone, other[:1])


def test_an_evaluation_of_histories_is_that_of_their_users(train: Interactions) -> None:
    rng = np.random.default_rng(1)
    truth = train.select(rng.random(train.n_pairs) < 0.2)
    known = train.select(~np.isin(np.arange(train.n_pairs), np.flatnonzero(rng.random(train.n_pairs) < 0.2)))
    model = EASE(regularization=5.0).fit(train)
    of_users = evaluate(model, truth, known, [5], pairwise=True)
    users = of_users.queries_R
    histories = model.fold_in([train.row(user) for user in users])
    asked = EvaluationSet(histories, users, RowItems.of(truth, users), (RowItems.of(known, users),))
    of_histories = evaluate_set(model, asked, [5], pairwise=True)
    assert of_histories.per_query.keys() == of_users.per_query.keys()
    for name, values in of_users.per_query.items():
        np.testing.assert_array_equal(of_histories.per_query[name], values)
