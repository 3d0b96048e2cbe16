"""Sums over pairs of positives of the same row. Losses of graded labels compare them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from shortlist.scores.gemm_autograd import apply
from shortlist.scores.kernels import Kernel
from shortlist.scores.table import ScoreTable

PairWeight = Callable[[Tensor, Tensor], Tensor]
"""Weights of pairs [Q], from the positions of their first and second positives among the table's positives [Q]."""

_MOST_PAIRS = 1 << 20  # pairs per part


def positive_pair_sum(table: ScoreTable, kernel: Kernel, weight: PairWeight | None = None) -> Tensor:
    """``Σ_j Δ_ij·φ(s_j − s_i)`` of each positive i, over the other positives j of its row; Δ is constant.

    >>> from shortlist.scores import DenseTable, Hinge
    >>> table = DenseTable(torch.tensor([2.0, 0.0, 5.0]), torch.tensor([0, 0, 1]), torch.zeros(2, 1))
    >>> positive_pair_sum(table, Hinge(1.0))
    tensor([0., 3., 0.])
    """
    sum_P: Tensor = apply(_PositivePairSum, table.positives(), table.row_P, table.n_rows, kernel, weight)
    return sum_P


def positive_pairs(row_P: Tensor, n_rows: int, most: int = _MOST_PAIRS) -> Iterator[tuple[Tensor, Tensor]]:
    """All ordered pairs of different positives of the same row, in parts of about ``most`` pairs.

    >>> [(i.tolist(), j.tolist()) for i, j in positive_pairs(torch.tensor([1, 0, 1]), 2)]
    [([0, 2], [2, 0])]
    """
    order_S = torch.argsort(row_P, stable=True)
    count_R = torch.bincount(row_P, minlength=n_rows)
    start_S = (count_R.cumsum(0) - count_R)[row_P[order_S]]
    count_S = count_R[row_P[order_S]]
    part_S = (count_S.cumsum(0) - 1).div_(most, rounding_mode="floor")
    for place_M in torch.split(torch.arange(len(row_P), device=row_P.device), torch.bincount(part_S).tolist()):
        count_M = count_S[place_M]
        first_Q = place_M.repeat_interleave(count_M)
        before_Q = (count_M.cumsum(0) - count_M).repeat_interleave(count_M)
        second_Q = start_S[first_Q] + torch.arange(len(first_Q), device=row_P.device) - before_Q
        differ_Q = first_Q != second_Q
        yield order_S[first_Q[differ_Q]], order_S[second_Q[differ_Q]]


class _PositivePairSum(torch.autograd.Function):
    """The sum in parts. The backward pass computes the pairs again, so none of them is stored."""

    @staticmethod
    def forward(
        ctx: Any, pos_P: Tensor, row_P: Tensor, n_rows: int, kernel: Kernel, weight: PairWeight | None
    ) -> Tensor:
        """The sum of each positive."""
        ctx.row_P, ctx.n_rows, ctx.kernel, ctx.weight = row_P, n_rows, kernel, weight
        ctx.save_for_backward(pos_P)
        sum_P = torch.zeros_like(pos_P)
        for first_Q, second_Q in positive_pairs(row_P, n_rows):
            value_Q = kernel.value(pos_P[second_Q] - pos_P[first_Q])
            sum_P.index_add_(0, first_Q, value_Q if weight is None else value_Q * weight(first_Q, second_Q))
        return sum_P

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_P: Tensor) -> tuple[Tensor | None, ...]:
        """The slope of a pair, added to the one positive and subtracted from the other."""
        (pos_P,) = ctx.saved_tensors
        grad_pos_P = torch.zeros_like(pos_P)
        for first_Q, second_Q in positive_pairs(ctx.row_P, ctx.n_rows):
            slope_Q = ctx.kernel.slope(pos_P[second_Q] - pos_P[first_Q]) * grad_P[first_Q]
            if ctx.weight is not None:
                slope_Q = slope_Q * ctx.weight(first_Q, second_Q)
            grad_pos_P.index_add_(0, second_Q, slope_Q).index_add_(0, first_Q, slope_Q, alpha=-1)
        return grad_pos_P, None, None, None, None
