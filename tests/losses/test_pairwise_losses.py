"""Pairwise losses beyond the suite: grades, searches, and what they reduce to."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from losses.oracle import softplus
from scores.tables import Case, random_case, with_context
from shortlist.losses import BPR, WARP, Hinge, RankNet, pairwise
from shortlist.scores import DenseTable, ScoreTable, TableContext

FORMS = ["dense", "factored", "factored_apart"]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_hinge_is_torchs_margin_ranking_loss() -> None:
    pos, neg = normal(6), normal(6, 4, seed=1)
    for margin in (0.0, 1.0, 5.0):
        theirs = F.margin_ranking_loss(pos.unsqueeze(1).expand(6, 4), neg, torch.ones(6, 4), margin=margin)
        torch.testing.assert_close(Hinge(margin=margin)(pos, neg), theirs, rtol=1e-12, atol=1e-14)


# ------------------------------------------------------------------------------------------------------------- RankNet


def graded(case: Case, form: str, grade_P: Tensor | None = None) -> ScoreTable:
    table: ScoreTable = getattr(case, form)()
    return with_context(table, grade_P=1 + torch.arange(len(case.row_P)) % 4 if grade_P is None else grade_P)


def ranknet_by_loops(case: Case, grade_P: Tensor) -> float:
    """Over every pair of items of a row; what is no positive has grade 0."""
    score, label = case.scores().tolist(), torch.zeros(len(case.row_RD), len(case.item_CD), dtype=torch.long)
    label[case.row_P, case.column_P] = grade_P
    total = 0.0
    for row, column in zip(case.row_P.tolist(), case.column_P.tolist(), strict=True):
        below = [j for j in range(len(case.item_CD)) if label[row, j] < label[row, column]]
        total += sum(softplus(score[row][j] - score[row][column]) for j in below) / max(1, len(below))
    return total / max(1, len(case.row_P))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block", [1 << 22, 5])
def test_ranknet_compares_positives_of_different_grades(form: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairwise, "_BLOCK", block)
    for seed, shape in enumerate([{"rows": 5, "items": 9}, {"rows": 8, "items": 30}, {"rows": 1, "items": 6}] * 2):
        case = random_case(seed, **shape)
        table = graded(case, form)
        assert RankNet()(table).item() == pytest.approx(ranknet_by_loops(case, table.context.grade_P), rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gradient_of_ranknet_with_grades(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairwise, "_BLOCK", 7)
    case = random_case(2, rows=4, items=8)

    def value(row_RD: Tensor, item_CD: Tensor) -> Tensor:
        return RankNet()(graded(Case(row_RD, item_CD, case.row_P, case.column_P), form))

    assert torch.autograd.gradcheck(value, case.vectors())


def test_ranknet_is_a_cross_entropy_of_pairs() -> None:
    """A list of four positives of grades 3, 1, 1, 2 and nothing else."""
    score, grade = normal(4), [3.0, 1.0, 1.0, 2.0]
    context = TableContext(grade_P=torch.tensor(grade))
    no_negatives = torch.zeros(1, 0, dtype=torch.float64)
    table = DenseTable(score, torch.zeros(4, dtype=torch.long), no_negatives, context=context)
    means = []
    for a in (0, 3):
        gap = torch.stack([score[a] - score[b] for b in range(4) if grade[b] < grade[a]])
        means.append(F.binary_cross_entropy_with_logits(gap, torch.ones_like(gap)))
    torch.testing.assert_close(RankNet()(table), (means[0] + means[1]) / 4)


def test_ranknet_of_equal_grades_is_bpr() -> None:
    case = random_case(1, rows=6, items=20)
    for form in FORMS:
        one_grade = graded(case, form, torch.ones(len(case.row_P)))
        assert torch.equal(RankNet()(one_grade), BPR()(getattr(case, form)()))


# ---------------------------------------------------------------------------------------------------------------- WARP


@pytest.mark.parametrize("rank", ["drawn", "counted"])
def test_warp_with_one_negative_is_the_hinge(rank: str) -> None:
    """Φ(1) = 1."""
    pos, neg = normal(50), normal(50, 1, seed=1)
    warp = WARP(margin=0.7, rank=rank)  # type: ignore[arg-type]
    torch.testing.assert_close(warp(pos, neg), Hinge(margin=0.7)(pos, neg), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("n_items", [5, 12, 1001])
def test_warp_reads_the_rank_off_the_size_of_the_catalogue(n_items: int) -> None:
    """Φ(⌊(n − 1)/q⌋) for the first violator, at trial q = 3 of 4; counted: 2 of 4 stand for half of them."""
    pos, neg = torch.tensor([2.0]).double(), torch.tensor([[0.0, 0.5, 1.5, 3.0]]).double()
    harmonic = sum(1 / k for k in range(1, (n_items - 1) // 3 + 1))
    assert WARP()(pos, neg, n_items=n_items).item() == pytest.approx(harmonic * 0.5, rel=1e-12)
    half, euler = (n_items - 1) / 2, 0.57721566490153286
    expected = (math.log(half) + euler + 1 / (2 * half) - 1 / (12 * half**2)) * 1.25  # the asymptotic series
    counted = WARP(rank="counted")(pos, neg, n_items=n_items).item()
    assert counted == pytest.approx(expected, rel=1 / (50 * half**4))


def weighted(pos: Tensor, neg: Tensor, weights: list[float]) -> DenseTable:
    n_represented_R = torch.full((len(pos),), sum(weights), dtype=torch.float64)
    log_weight = torch.tensor(weights, dtype=torch.float64).log()
    return DenseTable(pos, torch.arange(len(pos)), neg, log_weight=log_weight, n_represented_R=n_represented_R)


def test_counted_warp_of_a_weighted_sample_is_that_of_what_it_stands_for() -> None:
    pos, neg = normal(6), normal(6, 3, seed=1)
    loss = WARP(rank="counted", margin=0.5)
    repeated = torch.cat([neg[:, :1], neg[:, 1:2].expand(6, 2), neg[:, 2:].expand(6, 4)], 1)
    torch.testing.assert_close(loss(weighted(pos, neg, [1.0, 2.0, 4.0])), loss(pos, repeated))


@pytest.mark.parametrize("form", FORMS)
def test_warp_looks_in_an_order_that_the_generator_decides(form: str) -> None:
    """Each negative is as likely as any other to be the first: of one positive with five violators, a fifth each."""
    case = random_case(0, rows=1, items=6, dim=2)
    case.row_P, case.column_P = torch.tensor([0]), torch.tensor([3])
    with torch.no_grad():
        case.item_CD[3] = -5 * case.row_RD[0].sign()
    generator, chosen = torch.Generator().manual_seed(0), torch.zeros(6)
    for _ in range(1000):
        scores = case.scores().detach().requires_grad_()
        if form == "dense":
            context = TableContext(generator=generator)
            table = DenseTable.from_matrix(scores, case.positive_mask(), context=context)
            (grad,) = torch.autograd.grad(WARP()(table), scores)
        else:
            ours: ScoreTable = with_context(getattr(case, form)(), generator=generator)
            (grad_CD,) = torch.autograd.grad(WARP()(ours), case.item_CD)
            grad = grad_CD.abs().sum(1).unsqueeze(0)
            grad[0, 3] *= -1
        # all five are violators, so that the first is found at once: Φ(5) at it, and −Φ(5) at the positive
        assert int((grad > 0).sum()) == 1
        chosen += (grad[0] > 0).float()
    assert chosen[3] == 0
    assert chosen[[0, 1, 2, 4, 5]].min() > 150  # 200 on average, with a deviation of 12.6


def test_warp_of_a_seed_is_always_the_same() -> None:
    values = []
    for seed in (0, 0, 1):
        generator = torch.Generator().manual_seed(seed)
        table = with_context(random_case(1, rows=6, items=40).factored(), generator=generator)
        values.append(WARP()(table).item())
    assert values[0] == values[1] != values[2]
