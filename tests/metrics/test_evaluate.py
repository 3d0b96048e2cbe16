"""Evaluation in one pass: which users, which items, and AUC with its partial forms over the whole catalogue."""

import math

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, roc_auc_score

from scorers import Given, random_factors
from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.metrics import Evaluation, evaluate
from shortlist.ranking import top_k

USER_IDS = ["ann", "bob", "cid", "dan"]


def interactions(taken: list[set[int]], n_items: int) -> Interactions:
    pairs = [(user, item) for user, items in enumerate(taken) for item in sorted(items)]
    users, items = zip(*pairs, strict=True) if pairs else ((), ())
    return Interactions.from_pairs(users, items, user_ids=range(len(taken)), item_ids=range(n_items))


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, list[set[int]], list[set[int]]]:
    """Scores with ties, what is excluded, and the truth; a pair may stand in both, and a user may have nothing."""
    n_users, n_items = draw(st.integers(1, 5)), draw(st.integers(2, 40))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = draw(st.sampled_from([1, 3, 1000]))
    scores_UI = generator.integers(levels, size=(n_users, n_items)).astype(np.float32)
    drawn = [
        [set(np.flatnonzero(generator.random(n_items) < share).tolist()) for _ in range(n_users)]
        for share in (draw(st.sampled_from([0, 0.3])), draw(st.sampled_from([0.05, 0.3, 1])))
    ]
    return scores_UI, drawn[0], drawn[1]


def evaluated(case: tuple[np.ndarray, list[set[int]], list[set[int]]], **options: object) -> Evaluation:
    scores_UI, seen, taken = case
    n_items = scores_UI.shape[1]
    return evaluate(
        Given(torch.from_numpy(scores_UI)), interactions(taken, n_items), [interactions(seen, n_items)], **options
    )


def naive_partial_auc(
    scores: np.ndarray, seen: set[int], taken: set[int], alpha: float, beta: float
) -> tuple[float, float]:
    """Every pair of the top positives and the top negatives, in a loop; and the number of them all over n⁺ n⁻."""
    positives = sorted((-math.inf if item in seen else float(scores[item]) for item in taken), reverse=True)
    negatives = sorted((float(s) for item, s in enumerate(scores) if item not in seen | taken), reverse=True)
    if not negatives:
        return math.nan, math.nan
    top_p = positives[: math.ceil(round(alpha * len(positives), 9))]
    top_n = negatives[: math.ceil(round(beta * len(negatives), 9))]
    won = sum(p > n for p in top_p for n in top_n)
    return won / (len(positives) * len(negatives)), won / (len(top_p) * len(top_n))


@settings(max_examples=500, deadline=None)
@given(cases(), st.sampled_from([0.07, 0.3, 0.5, 1.0]), st.sampled_from([0.01, 0.1, 0.7, 1.0]))
def test_partial_auc_is_that_of_a_naive_loop(
    case: tuple[np.ndarray, list[set[int]], list[set[int]]], alpha: float, beta: float
) -> None:
    scores_UI, seen, taken = case
    result = evaluated(case, ks=[3], pairwise=True, alpha=alpha, beta=beta)
    for row, user in enumerate(result.queries_R.tolist()):
        arguments = scores_UI[user], seen[user], taken[user]
        value, normalised = naive_partial_auc(*arguments, alpha, beta)
        name = f"llpauc({alpha:g},{beta:g})"
        assert result.per_query[name][row] == pytest.approx(value, nan_ok=True)
        assert result.per_query[f"{name}/max"][row] == pytest.approx(normalised, nan_ok=True)
        one_way, _ = naive_partial_auc(*arguments, 1.0, beta)
        assert result.per_query[f"opauc({beta:g})"][row] == pytest.approx(one_way, nan_ok=True)


@settings(max_examples=500, deadline=None)
@given(cases())
def test_auc_is_that_of_scikit_learn(case: tuple[np.ndarray, list[set[int]], list[set[int]]]) -> None:
    scores_UI, seen, taken = case
    result = evaluated(case, ks=[3], pairwise=True)
    for row, user in enumerate(result.queries_R.tolist()):
        candidates = [item for item in range(scores_UI.shape[1]) if item not in seen[user] or item in taken[user]]
        is_taken = [item in taken[user] for item in candidates]
        scores = [-1e9 if item in seen[user] else scores_UI[user, item] for item in candidates]
        if all(is_taken):
            assert math.isnan(result.per_query["auc"][row])
        else:
            assert result.per_query["auc"][row] == pytest.approx(roc_auc_score(is_taken, scores))


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 30), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_ndcg_is_that_of_scikit_learn(n_items: int, k: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores_UI = generator.permuted(np.tile(np.arange(n_items, dtype=np.float32), (3, 1)), axis=1)
    is_taken_UI = generator.random((3, n_items)) < 0.3
    is_taken_UI[:, 0] = True
    taken = [set(np.flatnonzero(row).tolist()) for row in is_taken_UI]
    result = evaluated((scores_UI, [set()] * 3, taken), ks=[k], metrics=["ndcg"])
    expected = [ndcg_score(is_taken_UI[[u]], scores_UI[[u]], k=k) for u in range(3)]
    np.testing.assert_allclose(result.per_query[f"ndcg@{k}"], expected, rtol=1e-6)


def test_users_with_nothing_to_find_are_left_out_and_counted() -> None:
    result = evaluated((np.ones((4, 5), np.float32), [set()] * 4, [{0}, set(), {1, 4}, set()]), ks=[2])
    assert result.queries_R.tolist() == [0, 2]
    assert result.n_skipped == 2
    assert result.means()["recall@2"] == pytest.approx((1 + 1 / 2) / 2)


def test_what_is_excluded_cannot_be_recommended_and_still_counts() -> None:
    result = evaluated((np.array([[3, 2, 1]], np.float32), [{0}], [{0, 1}]), ks=[1, 3], pairwise=True)
    assert result.ranking.items_RK.tolist() == [[1, 2, -1]]
    assert result.per_query["recall@3"].tolist() == [0.5]
    assert result.per_query["precision@1"].tolist() == [1.0]
    assert result.per_query["auc"].tolist() == [0.5]


def test_the_lists_are_those_of_top_k() -> None:
    factors = random_factors(150, 400, 16)
    generator = np.random.default_rng(0)
    truth = interactions([set(generator.integers(400, size=3).tolist()) for _ in range(150)], 400)
    result = evaluate(factors, truth, ks=[10, 5])
    assert np.array_equal(result.ranking.items_RK, top_k(factors, np.arange(150), 10).items_RK)
    assert list(result.per_query)[:2] == ["ndcg@5", "ndcg@10"]


def test_a_frame_has_the_ids_that_people_know() -> None:
    case = np.ones((4, 5), np.float32), [set()] * 4, [{0}, set(), {1, 4}, set()]
    result = evaluated(case, ks=[2], metrics=["recall"])
    frame = result.to_frame(pl.Series("user_id", USER_IDS))
    assert frame.to_dict(as_series=False) == {"user_id": ["ann", "cid"], "recall@2": [1.0, 0.5]}


def test_intervals_hold_the_mean_and_follow_the_seed() -> None:
    generator = np.random.default_rng(0)
    taken = [{int(item)} for item in generator.integers(20, size=200)]
    result = evaluated((generator.random((200, 20), np.float32), [set()] * 200, taken), ks=[5], pairwise=True)
    intervals, means = result.intervals(seed=1), result.means()
    assert all(intervals[name].low <= means[name] <= intervals[name].high for name in means)
    assert intervals == result.intervals(seed=1)
    assert intervals != result.intervals(seed=2)
    error = result.per_query["recall@5"].std() / math.sqrt(200)
    width = intervals["recall@5"].high - intervals["recall@5"].low
    assert width == pytest.approx(2 * 1.96 * error, rel=0.15)
    narrow = result.intervals(seed=1, level=0.5)["recall@5"]
    assert narrow.high - narrow.low < width


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ks": []}, r"evaluate\.ks: expected whole numbers of at least 1, received \[\]"),
        ({"ks": [0, 5]}, r"evaluate\.ks: expected whole numbers of at least 1, received \[0, 5\]"),
        ({"metrics": ["ndgc"]}, "metrics: unknown name 'ndgc'; did you mean 'ndcg'"),
        ({"pairwise": True, "beta": 0.0}, r"llpauc\.beta: expected a number above 0 and at most 1, received 0\.0"),
        ({"pairwise": True, "alpha": 1.1}, r"llpauc\.alpha: expected a number above 0 and at most 1, received 1\.1"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluated((np.ones((1, 3), np.float32), [set()], [{0}]), **options)


def test_a_truth_over_another_catalogue_is_refused() -> None:
    with pytest.raises(InputError, match="expected a truth over 3 items, received one over 4"):
        evaluate(Given(torch.ones(1, 3)), interactions([{0}], 4))


def test_a_truth_without_pairs_gives_no_values() -> None:
    result = evaluated((np.ones((2, 3), np.float32), [set()] * 2, [set()] * 2), ks=[2], pairwise=True)
    assert result.n_skipped == 2
    assert all(math.isnan(value) for value in result.means().values())
    assert all(math.isnan(bound) for interval in result.intervals().values() for bound in interval)
