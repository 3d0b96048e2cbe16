"""The Lambda family beyond the suite: graded labels, sampled ranks, special cases, and what is held constant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from losses.entries.lambdas import apart, at_k, between, both, one
from scores.tables import Case, random_case, with_context
from shortlist.losses import (
    BPR,
    ARPLoss1,
    ARPLoss2,
    LambdaLossAtK,
    LambdaRank,
    Loss,
    NDCGLoss1,
    NDCGLoss2,
    NDCGLoss2pp,
)
from shortlist.losses.lambdas import counts, inverse_log_gap, ranks_of_positives
from shortlist.negatives import SharedCandidates
from shortlist.scores import DenseTable, ScoreTable, TableContext

FORMS = ["dense", "factored", "factored_apart"]
BELOW: dict[str, tuple[Loss, Callable[..., float]]] = {
    "lambdarank": (LambdaRank(), between),
    "ndcg_loss2": (NDCGLoss2(), apart),
    "ndcg_loss2pp": (NDCGLoss2pp(mu=3.0), both),
    "lambdaloss_at_k": (LambdaLossAtK(k=2), at_k),
    "arp_loss2": (ARPLoss2(), one),
}
"""Losses over pairs whose labels differ, with the weight of a pair's ranks."""

GAINS = [name for name in BELOW if name != "arp_loss2"]
"""Those whose gains can be normalised."""


def graded(case: Case, form: str, seed: int = 0) -> ScoreTable:
    """A table whose positives have grades 1 to 3."""
    table: ScoreTable = getattr(case, form)()
    g = torch.Generator().manual_seed(seed)
    return with_context(table, grade_P=torch.randint(1, 4, (table.n_positives,), generator=g))


def labels(case: Case, table: ScoreTable) -> list[list[int]]:
    """The label of every item of every row."""
    label = [[0] * len(case.item_CD) for _ in range(table.n_rows)]
    grade_P = table.context.grade_P
    assert grade_P is not None
    for row, column, grade in zip(case.row_P.tolist(), case.column_P.tolist(), grade_P.tolist(), strict=True):
        label[row][column] = grade
    return label


def rank(score: Sequence[float], item: int) -> int:
    return sum(other >= score[item] for other in score)


def held_weights(name: str, score_RC: Tensor, label: list[list[int]], normalised: bool) -> Tensor:
    """Δ_ij·(gain gap) of all pairs of items of all rows, R × C × C, by loops."""
    loss, weight = BELOW[name]
    weight_RCC = torch.zeros(*score_RC.shape, score_RC.shape[1], dtype=torch.float64)
    for r, score in enumerate(score_RC.tolist()):
        gain = [y if name == "arp_loss2" else 2**y - 1 for y in label[r]]
        depth = loss.settings().get("k", len(score))
        best = sorted(gain, reverse=True)[:depth]
        ideal = sum(g / math.log2(2 + place) for place, g in enumerate(best)) if normalised else 1.0
        for i in range(len(score)):
            for j in range(len(score)):
                if label[r][i] > label[r][j]:
                    worth = weight(loss.settings(), rank(score, i), rank(score, j))
                    weight_RCC[r, i, j] = worth * (gain[i] - gain[j]) / ideal
    return weight_RCC


def reference(weight_RCC: Tensor, score_RC: Tensor, n_positives: int) -> Tensor:
    """The loss with given weights of all pairs, in one expression that torch differentiates."""
    difference_RCC = score_RC.unsqueeze(1) - score_RC.unsqueeze(2)  # at [r, i, j]: s_j − s_i
    return (weight_RCC * torch.nn.functional.softplus(difference_RCC)).sum() / math.log(2) / n_positives


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "normalised"), [(name, False) for name in BELOW] + [(name, True) for name in GAINS])
def test_graded_labels_and_the_gradient_with_weights_held(name: str, form: str, normalised: bool) -> None:
    loss = BELOW[name][0]
    if normalised:
        loss = type(loss)(**{**loss.settings(), "normalised": True})
    for seed in range(3):
        case = random_case(seed, rows=5, items=8, bias=True)
        table = graded(case, form, seed)
        weight_RCC = held_weights(name, case.scores().detach(), labels(case, table), normalised)
        expected = reference(weight_RCC, case.scores(), len(case.row_P))
        value = loss(table)
        torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
        ours = torch.autograd.grad(value, case.vectors())
        theirs = torch.autograd.grad(expected, case.vectors())
        for one_grad, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one_grad, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("normalised", [False, True])
def test_graded_labels_against_all(form: str, normalised: bool) -> None:
    """NDCG-Loss1 and ARP-Loss1: every positive against everything but itself."""
    case = random_case(3, rows=5, items=8)
    table = graded(case, form)
    score_RC, label = case.scores(), labels(case, table)
    relevance, gain = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for r, c in zip(case.row_P.tolist(), case.column_P.tolist(), strict=True):
        rest = [j for j in range(8) if j != c]
        total = torch.nn.functional.softplus(score_RC[r, rest] - score_RC[r, c]).sum() / math.log(2)
        best = sorted((2**y - 1 for y in label[r]), reverse=True)
        ideal = sum(g / math.log2(2 + place) for place, g in enumerate(best)) if normalised else 1.0
        relevance = relevance + label[r][c] * total
        gain = gain + (2 ** label[r][c] - 1) / math.log2(1 + rank(score_RC[r].tolist(), c)) * total / ideal
    for loss, expected in ((ARPLoss1(), relevance), (NDCGLoss1(normalised=normalised), gain)):
        expected = expected / len(case.row_P)
        value = loss(table)
        torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
        for ours, theirs in zip(
            torch.autograd.grad(value, case.vectors(), retain_graph=True),
            torch.autograd.grad(expected, case.vectors(), retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


# ------------------------------------------------------------------------------------------------------ sampled ranks


def sampled_rank(kind: str, score: float, positives: list[float], negatives: list[float], n_items: int) -> float:
    above_positives = sum(other >= score for other in positives)
    above_negatives = sum(other >= score for other in negatives)
    if kind == "table":
        return above_positives + above_negatives
    if kind == "scaled":
        return (above_positives + above_negatives) * n_items / (len(positives) + len(negatives))
    return above_positives + above_negatives * (n_items - len(positives)) / len(negatives)


def by_loops(loss: Any, rows: list[tuple[list[float], list[float], list[int]]], n_items: int) -> float:
    """The loss of rows of positives, negatives and the positives' grades."""
    terms = []
    for positives, negatives, grade in rows:
        for i, s in enumerate(positives):
            ranks = [sampled_rank(loss.ranks, x, positives, negatives, n_items) for x in (s, *negatives, *positives)]
            gain, term = 2 ** grade[i] - 1, 0.0
            others = [*((x, 0) for x in negatives), *zip(positives, grade, strict=True)]
            for (x, y), other in zip(others, ranks[1:], strict=True):
                if isinstance(loss, NDCGLoss1):
                    term += gain / math.log2(1 + ranks[0]) * math.log2(1 + math.exp(x - s))
                elif y < grade[i]:
                    worth = {LambdaRank: between, NDCGLoss2: apart, LambdaLossAtK: at_k}[type(loss)]
                    weight = worth(loss.settings(), ranks[0], other)
                    term += weight * (gain - 2**y + 1) * math.log2(1 + math.exp(x - s))
            if isinstance(loss, NDCGLoss1):  # itself was among the others
                term -= gain / math.log2(1 + ranks[0])
            terms.append(term)
    return sum(terms) / len(terms)


@pytest.mark.parametrize("kind", ["unbiased", "scaled", "table"])
@pytest.mark.parametrize("loss", [LambdaRank, NDCGLoss2, LambdaLossAtK, NDCGLoss1])
class TestSampledRanks:
    def test_of_pairs(self, loss: type[Loss], kind: str) -> None:
        """A row for each pair with negatives drawn for it, as the papers train."""
        g = torch.Generator().manual_seed(0)
        pos, neg = torch.randn(6, generator=g).double(), torch.randn(6, 7, generator=g).double()
        made = loss(ranks=kind, **({"k": 5} if loss is LambdaLossAtK else {}))
        rows = [([p], n, [1]) for p, n in zip(pos.tolist(), neg.tolist(), strict=True)]
        assert made(pos, neg, n_items=50).item() == pytest.approx(by_loops(made, rows, 50), rel=1e-9)

    @pytest.mark.parametrize("is_graded", [False, True])
    def test_of_a_shared_sample(self, loss: type[Loss], kind: str, is_graded: bool) -> None:
        """Users with several positives, which the sample may hold or not."""
        case = random_case(1, rows=4, items=12)
        column_N = torch.tensor([0, 3, 4, 8, 11])
        grade_P = torch.randint(1, 4, (len(case.row_P),), generator=torch.Generator().manual_seed(1))
        known: dict[str, Any] = {"n_items": 12, "item_C": column_N, "grade_P": grade_P if is_graded else None}
        table = with_context(case.factored().restricted(column_N), **known)
        score_RC, positive_RC = case.scores().detach(), case.positive_mask()
        rows = []
        for r in range(4):
            mine_P = (case.row_P == r).nonzero().flatten()
            negatives = [float(score_RC[r, c]) for c in column_N.tolist() if not positive_RC[r, c]]
            grades = grade_P[mine_P].tolist() if is_graded else [1] * len(mine_P)
            rows.append((score_RC[r, case.column_P[mine_P]].tolist(), negatives, grades))
        assert all(negatives for _, negatives, _ in rows)
        made = loss(ranks=kind, **({"k": 5} if loss is LambdaLossAtK else {}))
        assert made(table).item() == pytest.approx(by_loops(made, rows, 12), rel=1e-9)

    def test_of_the_whole_catalogue_are_exact(self, loss: type[Loss], kind: str) -> None:
        case = random_case(2, rows=5, items=20)
        table, plain = with_context(case.factored(), n_items=20, item_C=torch.arange(20)), case.factored()
        assert torch.equal(loss(ranks=kind)(table), loss(ranks="table")(plain))


def test_unbiased_ranks_are_right_on_average() -> None:
    """The rank of a positive from 30 of 1,997 negatives; the scaled one is too low, for positives are always there."""
    g = torch.Generator().manual_seed(0)
    score_C = torch.randn(2000, generator=g, dtype=torch.float64)
    pos_P, row_P = torch.tensor([0.3, 0.6, 1.2], dtype=torch.float64), torch.zeros(3, dtype=torch.long)
    exact_P = DenseTable(pos_P, row_P, score_C[3:].unsqueeze(0)).ranks().double()
    found: dict[str, list[Tensor]] = {"unbiased": [], "scaled": []}
    for _ in range(3000):
        drawn = 3 + torch.randperm(1997, generator=g)[:30]
        table = DenseTable(pos_P, row_P, score_C[drawn].unsqueeze(0), context=TableContext(n_items=2000))
        for kind, list_ in found.items():
            list_.append(ranks_of_positives(table, counts(table, kind)))  # type: ignore[arg-type]
    mean = {kind: torch.stack(list_).mean(0) for kind, list_ in found.items()}
    error_P = torch.stack(found["unbiased"]).std(0) / 3000**0.5
    assert bool(((mean["unbiased"] - exact_P).abs() < 4 * error_P).all())
    assert bool((mean["scaled"][:2] > exact_P[:2] + 20 * error_P[:2]).all())


def test_weighted_ranks_are_right_on_average() -> None:
    """Of samples in which some items are thirty times as likely as others; without weights the popular ones mislead."""
    g = torch.Generator().manual_seed(0)
    count_I = torch.arange(2000) % 30 + 1
    score_I = torch.randn(2000, generator=g, dtype=torch.float64) + count_I / 15
    pos_P, row_P = torch.tensor([0.5, 1.5, 3.0], dtype=torch.float64), torch.zeros(3, dtype=torch.long)
    exact_P = DenseTable(pos_P, row_P, score_I.unsqueeze(0)).ranks().double()
    shared, found, misled = SharedCandidates(count_I, "popularity"), [], []
    for _ in range(2000):
        sample = shared.draw(50, g)
        assert sample.log_weight_C is not None
        score_RC = score_I[sample.item_C].unsqueeze(0)
        table = DenseTable(pos_P, row_P, score_RC, log_weight=sample.log_weight_C.double())
        plain = DenseTable(pos_P, row_P, score_RC, context=TableContext(n_items=2003))
        found.append(ranks_of_positives(table, counts(table, "unbiased")))
        misled.append(ranks_of_positives(plain, counts(plain, "unbiased")))
    found_P, error_P = torch.stack(found).mean(0), torch.stack(found).std(0) / 2000**0.5
    assert bool(((found_P - exact_P).abs() < 4 * error_P).all())
    assert bool((torch.stack(misled).mean(0) > exact_P + 20 * error_P).all())


@pytest.mark.parametrize("loss", [LambdaRank, NDCGLoss2, LambdaLossAtK, NDCGLoss1])
@pytest.mark.parametrize("form", FORMS)
def test_graded_samples_with_weights(loss: type[Loss], form: str) -> None:
    """Pairs of positives, too, are weighed by ranks in which a negative of weight w counts as w of them."""
    case = random_case(3, rows=5, items=9)
    times_C = torch.tensor([1, 2, 3, 1, 4, 2, 1, 1, 5])
    column_N = torch.arange(9).repeat_interleave(times_C)
    score_RC, positive_RC = case.scores(), case.positive_mask()
    positive_P = score_RC[case.row_P, case.column_P]
    repeated = DenseTable(positive_P, case.row_P, score_RC[:, column_N], positive_RC=positive_RC[:, column_N])
    case.log_weight_C = times_C.double().log()
    weighted = graded(case, form)
    repeated = with_context(repeated, grade_P=weighted.context.grade_P)
    weighted.n_represented_R = repeated.n_represented_R
    torch.testing.assert_close(loss()(weighted), loss()(repeated), rtol=1e-10, atol=1e-12)


def test_no_place_is_above_the_first() -> None:
    """Two draws of one item count for a third each: its rank would be 2/3."""
    table = DenseTable(
        torch.tensor([0.0]), torch.tensor([0]), torch.tensor([[1.0, 1.0]]), log_weight=torch.full((2,), 1 / 3).log()
    )
    between = 1 - 1 / math.log2(1 + 1 + 2 / 3)
    assert LambdaRank()(table).item() == pytest.approx(2 / 3 * between * math.log2(1 + math.e), rel=1e-6)


@pytest.mark.parametrize("kind", ["scaled", "table"])
@pytest.mark.parametrize("form", FORMS)
def test_equal_weights_change_no_rank(kind: str, form: str) -> None:
    """Users whose positives are in the sample: these are no negatives, also where weights make it the catalogue."""
    case = random_case(1, rows=4, items=12)
    plain = getattr(case, form)()
    case.log_weight_C = torch.full((12,), math.log(10), dtype=torch.float64)
    weighted = getattr(case, form)()
    weighted.n_represented_R = 120 - torch.bincount(case.row_P, minlength=4).double()
    plain, weighted = (with_context(table, n_items=120, item_C=torch.arange(12)) for table in (plain, weighted))
    loss = NDCGLoss2(ranks=kind)
    torch.testing.assert_close(loss(weighted), 10 * loss(plain), rtol=1e-12, atol=0)


# ------------------------------------------------------------------------------------------------------ special cases


def test_special_cases() -> None:
    case = random_case(4, rows=6, items=20)
    table = case.factored()
    assert torch.equal(LambdaLossAtK(k=20)(table), NDCGLoss2()(table))
    assert torch.equal(NDCGLoss2pp(mu=0.0)(table), LambdaRank()(table))
    n_negatives_P = table.per_positive(table.n_represented_R)
    bpr = torch.stack(
        [
            count * BPR()(s.view(1), case.scores()[r][~case.positive_mask()[r]].view(1, -1))
            for r, s, count in zip(table.row_P.tolist(), table.positives(), n_negatives_P, strict=True)
        ]
    )
    torch.testing.assert_close(ARPLoss2()(table), bpr.mean() / math.log(2))


def test_graded_labels_of_one_grade_are_binary() -> None:
    case = random_case(5, rows=6, items=20)
    for loss in (LambdaRank(), NDCGLoss2(), NDCGLoss1(), ARPLoss2()):
        table = with_context(case.factored(), grade_P=torch.ones(len(case.row_P)))
        torch.testing.assert_close(loss(table), loss(case.factored()), rtol=1e-12, atol=0)


def test_the_step_of_discounts_keeps_its_digits() -> None:
    """The plain difference of two discounts has lost most of its digits at rank 10⁵ in single precision."""
    x = torch.tensor([1.0, 2.5, 7.0, 1e3, 1e5, 3e6])
    exact = [1 / math.log2(1 + v) - 1 / math.log2(2 + v) for v in x.tolist()]
    torch.testing.assert_close(inverse_log_gap(x), torch.tensor(exact), rtol=1e-5, atol=0)


def test_most_of_the_gradient_of_lambdaloss_at_k_is_carried_by_few_pairs() -> None:
    """What SL@K's authors show in their Figure 1c: the gradient is long-tailed."""
    g = torch.Generator().manual_seed(0)
    pos, neg = torch.randn(1, generator=g).double(), torch.randn(1, 2000, generator=g).double().requires_grad_()
    (grad,) = torch.autograd.grad(LambdaLossAtK(k=20)(pos, neg), neg)
    share = grad.abs().flatten().sort(descending=True).values.cumsum(0) / grad.abs().sum()
    assert float(share[99]) > 0.9  # the first 5 %


def test_arp_losses_bound_the_average_relevance_position() -> None:
    """log₂(1 + eˣ) ≥ 1 for x ≥ 0: the loss of a positive is at least the number of those above it."""
    for seed in range(30):
        case = random_case(seed, rows=5, items=12)
        table = case.factored()
        scores, positive_RC = case.scores().tolist(), case.positive_mask().tolist()
        pairs = list(zip(case.row_P.tolist(), case.column_P.tolist(), strict=True))
        above = [sum(s >= scores[r][c] for s in scores[r]) - 1 for r, c in pairs]
        negatives_above = [
            sum(s >= scores[r][c] for s, label in zip(scores[r], positive_RC[r], strict=True) if not label)
            for r, c in pairs
        ]
        assert sum(above) / len(pairs) <= ARPLoss1()(table).item() + 1e-12
        assert sum(negatives_above) / len(pairs) <= ARPLoss2()(table).item() + 1e-12
