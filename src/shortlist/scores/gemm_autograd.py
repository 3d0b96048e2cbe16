"""Operations of the factored table as blocks of matrix products, each with a hand-written backward pass.

One buffer of rows × candidates serves the complete step. The log-sum-exp family writes a product into it, exponentiates
in place, sums the rows, and computes two products from it:

    S = X·Yᵀ,  E_rj = exp(S_rj/τ),  Z_r = Σ_j E_rj,  ℓ_r = ln Z_r
    ∂L/∂X = diag(c)·E·Y,  ∂L/∂Y = Eᵀ·diag(c)·X,  c_r = (∂L/∂ℓ_r)/(τ·Z_r)

The factor c scales the small matrices, never the large one. Besides the three products, the buffer is passed over for
the exponential and the sum only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from shortlist.scores.column_topk import ranks
from shortlist.scores.kernels import Kernel
from shortlist.scores.table import RankWeight

if TYPE_CHECKING:
    from shortlist.scores.factored import FactoredTable

_LIGHTEST = 1e-30  # lower bound of the row weight that positives' gradients are divided by

_SPARSE = 32  # gathering beats a full product if at most one candidate in so many is selected

IN_CACHE = 1 << 19  # elements that fit in the caches of two cores between operations

SAFE_EXPONENT = 40.0
"""Largest |s/τ| whose exponentials can be summed in float32 without subtracting the row's maximum first."""


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Call a function with a hand-written backward pass."""
    return function.apply(*arguments)


class LogSumExp(torch.autograd.Function):
    """``ℓ_r = ln Σ_j exp(s_rj/τ + ln ω_j)`` with the backward pass of the module's docstring.

    Where the positives are among the candidates, their scores are returned too. Their gradients are then added in the
    buffer at the positive's entry and pass through the same two products: no vectors are gathered, and no separate
    gradients are accumulated.
    """

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        cand_CD: Tensor,
        bias_C: Tensor | None,
        table: FactoredTable,
        scale: float,
        with_positives: bool,
    ) -> tuple[Tensor, Tensor]:
        """The log-sum-exp of each row, and the scores of positives that are candidates."""
        ctx.table, ctx.scale, ctx.with_positives = table, scale, with_positives
        shift_R, sum_R = row_RD.new_zeros(len(row_RD)), row_RD.new_empty(len(row_RD))
        pos_P = row_RD.new_empty(table.n_positives if table.is_full_catalogue else 0)
        blocks = [len(exp_BC) for _, exp_BC in _exponentials(table, scale, with_positives, shift_R, (sum_R, pos_P))]
        ctx.stamp = table.workspace.stamp if len(blocks) <= 1 else -1
        ctx.save_for_backward(row_RD, cand_CD, bias_C, shift_R, sum_R)
        return sum_R.log().add_(shift_R), pos_P

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_R: Tensor, grad_P: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None, None, None]:
        """Two products, on exponentials that are still in the buffer or are recomputed."""
        row_RD, cand_CD, bias_C, shift_R, sum_R = ctx.saved_tensors
        table: FactoredTable = ctx.table
        weight_R = torch.where(sum_R > 0, grad_R / sum_R, 0).mul_(ctx.scale)
        # rows whose sum has gradient 0 but whose positives may have one
        still_S = (weight_R.abs() < _LIGHTEST).nonzero().squeeze(1)
        weight_R[still_S] = 1
        blocks: Iterator[tuple[slice, Tensor]]
        if table.workspace.stamp == ctx.stamp:
            buffer_RC = table.workspace.matrix(len(row_RD), len(cand_CD), row_RD)
            blocks = iter([(slice(0, len(row_RD)), buffer_RC)])
            ctx.stamp = -1  # the buffer is modified from here on
        else:
            blocks = _exponentials(table, ctx.scale, ctx.with_positives, shift_R, None)
        gradients = Gradients(row_RD, cand_CD, bias_C)
        for rows, exp_BC in blocks:
            # by index: a mask would touch the complete block
            exp_BC[still_S[(still_S >= rows.start) & (still_S < rows.stop)] - rows.start] = 0
            if len(grad_P):
                mine_P = table.positives_of(rows)
                row_M, column_M = table.row_P[mine_P], table.column_P[mine_P]
                ride_M = grad_P[mine_P] / weight_R[row_M]
                exp_BC[row_M - rows.start, column_M] += ride_M  # the entry holds the exponential, or 0 if masked
            gradients.add(rows, exp_BC, weight_R[rows])
        return gradients.row_RD, gradients.cand_CD, gradients.bias_C, None, None, None


def _exponentials(
    table: FactoredTable, scale: float, with_positives: bool, shift_R: Tensor, found: tuple[Tensor, Tensor] | None
) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of ``exp(scale·s + ln ω − shift)``. The shift is the row's maximum where scores can be large, else 0.

    The first pass fills in ``shift_R`` and ``found``: the sum of each row, and the scores of positives among the
    candidates.
    """
    bounded = table.bound is not None and table.bound * scale <= SAFE_EXPONENT and table.log_weight_C is None
    for rows, block_BC in table.score_blocks(scale):
        if found is not None and len(found[1]):
            mine_P = table.positives_of(rows)
            found[1][mine_P] = block_BC[table.row_P[mine_P] - rows.start, table.column_P[mine_P]].div_(scale)
        if table.log_weight_C is not None:
            block_BC += table.log_weight_C
        if not with_positives:
            table.mask_positives(block_BC, rows)
        if not bounded:
            if found is not None and block_BC.shape[1]:
                top_B = block_BC.amax(1)
                shift_R[rows] = torch.where(top_B.isfinite(), top_B, 0)
            block_BC -= shift_R[rows].unsqueeze(1)
        if found is None:
            block_BC.exp_()
        else:
            _exponentiate(block_BC, found[0][rows])
        yield rows, block_BC


def _exponentiate(block_BC: Tensor, sum_B: Tensor) -> None:
    """Exponentials in place and their sums, a few rows at a time so that the sum reads them from the cache."""
    step = max(1, IN_CACHE // max(1, block_BC.shape[1]))
    for part_NC, sum_N in zip(block_BC.split(step), sum_B.split(step), strict=True):
        torch.sum(part_NC.exp_(), 1, out=sum_N)


class RowSum(torch.autograd.Function):
    """``Σ_j ω_j·φ(s_rj)`` over the negatives of each row."""

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        cand_CD: Tensor,
        bias_C: Tensor | None,
        table: FactoredTable,
        kernel: Kernel,
        offset_R: Tensor | None,
        *parameters: Tensor,
    ) -> Tensor:
        """The sum of each row. The kernel's parameters are arguments so that autograd passes gradients to them."""
        ctx.table, ctx.kernel, ctx.offset_R = table, kernel, offset_R
        ctx.save_for_backward(row_RD, cand_CD, bias_C, *parameters)
        sum_R = row_RD.new_empty(len(row_RD))
        for rows, score_BC in _above_offset(table, offset_R):
            sum_R[rows] = _weighted(kernel.value(score_BC), table).sum(1)
        return sum_R

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_R: Tensor) -> tuple[Tensor | None, ...]:
        """Slopes overwrite the scores in the buffer."""
        row_RD, cand_CD, bias_C, *parameters = ctx.saved_tensors
        grads = Gradients(row_RD, cand_CD, bias_C)
        grad_parameters = [torch.zeros_like(parameter) for parameter in parameters]
        for rows, score_BC in _above_offset(ctx.table, ctx.offset_R):
            for grad, slope_BC in zip(grad_parameters, ctx.kernel.parameter_slopes(score_BC), strict=True):
                grad += torch.dot(_weighted(slope_BC, ctx.table).sum(1), grad_R[rows])
            slope_BC = _weighted(ctx.kernel.slope(score_BC), ctx.table)
            grads.add(rows, slope_BC.mul_(grad_R[rows].unsqueeze(1)))
        return grads.row_RD, grads.cand_CD, grads.bias_C, None, None, None, *grad_parameters


def _above_offset(table: FactoredTable, offset_R: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of negatives' scores minus the offset of their row."""
    for rows, score_BC in table.score_blocks():
        table.mask_positives(score_BC, rows)
        yield rows, score_BC if offset_R is None else score_BC.sub_(offset_R[rows].unsqueeze(1))


class PairSum(torch.autograd.Function):
    """``Σ_j ω_j·Δ_pj·φ(s_rj − s_p)`` over the negatives of each positive's row."""

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        cand_CD: Tensor,
        bias_C: Tensor | None,
        pos_P: Tensor,
        table: FactoredTable,
        kernel: Kernel,
        weight: RankWeight | None,
        count_R: Tensor | None,
    ) -> Tensor:
        """The sum of each positive."""
        ctx.table, ctx.kernel, ctx.weigh = table, kernel, None
        ctx.save_for_backward(row_RD, cand_CD, bias_C, pos_P)
        if weight is not None:
            ctx.weigh = _by_rank(table, pos_P, weight, count_R)
        sum_P = torch.zeros_like(pos_P)
        for part_P, _, difference in _differences(table, pos_P):
            value = _weighted(kernel.value(difference), table)
            sum_P[part_P] = (value if ctx.weigh is None else value.mul_(ctx.weigh(part_P))).sum(1)
        return sum_P

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_P: Tensor) -> tuple[Tensor | None, ...]:
        """Slopes of all differences, gathered by row."""

        def slopes(part_P: Tensor, difference: Tensor) -> Tensor:
            slope: Tensor = _weighted(ctx.kernel.slope(difference), ctx.table)
            return slope if ctx.weigh is None else slope.mul_(ctx.weigh(part_P))

        return *_pair_gradients(ctx, grad_P, slopes), None, None, None, None


class PairLogSumExp(torch.autograd.Function):
    """``ln Σ_j ω_j·exp(g(s_rj − s_p))`` over the negatives of each positive's row."""

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        cand_CD: Tensor,
        bias_C: Tensor | None,
        pos_P: Tensor,
        table: FactoredTable,
        log_kernel: Kernel,
    ) -> Tensor:
        """The logarithm of each positive's sum."""
        ctx.table, ctx.log_kernel = table, log_kernel
        sum_P = torch.zeros_like(pos_P)
        for part_P, _, difference in _differences(table, pos_P):
            sum_P[part_P] = torch.logsumexp(_log_weighted(log_kernel.value(difference), table), 1)
        ctx.save_for_backward(row_RD, cand_CD, bias_C, pos_P, sum_P)
        return sum_P

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_P: Tensor) -> tuple[Tensor | None, ...]:
        """Slopes of all differences, each weighted by its fraction of the sum, gathered by row."""
        sum_P = ctx.saved_tensors[4]
        shift_P = torch.where(sum_P.isfinite(), sum_P, 0)

        def slopes(part_P: Tensor, difference: Tensor) -> Tensor:
            log = _log_weighted(ctx.log_kernel.value(difference), ctx.table)
            share: Tensor = log.sub_(shift_P[part_P].unsqueeze(1)).exp_()
            return share.mul_(ctx.log_kernel.slope(difference))

        return *_pair_gradients(ctx, grad_P, slopes), None, None


class Hardest(torch.autograd.Function):
    """The k largest scores of each row's negatives, descending, and their columns."""

    @staticmethod
    def forward(
        ctx: Any, row_RD: Tensor, cand_CD: Tensor, bias_C: Tensor | None, table: FactoredTable, k: int
    ) -> tuple[Tensor, Tensor]:
        """Scores, −∞ where a row has fewer, and columns."""
        score_RK = row_RD.new_empty(len(row_RD), k)
        column_RK = torch.empty(len(row_RD), k, dtype=torch.long, device=row_RD.device)
        for rows, score_BC in table.score_blocks():
            table.mask_positives(score_BC, rows)
            torch.topk(score_BC, k, 1, out=(score_RK[rows], column_RK[rows]))
        ctx.table = table
        ctx.save_for_backward(row_RD, cand_CD, bias_C, column_RK)
        ctx.mark_non_differentiable(column_RK)
        return score_RK, column_RK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_RK: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Rank by rank where few were selected; otherwise scattered into a block, as in the other operations."""
        row_RD, cand_CD, bias_C, column_RK = ctx.saved_tensors
        if column_RK.shape[1] * _SPARSE > len(cand_CD):
            grads, table = Gradients(row_RD, cand_CD, bias_C), ctx.table
            for rows in table.row_blocks():
                grad_BC = table.workspace.matrix(rows.stop - rows.start, len(cand_CD), row_RD)
                grads.add(rows, grad_BC.zero_().scatter_(1, column_RK[rows], grad_RK[rows]))
            return grads.row_RD, grads.cand_CD, grads.bias_C, None, None
        grad_row_RD, grad_cand_CD = torch.zeros_like(row_RD), torch.zeros_like(cand_CD)
        for column_R, grad_R in zip(column_RK.unbind(1), grad_RK.unsqueeze(2).unbind(1), strict=True):
            grad_row_RD.addcmul_(cand_CD.index_select(0, column_R), grad_R)
            grad_cand_CD.index_add_(0, column_R, row_RD * grad_R)
        grad_bias_C = None
        if bias_C is not None:
            grad_bias_C = torch.zeros_like(bias_C).index_add_(0, column_RK.flatten(), grad_RK.flatten())
        return grad_row_RD, grad_cand_CD, grad_bias_C, None, None


def _pair_gradients(
    ctx: Any, grad_P: Tensor, slopes: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Gradients of vectors, bias and positives' scores from the slopes at every difference."""
    row_RD, cand_CD, bias_C, pos_P = ctx.saved_tensors[:4]
    table: FactoredTable = ctx.table
    grads, grad_pos_P = Gradients(row_RD, cand_CD, bias_C), torch.zeros_like(pos_P)
    step = max(1, table.workspace.max_elements // max(1, len(cand_CD)))
    grad_BC = row_RD.new_zeros(min(step, len(row_RD)), len(cand_CD))
    rows = slice(0, 0)
    for part_P, block, difference in _differences(table, pos_P):
        if block != rows:
            grads.add(rows, grad_BC[: rows.stop - rows.start])
            grad_BC.zero_()
            rows = block
        slope = slopes(part_P, difference).mul_(grad_P[part_P].unsqueeze(1))
        grad_pos_P[part_P] = -slope.sum(1)
        grad_BC.index_add_(0, table.row_P[part_P] - rows.start, slope)
    grads.add(rows, grad_BC[: rows.stop - rows.start])
    return grads.row_RD, grads.cand_CD, grads.bias_C, grad_pos_P


def _differences(table: FactoredTable, pos_P: Tensor) -> Iterator[tuple[Tensor, slice, Tensor]]:
    """Parts of the positives, their block of rows, and their differences to all candidates; −∞ at the positives."""
    for rows, score_BC in table.score_blocks():
        table.mask_positives(score_BC, rows)
        for part_P in table.parts(table.positives_of(rows)):
            yield part_P, rows, score_BC[table.row_P[part_P] - rows.start].sub_(pos_P[part_P].unsqueeze(1))


def _by_rank(
    table: FactoredTable, pos_P: Tensor, weight: RankWeight, count_R: Tensor | None
) -> Callable[[Tensor], Tensor]:
    """The weights of the pairs of some positives, from ranks that are computed once."""
    rank_RC = pos_P.new_empty(table.n_rows, len(table.candidate_CD))
    rank_P = torch.empty_like(pos_P)
    for rows, score_BC in table.score_blocks():
        mine_P = table.positives_of(rows)
        row_M, pos_M = table.row_P[mine_P] - rows.start, pos_P[mine_P]
        if table.is_full_catalogue:  # read from the product, so that ties are bit-exact
            pos_M = score_BC[row_M, table.column_P[mine_P]]
        table.mask_positives(score_BC, rows)
        count_B = None if count_R is None else count_R[rows]
        rank_RC[rows], rank_P[mine_P] = ranks(score_BC, pos_M, row_M, count_B)

    def weights(part_P: Tensor) -> Tensor:
        return weight(rank_P[part_P].unsqueeze(1), rank_RC.index_select(0, table.row_P[part_P]))

    return weights


def _weighted(value_NC: Tensor, table: FactoredTable) -> Tensor:
    """Values of candidates times their sampling weights."""
    return value_NC if table.log_weight_C is None else value_NC.mul_(table.log_weight_C.exp())


def _log_weighted(log_NC: Tensor, table: FactoredTable) -> Tensor:
    """Logarithms of values of candidates plus those of their sampling weights."""
    return log_NC if table.log_weight_C is None else log_NC.add_(table.log_weight_C)


class Gradients:
    """Accumulates the gradients of vectors and bias from gradients of blocks of scores, which cover all rows once."""

    def __init__(self, row_RD: Tensor, cand_CD: Tensor, bias_C: Tensor | None) -> None:
        self._vectors = row_RD, cand_CD
        self.row_RD, self.cand_CD = torch.empty_like(row_RD), torch.empty_like(cand_CD)
        self.bias_C = None if bias_C is None else torch.zeros_like(bias_C)
        self._is_first = True
        if not len(row_RD):
            self.cand_CD.zero_()

    def add(self, rows: slice, grad_BC: Tensor, weight_B: Tensor | None = None) -> None:
        """Propagate the gradient of a block of scores, with each row scaled by its weight, to the vectors.

        The weight scales the small matrices on either side of the product.
        """
        row_RD, cand_CD = self._vectors
        row_BD = row_RD[rows] if weight_B is None else row_RD[rows] * weight_B.unsqueeze(1)
        torch.mm(grad_BC, cand_CD, out=self.row_RD[rows])
        if weight_B is not None:
            self.row_RD[rows].mul_(weight_B.unsqueeze(1))
        if self._is_first:
            torch.mm(grad_BC.T, row_BD, out=self.cand_CD)
        else:
            self.cand_CD.addmm_(grad_BC.T, row_BD)
        self._is_first = False
        if self.bias_C is not None:
            self.bias_C += grad_BC.sum(0) if weight_B is None else grad_BC.T @ weight_B
