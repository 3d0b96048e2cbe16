"""The bounds that the papers prove, as corrected, on thousands of random cases."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from shortlist.losses import BCE, BPR, SL, SLAtK
from shortlist.scores import DenseTable

SLACK = 1e-9


def random_users(seed: int, count: int, items: int) -> list[tuple[Tensor, Tensor]]:
    """Scores of the catalogue and a mask of positives; some spread far, some nearly tied, some pushed up."""
    g = torch.Generator().manual_seed(seed)
    users = []
    for _ in range(count):
        spread, share, lift = torch.rand(3, generator=g, dtype=torch.float64).tolist()
        positive_C = torch.rand(items, generator=g) < 0.05 + 0.5 * share
        positive_C[torch.randint(items, (1,), generator=g)] = True
        score_C = torch.randn(items, generator=g, dtype=torch.float64) * 10 ** (2 * spread - 1.5)
        users.append((score_C + 2 * lift * positive_C, positive_C))
    return users


def ranks(score_C: Tensor, positive_C: Tensor) -> list[int]:
    return [int((score_C >= score).sum()) for score in score_C[positive_C]]


def dcg(ranks: list[int], k: int) -> float:
    return sum(1 / math.log2(1 + rank) for rank in ranks if rank <= k)


def table_of(score_C: Tensor, positive_C: Tensor) -> DenseTable:
    return DenseTable.from_matrix(score_C.unsqueeze(0), positive_C.unsqueeze(0))


@pytest.mark.parametrize("tau", [0.05, 0.5, 2.0])
def test_sl_bounds_dcg(tau: float) -> None:
    """−ln DCG(u) + ln|P| ≤ (1/|P|)·Σ ln π ≤ L/|P|, where L sums over all items, the positives among them."""
    loss = SL(tau=tau, denominator="all")
    for score_C, positive_C in random_users(0, 700, 12):
        rank_P, mean = ranks(score_C, positive_C), loss(table_of(score_C, positive_C)).item()
        logs = sum(math.log(rank) for rank in rank_P) / len(rank_P)
        assert -math.log(dcg(rank_P, 12)) + math.log(len(rank_P)) <= logs + SLACK
        assert logs <= mean + SLACK


@pytest.mark.parametrize(("tau", "tau_w"), list(itertools.product([0.05, 1.0], [0.1, 1.0, 3.0])))
def test_slatk_bounds_dcg_at_k(tau: float, tau_w: float) -> None:
    """Theorem 3.2: the sum over positives bounds −ln DCG@K with two hits or more, and half of it with one."""
    seen = {"one": 0, "more": 0}
    for number, (score_C, positive_C) in enumerate(random_users(1, 600, 10)):
        k = 1 + number % 6
        table = table_of(score_C, positive_C)
        table = table.with_threshold(table.kth_largest(k))
        hits = [rank for rank in ranks(score_C, positive_C) if rank <= k]
        total = SLAtK(k=k, tau=tau, tau_w=tau_w, positive_weight=1.0, denominator="all")(table).item() * int(
            positive_C.sum()
        )
        if len(hits) >= 2:
            seen["more"] += 1
            assert -math.log(dcg(hits, k)) <= total + SLACK
        elif len(hits) == 1:
            seen["one"] += 1
            assert -0.5 * math.log(dcg(hits, k)) <= total + SLACK
    assert min(seen.values()) > 50


def test_the_half_of_theorem_3_2_is_needed() -> None:
    """One positive at rank 2 of 2, far from the rest: −ln DCG@2 = 0.461 while the loss is ½·ln 2 = 0.347."""
    score_C, positive_C = torch.zeros(2, dtype=torch.float64), torch.tensor([True, False])
    table = table_of(score_C, positive_C)
    table = table.with_threshold(table.kth_largest(2))
    value = SLAtK(k=2, tau_w=1.0, positive_weight=1.0, denominator="all")(table).item()
    assert value == pytest.approx(math.log(2) / 2)
    assert -math.log(dcg(ranks(score_C, positive_C), 2)) > value


def test_the_bound_fails_where_the_positive_stands_outside() -> None:
    """The form that the authors train is no bound: an easy positive makes it negative."""
    score_C, positive_C = torch.tensor([1.0, 0.0], dtype=torch.float64), torch.tensor([True, False])
    assert SL(tau=0.5)(table_of(score_C, positive_C)).item() < -math.log(dcg([1], 2))


def one_positive(seed: int, rows: int, negatives: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    spread = 10 ** (2 * torch.rand(rows, 1, generator=g, dtype=torch.float64) - 1.5)
    score = torch.randn(rows, 1 + negatives, generator=g, dtype=torch.float64) * spread
    return score[:, 0], score[:, 1:]


@pytest.mark.parametrize("negatives", [1, 2, 10, 50])
def test_cce_lies_between_ndcg_and_bpr_and_bce(negatives: int) -> None:
    """Theorem 1: ln log₂(1 + r) ≤ ln r ≤ CCE ≤ BPR (its sum), and CCE ≤ BCE.

    The theorem has the last part for s₊ ≥ 0. It holds for every score: with a = e^{−s₊} and b = Σ e^{s_j},
    CCE = ln(1 + a·b) ≤ ln((1 + a)·(1 + b)) ≤ ln((1 + a)·Π(1 + e^{s_j})) = BCE.
    """
    pos_B, neg_BN = one_positive(negatives, 500, negatives)
    cce, bpr, bce = SL(tau=1.0, denominator="all"), BPR(), BCE()
    for pos, neg in zip(pos_B.split(1), neg_BN.split(1), strict=True):
        rank = 1 + int((neg >= pos).sum())
        assert math.log(math.log2(1 + rank)) <= math.log(rank) + SLACK
        assert math.log(rank) <= cce(pos, neg).item() + SLACK
        assert cce(pos, neg).item() <= bpr(pos, neg).item() * negatives + SLACK
        assert cce(pos, neg).item() <= bce(pos, neg).item() + SLACK


def test_bpr_is_cce_with_one_negative() -> None:
    """Proposition 1, for values and gradients."""
    pos, neg = (t.requires_grad_() for t in one_positive(3, 200, 1))
    bpr, cce = BPR()(pos, neg), SL(tau=1.0, denominator="all")(pos, neg)
    torch.testing.assert_close(bpr, cce, rtol=1e-12, atol=1e-14)
    for ours, theirs in zip(torch.autograd.grad(bpr, [pos, neg]), torch.autograd.grad(cce, [pos, neg]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-16)


def test_slatk_with_thresholds_far_below_is_sl() -> None:
    """β → −∞ makes every weight 1; the number of negatives that the sum is scaled to is then a constant."""
    pos, neg = one_positive(4, 50, 6)
    beta = torch.full((50,), -1e9, dtype=torch.float64)
    torch.testing.assert_close(SLAtK(positive_weight=1.0, negatives=6.0)(pos, neg, threshold=beta), SL()(pos, neg))
    shifted = SLAtK(positive_weight=1.0, negatives=600.0)(pos, neg, threshold=beta)
    torch.testing.assert_close(shifted, SL()(pos, neg) + math.log(100))
