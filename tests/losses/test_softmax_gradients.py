"""The gradient of SL@K in closed form, as it was derived on paper, against automatic differentiation.

    ∂L/∂s_rj = (1/P)·[ (W_r/τ)·softmax_rj + [j is positive p of r]·( −c·w_p/τ + w_p(1 − w_p)/τ_w · l_p ) ]

with W_r the sum of the row's weights and the softmax over what the sum runs over; the last term is there only where
the gradient flows through the weight.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from scores.tables import Case, random_case
from shortlist.losses import SL, SLAtK

CASES = list(itertools.product(["published", "detached"], ["all", "negatives"], [1.0, 0.8]))


def closed_form(loss: SLAtK, score_RC: Tensor, positive_RC: Tensor, threshold_R: Tensor) -> Tensor:
    """The formula above with loops; rows that have nothing to stand against their positives carry no gradient."""
    n_positives, grad_RC = int(positive_RC.sum()), torch.zeros_like(score_RC)
    for row, scores in enumerate(score_RC.tolist()):
        positives = positive_RC[row].nonzero().flatten().tolist()
        rivals = [j for j in range(len(scores)) if loss.denominator == "all" or j not in positives]
        total = sum(math.exp(scores[j] / loss.tau) for j in rivals)
        if not rivals:
            continue
        scale = loss.negatives / len(rivals) if loss.denominator == "negatives" else 1.0
        weight = {p: 1 / (1 + math.exp((float(threshold_R[row]) - scores[p]) / loss.tau_w)) for p in positives}
        for j in rivals:
            grad_RC[row, j] += sum(weight.values()) / loss.tau * math.exp(scores[j] / loss.tau) / total
        for p, w in weight.items():
            grad_RC[row, p] -= loss.positive_weight * w / loss.tau
            if loss.weight == "published":
                term = math.log(scale * total) - loss.positive_weight * scores[p] / loss.tau
                grad_RC[row, p] += w * (1 - w) / loss.tau_w * term
    return grad_RC / n_positives


def situation(seed: int, **shape: Any) -> tuple[Case, Tensor]:
    case = random_case(seed, **shape)
    return case, torch.randn(len(case.row_RD), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("weight", "denominator", "positive_weight"), CASES)
@pytest.mark.parametrize("form", ["dense", "factored", "factored_apart"])
def test_gradient_is_the_published_one(weight: Any, denominator: Any, positive_weight: float, form: str) -> None:
    for seed, settings in enumerate([{"tau": 0.2, "tau_w": 2.5}, {"tau": 0.9, "tau_w": 0.4, "negatives": 9.0}]):
        loss = SLAtK(weight=weight, denominator=denominator, positive_weight=positive_weight, **settings)
        case, threshold_R = situation(seed, rows=6, items=11)
        table = getattr(case, form)().with_threshold(threshold_R)
        ours = torch.autograd.grad(loss(table), case.vectors())
        expected_RC = closed_form(loss, case.scores().detach(), case.positive_mask(), threshold_R)
        torch.testing.assert_close(ours[0], expected_RC @ case.item_CD, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(ours[1], expected_RC.T @ case.row_RD, rtol=1e-9, atol=1e-11)


def test_weight_adds_a_push_down_at_hard_positives() -> None:
    """What sets the published form apart from the detached one: w(1 − w)/τ_w·l at the positive, and nothing else."""
    case, threshold_R = situation(5, rows=6, items=11)
    grads = []
    for weight in ("published", "detached"):
        scores = case.scores().detach().requires_grad_()
        table = case.dense().with_threshold(threshold_R)
        table.pos_P, table.cand_RC = scores[case.row_P, case.column_P], scores
        grads.append(torch.autograd.grad(SLAtK(weight=weight, denominator="all")(table), scores)[0])  # type: ignore[arg-type]
    difference, positive_RC = grads[0] - grads[1], case.positive_mask()
    assert bool((difference[~positive_RC] == 0).all())
    assert bool((difference[positive_RC] > 0).all())  # with the positive inside the sum every term is above 0


def test_a_weaker_pull_is_a_part_of_the_gradient_taken_back() -> None:
    """SL with pull c has SL's gradient plus (1 − c)/(τ·P) at each positive."""
    case, _ = situation(6, rows=6, items=11)
    positive_RC, grads = case.positive_mask(), []
    for positive_weight in (1.0, 0.8):
        scores = case.scores().detach().requires_grad_()
        table = case.dense()
        table.pos_P, table.cand_RC = scores[case.row_P, case.column_P], scores
        grads.append(torch.autograd.grad(SL(tau=0.5, positive_weight=positive_weight)(table), scores)[0])
    has_negatives = (~positive_RC).any(1, keepdim=True)
    expected = (positive_RC & has_negatives).double() * 0.2 / 0.5 / int(positive_RC.sum())
    torch.testing.assert_close(grads[1] - grads[0], expected, rtol=1e-9, atol=1e-12)
