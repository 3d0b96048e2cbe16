"""Metrics at K against ir-measures, pytrec-eval, a naive loop, and values worked by hand."""

import math

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.metrics import AT_K, find_hits, values_at
from shortlist.ranking import Ranking

KS = (1, 2, 3, 5, 10, 40)


def ranking_of(lists: list[list[int]], users: list[int] | None = None, k: int = max(KS)) -> Ranking:
    items_RK = np.array([(items + [-1] * k)[:k] for items in lists], np.int32).reshape(len(lists), k)
    return Ranking(np.arange(len(lists)) if users is None else np.array(users), items_RK, np.zeros(items_RK.shape))


def truth_of(taken: list[set[int]], n_items: int) -> Interactions:
    pairs = [(user, item) for user, items in enumerate(taken) for item in sorted(items)]
    users, items = zip(*pairs, strict=True) if pairs else ((), ())
    return Interactions.from_pairs(users, items, user_ids=range(len(taken)), item_ids=range(n_items))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], list[set[int]], int]:
    """Lists of several lengths, shorter and longer than K, over small and large catalogues."""
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 60))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lists = [generator.permutation(n_items)[: generator.integers(n_items + 1)].tolist() for _ in range(n_users)]
    taken = [set(generator.permutation(n_items)[: generator.integers(1, n_items + 1)].tolist()) for _ in range(n_users)]
    return lists, taken, n_items


def naive(items: list[int], taken: set[int], k: int) -> dict[str, float]:
    """The definitions, with one loop down the list; only the first appearance of an item counts."""
    top, seen, found, gains, precisions, first = items[:k], set(), 0, 0.0, 0.0, 0.0
    for rank, item in enumerate(top, start=1):
        if item in taken and item not in seen:
            found += 1
            gains += 1 / math.log2(1 + rank)
            precisions += found / rank
            first = first or 1 / rank
        seen.add(item)
    ideal = sum(1 / math.log2(1 + rank) for rank in range(1, min(k, len(taken)) + 1))
    precision, recall = found / k, found / len(taken)
    return {
        "ndcg": gains / ideal,
        "dcg": gains,
        "recall": recall,
        "precision": precision,
        "f1": 2 * precision * recall / (precision + recall) if found else 0.0,
        "hit_rate": float(found > 0),
        "mrr": first,
        "map": precisions / min(k, len(taken)),
    }


@settings(max_examples=500, deadline=None)
@given(cases(), st.booleans())
def test_values_are_those_of_a_naive_loop(case: tuple[list[list[int]], list[set[int]], int], repeat: bool) -> None:
    lists, taken, n_items = case
    lists = [items + items if repeat else items for items in lists]
    values = values_at(find_hits(ranking_of(lists), truth_of(taken, n_items)), KS)
    for k in KS:
        expected = [naive(items, taken[user], k) for user, items in enumerate(lists)]
        for name in AT_K:
            if name == "pair_recall":
                found = sum(row["precision"] * k for row in expected)
                assert values[f"{name}@{k}"].mean() == pytest.approx(found / sum(map(len, taken)))
            else:
                np.testing.assert_allclose(values[f"{name}@{k}"], [row[name] for row in expected], rtol=1e-12)


def as_trec(lists: list[list[int]], taken: list[set[int]]) -> tuple[dict, dict]:
    """Judgements and runs; the scores fall with rank, so that the order is the list's own."""
    judged = {str(user): {str(item): 1 for item in items} for user, items in enumerate(taken)}
    run = {
        str(user): {str(item): float(len(items) - rank) for rank, item in enumerate(items)}
        for user, items in enumerate(lists)
    }
    return judged, run


@settings(max_examples=400, deadline=None)
@given(cases())
def test_values_are_those_of_pytrec_eval(case: tuple[list[list[int]], list[set[int]], int]) -> None:
    lists, taken, n_items = case
    values = values_at(find_hits(ranking_of(lists), truth_of(taken, n_items)), KS)
    judged, run = as_trec(lists, taken)
    cuts = ",".join(map(str, KS))
    names = {"ndcg": "ndcg_cut", "recall": "recall", "precision": "P", "hit_rate": "success"}
    answer = pytrec_eval.RelevanceEvaluator(judged, {f"{other}.{cuts}" for other in names.values()}).evaluate(run)
    for user in (user for user, items in enumerate(lists) if items):
        for ours, other in names.items():
            for k in KS:
                assert values[f"{ours}@{k}"][user] == pytest.approx(answer[str(user)][f"{other}_{k}"], abs=1e-12)


@settings(max_examples=300, deadline=None)
@given(cases())
def test_values_are_those_of_ir_measures(case: tuple[list[list[int]], list[set[int]], int]) -> None:
    lists, taken, n_items = case
    values = values_at(find_hits(ranking_of(lists), truth_of(taken, n_items)), KS)
    judged, run = as_trec(lists, taken)
    names = {"ndcg": "nDCG", "recall": "R", "precision": "P", "hit_rate": "Success", "mrr": "RR", "map": "AP"}
    measures = {ir_measures.parse_measure(f"{other}@{k}"): (ours, k) for ours, other in names.items() for k in KS}
    for row in ir_measures.iter_calc(list(measures), judged, run):
        ours, k = measures[row.measure]
        # theirs divides by |T| where the definition here takes min(K, |T|), the most that K places can hold
        scale = len(taken[int(row.query_id)]) / min(k, len(taken[int(row.query_id)])) if ours == "map" else 1
        assert values[f"{ours}@{k}"][int(row.query_id)] == pytest.approx(row.value * scale, abs=1e-12)


def test_values_worked_by_hand() -> None:
    """Places 1 and 3 of 4 hit; three items taken."""
    values = values_at(find_hits(ranking_of([[7, 1, 5, 2]]), truth_of([{5, 7, 9}], 10)), [4])
    dcg = 1 + 1 / 2
    assert {name: value[0] for name, value in values.items()} == pytest.approx(
        {
            "ndcg@4": dcg / (1 + 1 / math.log2(3) + 1 / 2),
            "dcg@4": dcg,
            "recall@4": 2 / 3,
            "pair_recall@4": 2 / 3,
            "precision@4": 2 / 4,
            "f1@4": 4 / 7,
            "hit_rate@4": 1.0,
            "mrr@4": 1.0,
            "map@4": (1 + 2 / 3) / 3,
        }
    )


def test_pairs_and_users_are_averaged_differently() -> None:
    values = values_at(find_hits(ranking_of([[0], [9]]), truth_of([{0}, {1, 2, 3}], 10)), [1])
    assert values["recall@1"].mean() == 1 / 2
    assert values["pair_recall@1"].mean() == 1 / 4


def test_rows_follow_the_users_of_the_ranking() -> None:
    truth = truth_of([{0}, {1}, {2}], 3)
    values = values_at(find_hits(ranking_of([[2], [1]], users=[2, 0]), truth), [1])
    assert values["recall@1"].tolist() == [1.0, 0.0]


def test_portions_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    lists = [generator.permutation(30).tolist() for _ in range(50)]
    truth = truth_of([set(generator.permutation(30)[:5].tolist()) for _ in range(50)], 30)
    whole = find_hits(ranking_of(lists), truth)
    monkeypatch.setattr("shortlist.metrics.hits._TABLE_CELLS", 100)
    portions = find_hits(ranking_of(lists), truth)
    assert np.array_equal(whole.row_H, portions.row_H)
    assert np.array_equal(whole.rank_H, portions.rank_H)


def test_queries_without_relevant_items_are_refused() -> None:
    with pytest.raises(InputError, match="expected queries with at least one relevant item"):
        find_hits(ranking_of([[0]]), truth_of([set()], 3))


def test_no_lists_give_no_values() -> None:
    values = values_at(find_hits(ranking_of([]), truth_of([set()], 3)), [2])
    assert all(value.shape == (0,) for value in values.values())
