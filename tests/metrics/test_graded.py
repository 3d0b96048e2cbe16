"""DCG and NDCG of graded items, whose gains are 2^y − 1: against scikit-learn, ir-measures and a naive loop."""

import math

import ir_measures
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import dcg_score, ndcg_score

from scorers import Given
from shortlist.metrics import AT_K, Evaluation, EvaluationSet, evaluate_set, find_hits, values_at
from shortlist.ranking import Ranking, RowItems

KS = (1, 2, 3, 5, 10, 50)


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Distinct scores, and grades from 0 of which each query has at least one above it."""
    n_queries, n_items = draw(st.integers(1, 5)), draw(st.integers(2, 40))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores_RI = generator.permuted(np.tile(np.arange(n_items, dtype=np.float32), (n_queries, 1)), axis=1)
    largest = draw(st.sampled_from([1, 2, 4]))
    relevant_RI = generator.random(scores_RI.shape) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    grades_RI = np.where(relevant_RI, generator.integers(1, largest + 1, scores_RI.shape), 0)
    grades_RI[np.arange(n_queries), generator.integers(n_items, size=n_queries)] = largest
    return scores_RI, grades_RI


def rows_of(grades_RI: np.ndarray, order: np.ndarray | None = None) -> RowItems:
    """The graded items of each query, in any order; items of grade 0 may be named and do not count."""
    order = np.arange(grades_RI.shape[1]) if order is None else order
    return RowItems.of_lists([order.tolist() for _ in grades_RI], grades_RI.shape[1], grades_RI[:, order].tolist())


def evaluated(scores_RI: np.ndarray, truth: RowItems, exclude: tuple[RowItems, ...] = ()) -> Evaluation:
    queries = np.arange(len(scores_RI))
    return evaluate_set(Given(torch.from_numpy(scores_RI)), EvaluationSet(queries, queries, truth, exclude), KS)


@settings(max_examples=300, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_values_are_those_of_scikit_learn(case: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    scores_RI, grades_RI = case
    order = np.random.default_rng(seed).permutation(grades_RI.shape[1])
    found, gains_RI = evaluated(scores_RI, rows_of(grades_RI, order)).per_query, np.exp2(grades_RI) - 1
    for k in KS:
        for row in range(len(scores_RI)):
            given_row = gains_RI[[row]], scores_RI[[row]]
            assert found[f"ndcg@{k}"][row] == pytest.approx(ndcg_score(*given_row, k=k), abs=1e-12)
            assert found[f"dcg@{k}"][row] == pytest.approx(dcg_score(*given_row, k=k), abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(cases())
def test_values_are_those_of_ir_measures(case: tuple[np.ndarray, np.ndarray]) -> None:
    """Its gains are the judgements themselves, which are 2^y − 1 here."""
    scores_RI, grades_RI = case
    found = evaluated(scores_RI, rows_of(grades_RI)).per_query
    judged = {
        str(row): {str(item): int(2**grade - 1) for item, grade in enumerate(grades.tolist())}
        for row, grades in enumerate(grades_RI)
    }
    run = {
        str(row): {str(item): score for item, score in enumerate(scores.tolist())}
        for row, scores in enumerate(scores_RI)
    }
    measures = {ir_measures.parse_measure(f"nDCG@{k}"): k for k in KS}
    values = list(ir_measures.iter_calc(list(measures), judged, run))
    assert len(values) == len(KS) * len(scores_RI)
    for value in values:
        expected = found[f"ndcg@{measures[value.measure]}"][int(value.query_id)]
        assert value.value == pytest.approx(expected, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_excluded_items_stay_in_the_ideal_list(case: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    scores_RI, grades_RI = case
    excluded_RI = np.random.default_rng(seed).random(scores_RI.shape) < 0.3
    excluded = RowItems.of_lists([np.flatnonzero(row).tolist() for row in excluded_RI], scores_RI.shape[1])
    found = evaluated(scores_RI, rows_of(grades_RI), (excluded,)).per_query
    for row, (scores, grades) in enumerate(zip(scores_RI.tolist(), grades_RI.tolist(), strict=True)):
        allowed = [item for item in range(len(scores)) if not excluded_RI[row, item]]
        ranked = sorted(allowed, key=lambda item: -scores[item])
        for k in KS:
            gained = discounted([grades[item] for item in ranked[:k]])
            ideal = discounted(sorted(grades, reverse=True)[:k])
            assert found[f"dcg@{k}"][row] == pytest.approx(gained, abs=1e-12)
            assert found[f"ndcg@{k}"][row] == pytest.approx(gained / ideal, abs=1e-12)


def discounted(grades: list[int]) -> float:
    return sum((2**grade - 1) / math.log2(1 + rank) for rank, grade in enumerate(grades, start=1))


@settings(max_examples=200, deadline=None)
@given(cases())
def test_all_other_metrics_do_not_read_grades(case: tuple[np.ndarray, np.ndarray]) -> None:
    """Nor does NDCG where all grades are 1: gains are 1 then."""
    scores_RI, grades_RI = case
    items = [np.flatnonzero(row).tolist() for row in grades_RI]
    graded = evaluated(scores_RI, rows_of(grades_RI)).per_query
    binary = evaluated(scores_RI, RowItems.of_lists(items, grades_RI.shape[1])).per_query
    ones = evaluated(scores_RI, rows_of((grades_RI > 0).astype(int))).per_query
    assert graded.keys() == binary.keys() == ones.keys() == {f"{name}@{k}" for name in AT_K for k in KS}
    for name, values in binary.items():
        np.testing.assert_allclose(ones[name], values, rtol=1e-12)
        if "dcg" not in name:
            np.testing.assert_array_equal(graded[name], values)


def test_values_worked_by_hand() -> None:
    """A list of items of grades 1, 0 and 3 where the ideal has 3, 2 and 1."""
    truth = RowItems.of_lists([[5, 7, 9, 1]], 10, [[3, 1, 2, 0]])
    lists = Ranking(np.array([0]), np.array([[7, 1, 5]]), np.array([[0.9, 0.5, 0.1]]))
    values = values_at(find_hits(lists, truth), [3], ["dcg", "ndcg", "recall"])
    dcg = 1 + 7 / 2
    assert values["dcg@3"][0] == pytest.approx(dcg)
    assert values["ndcg@3"][0] == pytest.approx(dcg / (7 + 3 / math.log2(3) + 1 / 2))
    assert values["recall@3"][0] == pytest.approx(2 / 3)
