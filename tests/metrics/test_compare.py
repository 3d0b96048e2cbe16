"""Paired tests over users."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shortlist.errors import InputError
from shortlist.metrics import compare, holm

METRIC = "ndcg@20"


def frame(values: list[float] | np.ndarray, users: list[object] | None = None) -> pl.DataFrame:
    return pl.DataFrame({"user_id": list(range(len(values))) if users is None else users, METRIC: values})


@pytest.fixture
def three() -> dict[str, pl.DataFrame]:
    generator = np.random.default_rng(0)
    base_U = generator.random(200).round(1)
    return {
        "a": frame(base_U),
        "b": frame(base_U + 0.02 + 0.1 * generator.standard_normal(200)),
        "c": frame(base_U + 0.1 * generator.integers(-1, 2, size=200)),
    }


def test_tests_are_those_of_scipy(three: dict[str, pl.DataFrame]) -> None:
    comparison = compare(three, METRIC, level=0.9)
    assert [(pair.first, pair.second) for pair in comparison.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    for pair in comparison.pairs:
        first, second = three[pair.first][METRIC].to_numpy(), three[pair.second][METRIC].to_numpy()
        student = stats.ttest_rel(second, first)
        interval = student.confidence_interval(0.9)
        assert pair.t == pytest.approx(student.pvalue)
        assert (pair.low, pair.high) == pytest.approx((interval.low, interval.high))
        assert pair.wilcoxon == pytest.approx(stats.wilcoxon(second - first).pvalue)
        assert pair.difference == pytest.approx(second.mean() - first.mean())
        assert pair.effect == pytest.approx(student.statistic / math.sqrt(200))
        assert pair.better == pytest.approx(np.mean(second > first))
        assert pair.worse == pytest.approx(np.mean(second < first))
    corrected = stats.false_discovery_control  # a sterner method must not come out milder than this one
    by_t = np.array([pair.t for pair in comparison.pairs])
    assert (np.array([pair.t_holm for pair in comparison.pairs]) >= corrected(by_t) - 1e-12).all()
    assert comparison.means["a"] == pytest.approx(three["a"][METRIC].mean())
    assert comparison.to_frame().height == 3


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_the_definition(p_values: list[float]) -> None:
    """Adjusted p_i = max over all p_j ≤ p_i of the number of p-values that are not smaller than p_j, times p_j."""
    m, order = len(p_values), np.argsort(p_values, kind="stable").tolist()
    steps = np.maximum.accumulate([min(1.0, (m - rank) * p_values[index]) for rank, index in enumerate(order)])
    assert [holm(p_values)[index] for index in order] == pytest.approx(steps.tolist())


def test_users_that_all_runs_have_are_compared_in_any_order() -> None:
    one = frame([0.1, 0.2, 0.3, 0.4], ["a", "b", "c", "d"])
    other = frame([0.5, 0.9, 0.4, math.nan], ["c", "x", "b", "d"])
    comparison = compare({"one": one, "other": other}, METRIC)
    assert (comparison.users, comparison.left_out) == (2, 3)
    assert comparison.means == pytest.approx({"one": 0.25, "other": 0.45})


def test_runs_without_a_difference_are_not_told_apart() -> None:
    pair = compare({"one": frame([0.1, 0.2, 0.2]), "other": frame([0.1, 0.2, 0.2])}, METRIC).pairs[0]
    assert (pair.difference, pair.effect, pair.t, pair.wilcoxon, pair.better, pair.worse) == (0, 0, 1, 1, 0, 0)


def test_the_same_difference_for_everybody_is_certain() -> None:
    pair = compare({"one": frame([0.0] * 9), "other": frame([0.5] * 9)}, METRIC).pairs[0]
    assert (pair.difference, pair.effect, pair.t, pair.better) == (0.5, math.inf, 0, 1)
    assert pair.wilcoxon < 0.01


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ({"one": frame([0.1, 0.2])}, "compare: expected at least two runs, received 1"),
        ({"one": frame([0.1, 0.2]), "two": frame([0.1, 0.2], [7, 8])}, "expected at least two users .* received 0"),
        ({"one": frame([0.1, 0.2]), "two": frame([0.1, 0.2], [1, 1])}, "run two: expected each user once"),
        ({"one": frame([0.1, 0.2]), "two": frame([0.1, 0.2], ["a", "b"])}, "expected user ids of one type"),
        ({"one": frame([0.1, 0.2]), "two": pl.DataFrame({"user_id": [1]})}, "run two: unknown column 'ndcg@20'"),
        ({"one": frame([0.1, 0.2]), "two": pl.DataFrame({METRIC: [1.0]})}, "run two: unknown column 'user_id'"),
    ],
)
def test_runs_that_cannot_be_compared_are_named(frames: dict[str, pl.DataFrame], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare(frames, METRIC)


def test_a_level_must_be_one() -> None:
    with pytest.raises(InputError, match=r"compare\.level"):
        compare({"one": frame([0.1, 0.2]), "two": frame([0.1, 0.3])}, METRIC, level=95)
