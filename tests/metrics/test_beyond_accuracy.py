"""Coverage, Gini, popularity, and the breakdowns, against naive loops."""

import numpy as np
import pytest
import torch

from scorers import Given
from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.metrics import Evaluation, beyond_accuracy, by_activity, by_popularity, evaluate, popularity_bands
from shortlist.ranking import Ranking

N_USERS, N_ITEMS, KS = 60, 40, (3, 10)


@pytest.fixture(scope="module")
def train() -> Interactions:
    generator = np.random.default_rng(0)
    popularity_I = 1 / np.arange(1, N_ITEMS + 1)
    keep_UI = generator.random((N_USERS, N_ITEMS)) < popularity_I * generator.random((N_USERS, 1))
    return Interactions.from_pairs(*np.nonzero(keep_UI), user_ids=range(N_USERS), item_ids=range(N_ITEMS))


@pytest.fixture(scope="module")
def truth() -> Interactions:
    keep_UI = np.random.default_rng(1).random((N_USERS, N_ITEMS)) < 0.05
    return Interactions.from_pairs(*np.nonzero(keep_UI), user_ids=range(N_USERS), item_ids=range(N_ITEMS))


@pytest.fixture(scope="module")
def evaluation(train: Interactions, truth: Interactions) -> Evaluation:
    scores_UI = torch.rand(N_USERS, N_ITEMS, generator=torch.Generator().manual_seed(0))
    return evaluate(Given(scores_UI), truth, [train], KS)


def test_values_are_those_of_a_naive_loop(evaluation: Evaluation, train: Interactions) -> None:
    popularity_I = train.item_counts()
    values = beyond_accuracy(evaluation.ranking, KS, popularity_I)
    for k in KS:
        shown = [item for items in evaluation.ranking.items_RK[:, :k].tolist() for item in items if item >= 0]
        count = [shown.count(item) for item in range(N_ITEMS)]
        differences = sum(abs(one - other) for one in count for other in count)
        assert values[f"coverage@{k}"] == pytest.approx(len(set(shown)) / N_ITEMS)
        assert values[f"gini@{k}"] == pytest.approx(differences / (2 * N_ITEMS * sum(count)))
        assert values[f"popularity@{k}"] == pytest.approx(np.mean([popularity_I[item] for item in shown]))


def test_empty_lists_have_no_popularity() -> None:
    nothing = Ranking(np.arange(1), np.full((1, 2), -1), np.full((1, 2), -np.inf))
    values = beyond_accuracy(nothing, [2], np.ones(3, int))
    assert values["coverage@2"] == 0
    assert np.isnan([values["gini@2"], values["popularity@2"]]).all()


def test_groups_of_users_cover_all_and_keep_their_means(evaluation: Evaluation, train: Interactions) -> None:
    activity_U = train.user_counts()
    frame = by_activity(evaluation, activity_U, groups=3)
    assert frame["users"].sum() == len(evaluation.queries_R)
    for name, mean in evaluation.means().items():
        assert np.average(frame[name].to_numpy(), weights=frame["users"].to_numpy()) == pytest.approx(mean)
    for low, high, users, value in frame.select("from", "to", "users", "recall@10").iter_rows():
        inside_R = (activity_U[evaluation.queries_R] >= low) & (activity_U[evaluation.queries_R] <= high)
        assert users == inside_R.sum()
        assert value == pytest.approx(evaluation.per_query["recall@10"][inside_R].mean())
    assert (frame["from"].to_numpy()[1:] > frame["to"].to_numpy()[:-1]).all()


def test_bands_of_items_cover_all_pairs(evaluation: Evaluation, truth: Interactions, train: Interactions) -> None:
    popularity_I = train.item_counts()
    frame = by_popularity(evaluation, truth, popularity_I, ks=(*KS, 500))
    assert frame["items"].sum() == N_ITEMS
    assert frame["pairs"].sum() == truth.n_pairs
    assert "recall@500" not in frame.columns
    for k in KS:
        found = float(frame["pairs"].to_numpy() @ frame[f"recall@{k}"].to_numpy())
        assert found / truth.n_pairs == pytest.approx(evaluation.means()[f"pair_recall@{k}"])
        assert frame[f"share@{k}"].sum() == pytest.approx(1)
    low, high = frame.row(0)[:2]
    inside_I = (popularity_I >= low) & (popularity_I <= high)
    assert frame["items"][0] == inside_I.sum()
    assert high == popularity_I.max()


def test_equals_stay_in_one_band() -> None:
    assert popularity_bands(np.array([2, 2, 2, 2]), 4).tolist() == [0, 0, 0, 0]
    assert popularity_bands(np.array([1, 1, 2, 4, 0]), 4).tolist() == [3, 3, 2, 0, 3]
    assert popularity_bands(np.zeros(3, int), 4).tolist() == [0, 0, 0]


def test_a_breakdown_needs_a_group(evaluation: Evaluation, truth: Interactions, train: Interactions) -> None:
    with pytest.raises(InputError, match=r"breakdown\.groups: expected a whole number of at least 1, received 0"):
        by_activity(evaluation, train.user_counts(), groups=0)
    with pytest.raises(InputError, match=r"breakdown\.bands: expected a whole number of at least 1, received 0"):
        by_popularity(evaluation, truth, train.item_counts(), bands=0)
