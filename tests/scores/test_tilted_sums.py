"""Log-sum-exps of scores on which an inner product of other vectors is laid."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from scores.tables import Case, Oracle, random_case
from shortlist.scores import DenseTable

SHAPES: list[dict[str, Any]] = [
    {"rows": 5, "items": 9},
    {"rows": 7, "items": 40, "bias": True, "weights": True, "max_elements": 80},
    {"rows": 3, "items": 1},
]


def tilt(case: Case, seed: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    sizes = len(case.row_RD), len(case.item_CD)
    left, right = (torch.randn(size, 2, generator=g, dtype=torch.float64).requires_grad_() for size in sizes)
    return left, right


def by_loops(case: Case, tau: float, left_RE: Tensor, right_CE: Tensor) -> list[float]:
    oracle, tilt_RC, answer = Oracle(case), (left_RE @ right_CE.T).tolist(), []
    for row in range(len(case.row_RD)):
        total = sum(
            oracle.weight[j] * math.exp(oracle.score[row][j] / tau + tilt_RC[row][j]) for j in oracle.negatives(row)
        )
        answer.append(math.log(total) if total else -math.inf)
    return answer


@pytest.mark.parametrize("form", ["dense", "factored", "factored_apart"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tau", [0.4, math.inf])
def test_agrees_with_loops(form: str, shape: dict[str, Any], tau: float) -> None:
    for seed in range(3):
        case = random_case(seed, **shape)
        left, right = tilt(case, seed)
        answer = getattr(case, form)().tilted_logsumexp(tau, left, right)
        expected = torch.tensor(by_loops(case, tau, left, right), dtype=torch.float64)
        torch.testing.assert_close(answer.detach(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", ["factored", "factored_apart"])
@pytest.mark.parametrize("tau", [0.4, math.inf])
def test_gradients_agree_with_dense_ones(form: str, tau: float) -> None:
    """And the table's other answers are not disturbed, though they share its buffer."""
    case = random_case(3, rows=6, items=20, bias=True, weights=True)
    left, right = tilt(case, 0)
    leaves = [left, right, *(case.vectors() if math.isfinite(tau) else [])]
    grads = []
    for table in (case.dense(), getattr(case, form)()):
        plain_R = table.logsumexp(0.7, "all")
        answer_R = table.tilted_logsumexp(tau, left, right)
        there = answer_R.isfinite()
        total = (answer_R[there] * torch.arange(1.0, 7.0)[there]).sum() + plain_R.square().sum()
        grads.append(torch.autograd.grad(total, leaves))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_candidates_of_each_row_have_vectors_of_their_own() -> None:
    g = torch.Generator().manual_seed(0)
    pos, neg = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((4,), (4, 5)))
    item_RC, right_IE = torch.randint(9, (4, 5), generator=g), torch.randn(9, 3, generator=g, dtype=torch.float64)
    left_RE = torch.randn(4, 3, generator=g, dtype=torch.float64)
    table = DenseTable.from_pairs(pos, neg)
    answer = table.tilted_logsumexp(0.5, left_RE, right_IE[item_RC])
    expected = [
        math.log(
            sum(
                math.exp(float(neg[r, c]) / 0.5 + sum((left_RE[r] * right_IE[item_RC[r, c]]).tolist()))
                for c in range(5)
            )
        )
        for r in range(4)
    ]
    torch.testing.assert_close(answer, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
