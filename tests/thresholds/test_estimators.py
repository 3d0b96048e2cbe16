"""Estimators of the Top-K threshold against their definitions, written out with loops."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from scores.tables import Case, random_case
from shortlist.errors import InputError
from shortlist.scores import DenseTable, FactoredTable, ScoreTable
from shortlist.thresholds import exact, monte_carlo, positives_kept, stratified
from shortlist.thresholds.estimators import ESTIMATORS, Estimator, Previous

FORMS = ["dense", "factored"]
SAMPLED: list[Estimator] = ["monte_carlo", "positives_kept", "stratified"]
"""Those that are a function of their sample alone."""


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def with_ties(case: Case) -> Case:
    """Whole numbers as vectors: many scores are equal to the last bit."""
    case.row_RD, case.item_CD = case.row_RD.detach().round(), case.item_CD.detach().round()
    return case


def kth_of(scores: list[float], k: int) -> float:
    return sorted(scores, reverse=True)[min(k, len(scores)) - 1]


def parts(case: Case, drawn: list[int]) -> list[tuple[list[float], list[float]]]:
    """Each row's positives, and its negatives among the drawn items."""
    score, positive = case.scores().tolist(), case.positive_mask().tolist()
    return [
        ([s for s, p in zip(*row, strict=True) if p], [row[0][j] for j in drawn if not row[1][j]])
        for row in zip(score, positive, strict=True)
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ties", [False, True])
def test_exact_is_the_kth_largest(form: str, ties: bool) -> None:
    for seed in range(3):
        case = random_case(seed, rows=6, items=150)
        case = with_ties(case) if ties else case
        for k in (1, 2, 20, 149, 150):
            beta = exact(getattr(case, form)(), k, 150, 10, seeded())
            assert beta.tolist() == pytest.approx([kth_of(row, k) for row in case.scores().tolist()], abs=1e-12)


def test_exact_refuses_a_sample() -> None:
    table = DenseTable.from_pairs(torch.zeros(2), torch.zeros(2, 5))
    with pytest.raises(InputError, match=r"^thresholds: expected the full catalogue for 'exact', received sampled"):
        exact(table, 1, 10, 5, seeded())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("k", "samples"), [(1, 10), (3, 10), (10, 30), (20, 100), (60, 7)])
def test_monte_carlo_is_an_order_statistic_of_its_draws(form: str, k: int, samples: int) -> None:
    """The ⌈N·k/n⌉-th of N draws with replacement from all items, the user's positives among them."""
    case = random_case(1, rows=5, items=60)
    beta = monte_carlo(getattr(case, form)(), k, 60, samples, seeded(7))
    drawn = torch.randint(60, (samples,), generator=seeded(7)).tolist()
    rank = math.ceil(Fraction(samples * k, 60))
    expected = [kth_of([row[j] for j in drawn], rank) for row in case.scores().tolist()]
    assert beta.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("k", "samples"), [(1, 5), (4, 20), (25, 10), (60, 60)])
def test_positives_kept_is_the_kth_of_positives_and_drawn_negatives(
    form: str, ties: bool, k: int, samples: int
) -> None:
    case = random_case(2, rows=6, items=60)
    case = with_ties(case) if ties else case
    beta = positives_kept(getattr(case, form)(), k, 60, samples, seeded(3))
    drawn = torch.randperm(60, generator=seeded(3))[:samples].tolist()
    assert beta.tolist() == pytest.approx([kth_of(p + n, k) for p, n in parts(case, drawn)], abs=1e-12)


def stratified_by_force(positives: list[float], negatives: list[float], n_items: int, k: int) -> float:
    """The largest t that enough items reach, a drawn negative standing for |N|/N̂; the lowest if too few do."""
    weight = Fraction(n_items - len(positives), max(1, len(negatives)))
    for t in sorted({*positives, *negatives}, reverse=True):
        if sum(p >= t for p in positives) + weight * sum(n >= t for n in negatives) >= k:
            return t
    return min([*positives, *negatives])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ties", [False, True])
def test_stratified_is_the_largest_that_enough_items_reach(form: str, ties: bool) -> None:
    for seed in range(4):
        case = random_case(seed, rows=7, items=31)
        case = with_ties(case) if ties else case
        for k, samples in [(1, 4), (3, 7), (7, 9), (10, 3), (20, 6), (30, 11), (31, 31)]:
            drawn = torch.randperm(31, generator=seeded(seed))[:samples].tolist()
            expected = [stratified_by_force(p, n, 31, k) for p, n in parts(case, drawn)]
            beta = stratified(getattr(case, form)(), k, 31, samples, seeded(seed))
            assert beta.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_threshold_is_finite_even_where_there_are_too_few_items(form: str, estimator: Estimator) -> None:
    """A sample that holds nothing but positives; k above the catalogue."""
    case = random_case(0, rows=4, items=3)
    for k in (1, 3, 5):
        for seed in range(6):
            beta = ESTIMATORS[estimator](getattr(case, form)(), k, 3, 1, seeded(seed))
            assert bool(beta.isfinite().all())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_shape_and_type(form: str, estimator: Estimator) -> None:
    for dtype in (torch.float32, torch.float64):
        case = random_case(3, rows=5, items=40, dtype=dtype)
        beta = ESTIMATORS[estimator](getattr(case, form)(), 4, 40, 20, seeded())
        assert beta.shape == (5,)
        assert beta.dtype == dtype


@pytest.mark.parametrize("estimator", SAMPLED)
def test_dense_and_factored_tables_give_the_same(estimator: Estimator) -> None:
    case = random_case(4, rows=8, items=200, bias=True)
    one, other = (ESTIMATORS[estimator](getattr(case, form)(), 10, 200, 50, seeded(1)) for form in FORMS)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("estimator", SAMPLED)
def test_a_table_of_sampled_candidates_is_its_own_sample(estimator: Estimator) -> None:
    """No further draw is made where the table has a sample already: the generator is left as it was."""
    case = random_case(5, rows=6, items=80)
    drawn = torch.arange(0, 80, 2)
    g = seeded()
    before = g.get_state()
    beta = ESTIMATORS[estimator](case.factored().restricted(drawn), 8, 80, 1000, g)
    assert torch.equal(g.get_state(), before)
    rows = parts(case, drawn.tolist())
    if estimator == "positives_kept":
        assert beta.tolist() == pytest.approx([kth_of(p + n, 8) for p, n in rows])
    elif estimator == "stratified":
        assert beta.tolist() == pytest.approx([stratified_by_force(p, n, 80, 8) for p, n in rows])
    else:
        scores = case.scores()[:, drawn].tolist()
        assert beta.tolist() == pytest.approx([kth_of(row, 4) for row in scores])  # ⌈40·8/80⌉


# ------------------------------------------------------------------------------------------------- errors on made data


def made_data() -> tuple[ScoreTable, int, int]:
    """Users and items on a sphere, 20 positives a user among those that score high: cosines as in training."""
    g = torch.Generator().manual_seed(0)
    vector_ND = torch.nn.functional.normalize(torch.randn(64 + 4000, 16, generator=g), dim=1)
    score_RC = vector_ND[:64] @ vector_ND[64:].T
    chosen_RK = (score_RC + 0.1 * torch.randn(64, 4000, generator=g)).topk(20, 1).indices
    row_P = torch.arange(64).repeat_interleave(20)
    return FactoredTable(vector_ND[:64], vector_ND[64:], row_P=row_P, column_P=chosen_RK.flatten()), 20, 4000


def deviation(estimator: Estimator, samples: int) -> Tensor:
    """β̂ − β for every user and ten seeds."""
    table, k, n_items = made_data()
    beta = exact(table, k, n_items, 0, seeded())
    return torch.stack([ESTIMATORS[estimator](table, k, n_items, samples, seeded(s)) - beta for s in range(10)])


@pytest.mark.parametrize("estimator", SAMPLED)
def test_error_falls_with_samples(estimator: Estimator) -> None:
    errors = [deviation(estimator, samples).abs().mean().item() for samples in (200, 1000, 3600)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < (0.02 if estimator != "monte_carlo" else 0.03)


@pytest.mark.parametrize("estimator", ["stratified", "incremental"])
def test_draws_that_stand_for_nothing_do_no_harm(estimator: Estimator) -> None:
    """Of a user who has met everything all draws have the weight 0."""
    score_RN, log_weight_RN = torch.tensor([[0.1, 0.4, 0.3], [0.5, 0.2, 0.6]]), torch.zeros(2, 3)
    log_weight_RN[1] = -torch.inf
    table = DenseTable(torch.tensor([0.9, 0.8]), torch.tensor([0, 1]), score_RN, log_weight=log_weight_RN)
    last = Previous(torch.zeros(2), torch.zeros(2, dtype=torch.int32), None)
    value_R = ESTIMATORS[estimator](table, 2, 4, 3, torch.Generator(), last)
    assert value_R.isfinite().all()
    assert float(value_R[0]) == pytest.approx(0.4)


@pytest.mark.parametrize("estimator", ["positives_kept", "stratified"])
def test_estimators_without_replacement_are_exact_with_every_item(estimator: Estimator) -> None:
    assert deviation(estimator, 4000).abs().max().item() < 1e-6


def test_keeping_positives_never_overestimates() -> None:
    """What was not drawn cannot stand above the threshold."""
    assert deviation("positives_kept", 500).max().item() <= 1e-6
    assert deviation("positives_kept", 500).mean().item() < -0.005


def test_stratified_has_less_bias_than_positives_kept() -> None:
    biased, corrected = (deviation(e, 1000).mean().abs().item() for e in ("positives_kept", "stratified"))
    assert corrected < 0.5 * biased
