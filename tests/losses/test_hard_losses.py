"""Losses of hard negatives beyond the suite: weights, what is held constant, what they reduce to and stand for."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from losses.oracle import softplus
from scores.tables import random_case
from shortlist.errors import InputError
from shortlist.losses import BPR, DNS, SoftmaxV
from shortlist.scores import DenseTable

FORMS = ["dense", "factored", "factored_apart"]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weighted(pos: Tensor, neg: Tensor, weights: list[float]) -> DenseTable:
    n_represented_R = torch.full((len(pos),), sum(weights), dtype=torch.float64)
    log_weight = torch.tensor(weights, dtype=torch.float64).log()
    return DenseTable(pos, torch.arange(len(pos)), neg, log_weight=log_weight, n_represented_R=n_represented_R)


# ----------------------------------------------------------------------------------------------------------------- DNS


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("settings", [{"m": 12}, {"m": 5, "n": 5}, {"m": 100}])
def test_dns_of_all_negatives_is_bpr(form: str, settings: dict[str, int]) -> None:
    case = random_case(0, rows=6, items=12)
    dns, bpr = DNS(**settings)(getattr(case, form)()), BPR()(getattr(case, form)())
    torch.testing.assert_close(dns, bpr, rtol=1e-13, atol=0)


def test_dns_passes_gradients_to_the_highest_negatives_only() -> None:
    scores, positive_RC = normal(6, 20).requires_grad_(), normal(6, 20, seed=1) > 0.8
    (grad,) = torch.autograd.grad(DNS(m=3)(DenseTable.from_matrix(scores, positive_RC)), scores)
    score = scores.tolist()
    for row in range(6):
        if not positive_RC[row].any():
            assert bool((grad[row] == 0).all())
            continue
        negatives = [j for j in range(20) if not positive_RC[row, j]]
        highest = sorted(negatives, key=lambda j: -score[row][j])[:3]
        assert {j for j in negatives if grad[row, j] != 0} == set(highest)


def test_dns_of_a_weighted_sample_is_that_of_what_it_stands_for() -> None:
    pos, neg = normal(6), normal(6, 3, seed=1)
    repeated = torch.cat([neg[:, :1], neg[:, 1:2].expand(6, 2), neg[:, 2:].expand(6, 4)], 1)
    for loss in (DNS(m=1), DNS(m=2), DNS(m=3), DNS(m=2, n=5), DNS(m=1, n=10)):
        torch.testing.assert_close(loss(weighted(pos, neg, [1.0, 2.0, 4.0])), loss(pos, repeated))


def test_dns_of_draws_comes_to_that_of_the_catalogue() -> None:
    """A share of a twentieth: of 4000 negatives, and of 100 or 1600 drawn. The error falls as the square root."""
    score_C, pos = normal(4000), torch.tensor([0.5], dtype=torch.float64)
    exact = DNS(m=1, n=20)(pos, score_C.unsqueeze(0)).item()
    g, errors = torch.Generator().manual_seed(1), []
    for draws in (100, 1600):
        drawn = score_C[torch.randint(4000, (400, draws), generator=g)]
        values = [DNS(m=1, n=20)(pos, row.unsqueeze(0)).item() for row in drawn]
        errors.append(sum(abs(value - exact) for value in values) / 400)
    assert errors[1] < 0.03 * exact
    assert 3 < errors[0] / errors[1] < 5.5  # 4 in the limit


def test_dns_with_more_than_its_n_is_refused() -> None:
    with pytest.raises(InputError, match=r"^DNS.n: expected at least 5, which is m, received 4$"):
        DNS(m=5, n=4)


# ------------------------------------------------------------------------------------------------------------ Softmax_v


def shares(losses: list[float], rho: float, weights: list[float]) -> list[float]:
    mean = sum(losses) / len(losses)
    tau = math.sqrt(sum((loss - mean) ** 2 for loss in losses) / len(losses) / (2 * rho))
    if tau < 1e-6:
        tau = 1e-6
    powers = [w * math.exp((loss - max(losses)) / tau) for loss, w in zip(losses, weights, strict=True)]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rho", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("has_weights", [False, True])
def test_gradient_and_value_of_softmax_v_by_loops(form: str, rho: float, has_weights: bool) -> None:
    """Each negative is pushed by p_j·σ(s_j − s_i), and the positive pulled by their sum: p is held constant."""
    case = random_case(3, rows=6, items=11, bias=True, weights=has_weights, max_elements=33)
    value = SoftmaxV(rho=rho)(getattr(case, form)())
    grads = torch.autograd.grad(value, case.vectors())
    score, mask = case.scores().tolist(), case.positive_mask()
    weight_C = [1.0] * 11 if case.log_weight_C is None else case.log_weight_C.exp().tolist()
    grad_RC, total = torch.zeros(6, 11, dtype=torch.float64), 0.0
    for row, column in mask.nonzero().tolist():
        negatives = [j for j in range(11) if not mask[row, j]]
        losses = [softplus(score[row][j] - score[row][column]) for j in negatives]
        for j, loss, share in zip(
            negatives, losses, shares(losses, rho, [weight_C[j] for j in negatives]), strict=True
        ):
            push = share / (1 + math.exp(score[row][column] - score[row][j]))
            grad_RC[row, j] += push
            grad_RC[row, column] -= push
            total += share * loss
    grad_RC /= int(mask.sum())
    assert value.item() == pytest.approx(total / int(mask.sum()), rel=1e-10)
    torch.testing.assert_close(grads[0], grad_RC @ case.item_CD.detach(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(grads[1], grad_RC.T @ case.row_RD.detach(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(grads[2], grad_RC.sum(0), rtol=1e-9, atol=1e-12)


def test_softmax_v_lies_between_bpr_and_the_hardest_negative() -> None:
    """At the ends it is either of them, with their gradients."""
    pos, neg = normal(20).requires_grad_(), normal(20, 9, seed=1).requires_grad_()
    ends = [(SoftmaxV(rho=1e-14), BPR(), 1e-5), (SoftmaxV(rho=1e10), DNS(m=1), 1e-12)]
    for loss, other, tolerance in ends:
        torch.testing.assert_close(loss(pos, neg), other(pos, neg), rtol=tolerance, atol=0)
        ours, theirs = (torch.autograd.grad(each(pos, neg), [pos, neg]) for each in (loss, other))
        for grad, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(grad, expected, rtol=tolerance, atol=1e-7)
    values = [SoftmaxV(rho=rho)(pos, neg).item() for rho in (1e-3, 0.1, 1.0, 10.0)]
    assert BPR()(pos, neg).item() < values[0]
    assert values == sorted(values)
    assert values[-1] < DNS(m=1)(pos, neg).item()


@pytest.mark.parametrize("rho", [0.1, 0.5])
def test_rho_of_softmax_v_is_a_divergence(rho: float) -> None:
    """Of normally distributed losses the shares diverge from equal ones by just ρ (Kullback and Leibler).

    Far above the positive a loss is the difference itself, and the gradient there is the share.
    """
    neg = (normal(1, 300_000) + 50).requires_grad_()
    (share,) = torch.autograd.grad(SoftmaxV(rho=rho)(torch.zeros(1, dtype=torch.float64), neg), neg)
    assert share.sum().item() == pytest.approx(1, rel=1e-9)
    assert (share * (share * share.numel()).clamp(min=1e-300).log()).sum().item() == pytest.approx(rho, rel=0.03)


def test_softmax_v_of_equal_losses_has_equal_shares() -> None:
    """The variance is 0 there, and the temperature would be."""
    for dtype in (torch.float32, torch.float64):
        neg = torch.full((2, 5), 0.1, dtype=dtype, requires_grad=True)
        (grad,) = torch.autograd.grad(SoftmaxV()(torch.tensor([0.3, -1.7], dtype=dtype), neg), neg)
        torch.testing.assert_close(grad, grad[:, :1].expand(2, 5))
