"""Samples with weights: a draw counts for as many items as it stands for."""

from __future__ import annotations

import pytest
import torch

from scores.tables import Case, random_case
from shortlist.negatives import SharedCandidates
from shortlist.scores import FactoredTable, ScoreTable
from shortlist.thresholds import exact, monte_carlo, positives_kept, stratified
from shortlist.thresholds.estimators import ESTIMATORS, Estimator

DRAWN = list(range(0, 80, 2))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sampled(case: Case, form: str) -> ScoreTable:
    return getattr(case, form)().restricted(torch.tensor(DRAWN))


def reached(scores: list[float], weights: list[float], k: int) -> float:
    """The largest score at which the weights of scores at least as high sum to k; the lowest if none does."""
    for t in sorted(set(scores), reverse=True):
        if sum(w for s, w in zip(scores, weights, strict=True) if s >= t) >= k - 1e-9:
            return t
    return min(scores)


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize("k", [1, 3, 8, 30, 79])
def test_stratified_counts_draws_by_their_weights(form: str, k: int) -> None:
    for seed in range(4):
        case = random_case(seed, rows=6, items=80, weights=True)
        assert case.log_weight_C is not None
        beta = stratified(sampled(case, form), k, 80, 0, seeded())
        score, positive = case.scores().tolist(), case.positive_mask().tolist()
        for row in range(6):
            kept = [score[row][j] for j in range(80) if positive[row][j]]
            free = [j for j in DRAWN if not positive[row][j]]
            weight = [float(case.log_weight_C[j].exp()) for j in free]
            stands_for = [w * (80 - len(kept)) / sum(weight) for w in weight]
            expected = reached(kept + [score[row][j] for j in free], [1.0] * len(kept) + stands_for, k)
            assert beta[row].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize("k", [1, 8, 30, 80])
def test_monte_carlo_counts_draws_by_their_weights(form: str, k: int) -> None:
    case = random_case(1, rows=5, items=80, weights=True)
    assert case.log_weight_C is not None
    beta = monte_carlo(sampled(case, form), k, 80, 0, seeded())
    weight = [float(case.log_weight_C[j].exp()) for j in DRAWN]
    stands_for = [w * 80 / sum(weight) for w in weight]
    expected = [reached([row[j] for j in DRAWN], stands_for, k) for row in case.scores().tolist()]
    assert beta.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("estimator", ["monte_carlo", "stratified", "regression"])
def test_equal_weights_change_nothing(estimator: Estimator) -> None:
    case = random_case(2, rows=5, items=80)
    plain = ESTIMATORS[estimator](sampled(case, "factored"), 8, 80, 0, seeded(), None)
    case.log_weight_C = torch.full((80,), 0.7, dtype=torch.float64)
    weighted = ESTIMATORS[estimator](sampled(case, "factored"), 8, 80, 0, seeded(), None)
    torch.testing.assert_close(plain, weighted, rtol=1e-12, atol=1e-12)


def test_positives_kept_counts_every_draw_once() -> None:
    case = random_case(2, rows=5, items=80, weights=True)
    weighted = positives_kept(sampled(case, "factored"), 8, 80, 0, seeded())
    case.log_weight_C = None
    assert torch.equal(weighted, positives_kept(sampled(case, "factored"), 8, 80, 0, seeded()))


@pytest.mark.parametrize("estimator", ["monte_carlo", "stratified"])
def test_weights_take_away_the_bias_of_popular_items(estimator: Estimator) -> None:
    """Popular items score high for everyone: unweighted, a sample that is full of them puts the threshold too high."""
    g, nothing = seeded(5), torch.zeros(0, dtype=torch.long)
    count_I = (4000 * torch.rand(4000, generator=g, dtype=torch.float64) ** 8).long() + 1
    vector_ND = torch.nn.functional.normalize(torch.randn(64 + 4000, 16, generator=g), dim=1)
    user_RD, item_ID, bias_I = vector_ND[:64], vector_ND[64:], 0.1 * count_I.float().log()
    beta = exact(FactoredTable(user_RD, item_ID, row_P=nothing, column_P=nothing, bias_C=bias_I), 20, 4000, 0, g)
    bias: dict[bool, float] = {}
    for weighted in (False, True):
        found = []
        for seed in range(20):
            sample = SharedCandidates(count_I, "popularity", 0.75).draw(800, seeded(seed))
            table = FactoredTable(
                user_RD,
                item_ID[sample.item_C],
                row_P=nothing,
                column_P=nothing,
                positive_PD=item_ID[:0],
                bias_C=bias_I[sample.item_C],
                positive_bias_P=bias_I[:0],
                log_weight_C=sample.log_weight_C if weighted else None,
            )
            found.append(ESTIMATORS[estimator](table, 20, 4000, 0, seeded(), None) - beta)
        bias[weighted] = torch.stack(found).mean().item()
    assert bias[False] > 0.1
    assert abs(bias[True]) < 0.1 * bias[False]
