"""The score table of a factored model: rows and candidates as vectors, scores as blocks of matrix products.

One buffer of rows × candidates serves the whole step. For the log-sum-exp family it goes: product in, exponential in
place, row sums, and two products out:

    S = X·Yᵀ,  E_rj = exp(S_rj/τ),  Z_r = Σ_j E_rj,  ℓ_r = ln Z_r
    ∂L/∂X = diag(c)·E·Y,  ∂L/∂Y = Eᵀ·diag(c)·X,  c_r = (∂L/∂ℓ_r)/(τ·Z_r)

The factor c scales the small matrices, never the large one, so that nothing but the exponential and the sum is spent
on the buffer besides the three products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from shortlist.errors import ShortlistError
from shortlist.scores.kernels import Kernel
from shortlist.scores.selection import kth_largest, largest
from shortlist.scores.similarity import inner_products
from shortlist.scores.table import Over, ScoreTable, logsumexp_of_positives, ranks_among_positives

_LIGHTEST = 1e-30  # the least weight of a row by which its positives' gradients are divided

_SAFE_EXPONENT = 40.0
"""Largest |s/τ| whose exponentials can be summed in float32 without taking the row's maximum out first."""


class Workspace:
    """One buffer, kept from step to step: allocating it anew would cost more than the arithmetic that it serves.

    ``stamp`` changes whenever the buffer is handed out, by which a table knows whether what it left there is still
    there.
    """

    def __init__(self, max_elements: int = 1 << 26) -> None:
        self.max_elements = max_elements
        self.stamp = 0
        self._flat = torch.empty(0)

    def matrix(self, rows: int, columns: int, like: Tensor) -> Tensor:
        """A matrix of the given shape whose content is left over from the last use."""
        self.stamp += 1
        if self._flat.numel() < rows * columns or self._flat.dtype != like.dtype or self._flat.device != like.device:
            self._flat = torch.empty(rows * columns, dtype=like.dtype, device=like.device)
        return self._flat[: rows * columns].view(rows, columns)


class FactoredTable(ScoreTable):
    """Answers from vectors whose inner products are the scores.

    ``row_RD`` and ``candidate_CD`` are those vectors, ``bias_C`` is added to every row. ``column_P`` is the column of
    each positive among the candidates, or −1. Where some are not there, ``positive_PD`` (and ``positive_bias_P``) give
    the positives' own vectors. ``bound`` is the largest absolute score, if there is one.

    >>> x, y = torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> table = FactoredTable(x, y, row_P=torch.tensor([0, 1]), column_P=torch.tensor([0, 2]))
    >>> table.positives(), table.ranks()
    (tensor([1.0000, 0.5000]), tensor([1, 2]))
    """

    def __init__(
        self,
        row_RD: Tensor,
        candidate_CD: Tensor,
        *,
        row_P: Tensor,
        column_P: Tensor,
        positive_PD: Tensor | None = None,
        bias_C: Tensor | None = None,
        positive_bias_P: Tensor | None = None,
        log_weight_C: Tensor | None = None,
        population_R: Tensor | None = None,
        threshold_R: Tensor | None = None,
        bound: float | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        self.row_RD, self.candidate_CD = row_RD, candidate_CD
        self.row_P, self.column_P = row_P, column_P
        self.positive_PD, self.positive_bias_P = positive_PD, positive_bias_P
        self.bias_C, self.log_weight_C = bias_C, log_weight_C
        self.threshold_R, self.bound = threshold_R, bound
        self.workspace = workspace or Workspace()
        among_P = column_P >= 0
        self.complete = positive_PD is None
        if self.complete and not bool(among_P.all()):
            raise ShortlistError("FactoredTable: expected the vectors of positives that are not candidates")
        self.hit_row, self.hit_column = (row_P, column_P) if self.complete else (row_P[among_P], column_P[among_P])
        if population_R is None:
            population_R = row_RD.new_full((len(row_RD),), float(len(candidate_CD)))
            population_R -= torch.bincount(self.hit_row, minlength=len(row_RD))
        self.population_R = population_R
        self._kept_positives: Tensor | None = None
        self._scores_in_hand = -1  # the stamp under which plain scores of all rows stand untouched in the buffer

    def positives(self) -> Tensor:
        """An inner product for each positive, computed once."""
        if not torch.is_grad_enabled():
            return self._positives()
        if self._kept_positives is None:
            self._kept_positives = self._positives()
        return self._kept_positives

    def _positives(self) -> Tensor:
        items_PD = (
            self.positive_PD if self.positive_PD is not None else self.candidate_CD.index_select(0, self.column_P)
        )
        pos_P: Tensor = torch.linalg.vecdot(self.row_RD.index_select(0, self.row_P), items_PD)
        bias_P = self.positive_bias_P
        if bias_P is None and self.bias_C is not None:
            bias_P = self.bias_C.index_select(0, self.column_P)
        return pos_P if bias_P is None else pos_P + bias_P

    def logsumexp(self, tau: float, over: Over = "all") -> Tensor:
        """By products in the kept buffer; the backward pass finds the exponentials still there."""
        with_hits = over == "all" and self.complete and self.log_weight_C is None
        vectors = self.row_RD, self.candidate_CD, self.bias_C
        sum_R: Tensor
        sum_R, pos_P = _apply(_LogSumExp, *vectors, self, 1.0 / tau, with_hits)
        if self.complete and self._kept_positives is None and torch.is_grad_enabled():
            self._kept_positives = pos_P
        if over == "negatives" or with_hits:
            return sum_R
        return torch.logaddexp(sum_R, logsumexp_of_positives(self.positives() / tau, self.row_P, self.n_rows))

    def row_sum(self, kernel: Kernel) -> Tensor:
        """Summed block by block; the backward pass computes the products again."""
        sum_R: Tensor = _apply(_RowSum, self.row_RD, self.candidate_CD, self.bias_C, self, kernel)
        return sum_R

    def pair_sum(self, kernel: Kernel) -> Tensor:
        """Summed over blocks of positives; the backward pass computes the products again."""
        sum_P: Tensor = _apply(_PairSum, self.row_RD, self.candidate_CD, self.bias_C, self.positives(), self, kernel)
        return sum_P

    @torch.no_grad()
    def ranks(self) -> Tensor:
        """Counted block by block."""
        pos_P, rank_P = self.positives().detach(), torch.zeros_like(self.row_P)
        for rows, score_BC in self.score_blocks():
            in_block_P = self._positives_of(rows)
            if self.complete:  # the product's own value, so that a tie is a tie to the last bit
                pos_P[in_block_P] = score_BC[self.row_P[in_block_P] - rows.start, self.column_P[in_block_P]]
            self._mask_hits(score_BC, rows)
            for part_P in self._parts(in_block_P):
                above = score_BC[self.row_P[part_P] - rows.start] >= pos_P[part_P].unsqueeze(1)
                rank_P[part_P] = above.sum(1)
        return rank_P + ranks_among_positives(pos_P, self.row_P)

    @torch.no_grad()
    def kth_largest(self, k: int) -> Tensor:
        """By a two-step selection on the row in hand."""
        result_R = self.row_RD.new_empty(self.n_rows)
        for rows, score_BC in self.score_blocks():
            if self.complete and k <= score_BC.shape[1]:
                result_R[rows] = largest(score_BC, k)[:, -1]
                if len(score_BC) == self.n_rows:
                    self._scores_in_hand = self.workspace.stamp
            else:
                self._mask_hits(score_BC, rows)
                mine_P = self._positives_of(rows)
                result_R[rows] = kth_largest(score_BC, self.positives()[mine_P], self.row_P[mine_P] - rows.start, k)
        return result_R

    def matrix(self) -> Tensor:
        """A new tensor with every score, for losses that cannot do without."""
        return inner_products(self.row_RD, self.candidate_CD, self.bias_C)

    def is_positive(self) -> Tensor:
        """A new mask, true at the positives."""
        mask_RC = self.row_RD.new_zeros((self.n_rows, len(self.candidate_CD)), dtype=torch.bool)
        mask_RC[self.hit_row, self.hit_column] = True
        return mask_RC

    @torch.no_grad()
    def restricted(self, column_N: Tensor) -> FactoredTable:
        """The same rows and positives against some of the candidates only; detached."""
        place_C = torch.full((len(self.candidate_CD),), -1, dtype=torch.long)
        place_C[column_N] = torch.arange(len(column_N))
        column_P = torch.where(self.column_P >= 0, place_C[self.column_P.clamp(min=0)], -1)
        items_PD = (
            self.positive_PD if self.positive_PD is not None else self.candidate_CD.index_select(0, self.column_P)
        )
        bias_P = self.positive_bias_P
        if bias_P is None and self.bias_C is not None:
            bias_P = self.bias_C.index_select(0, self.column_P)
        return FactoredTable(
            self.row_RD.detach(),
            self.candidate_CD.detach().index_select(0, column_N),
            row_P=self.row_P,
            column_P=column_P,
            positive_PD=items_PD.detach(),
            bias_C=None if self.bias_C is None else self.bias_C.detach().index_select(0, column_N),
            positive_bias_P=None if bias_P is None else bias_P.detach(),
            bound=self.bound,
        )

    def score_blocks(self, scale: float = 1.0) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of rows with their scores times ``scale`` in the kept buffer, which the next block overwrites."""
        if self._scores_in_hand == self.workspace.stamp:
            buffer_RC = self.workspace.matrix(self.n_rows, len(self.candidate_CD), self.row_RD)
            yield slice(0, self.n_rows), buffer_RC if scale == 1.0 else buffer_RC.mul_(scale)
            return
        step = max(1, self.workspace.max_elements // max(1, len(self.candidate_CD)))
        bias_C = None if self.bias_C is None else self.bias_C.detach() * scale
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            row_BD = self.row_RD.detach()[rows]
            buffer_BC = self.workspace.matrix(len(row_BD), len(self.candidate_CD), row_BD)
            scaled_BD = row_BD if scale == 1.0 else row_BD * scale
            yield rows, inner_products(scaled_BD, self.candidate_CD.detach(), bias_C, out=buffer_BC)

    def _mask_hits(self, score_BC: Tensor, rows: slice) -> None:
        """Take the rows' own positives out of a block of candidates: every kernel and exponential is 0 at −∞."""
        row_H, column_H = self.hit_row, self.hit_column
        if len(score_BC) < self.n_rows:
            mine_H = (row_H >= rows.start) & (row_H < rows.stop)
            row_H, column_H = row_H[mine_H] - rows.start, column_H[mine_H]
        score_BC[row_H, column_H] = -torch.inf

    def _positives_of(self, rows: slice) -> Tensor:
        """The positives of a block of rows."""
        mine_P: Tensor = (self.row_P >= rows.start) & (self.row_P < rows.stop)
        return mine_P.nonzero().squeeze(1)

    def _parts(self, index_P: Tensor) -> tuple[Tensor, ...]:
        """Positives in parts whose differences with all candidates fit in a block."""
        return torch.split(index_P, max(1, self.workspace.max_elements // (4 * max(1, len(self.candidate_CD)))))


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Call a function with a hand-written backward pass."""
    return function.apply(*arguments)


class _LogSumExp(torch.autograd.Function):
    """``ℓ_r = ln Σ_j exp(s_rj/τ + ln ω_j)`` with the backward pass of the module's docstring.

    Where the positives are among the candidates, their scores are given along. Their gradients then ride in the buffer,
    at the place of the positive, through the same two products: no vector is gathered, no gradient added up apart.
    """

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        cand_CD: Tensor,
        bias_C: Tensor | None,
        table: FactoredTable,
        scale: float,
        with_hits: bool,
    ) -> tuple[Tensor, Tensor]:
        ctx.table, ctx.scale, ctx.with_hits = table, scale, with_hits
        shift_R, sum_R = row_RD.new_zeros(len(row_RD)), row_RD.new_empty(len(row_RD))
        pos_P = row_RD.new_empty(table.n_positives if table.complete else 0)
        for rows, exp_BC in _exponentials(table, scale, with_hits, shift_R, pos_P):
            torch.sum(exp_BC, 1, out=sum_R[rows])
        ctx.in_hand = table.workspace.stamp if sum_R.numel() == 0 or len(exp_BC) == len(row_RD) else -1
        ctx.save_for_backward(row_RD, cand_CD, bias_C, shift_R, sum_R)
        return sum_R.log().add_(shift_R), pos_P

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_R: Tensor, grad_P: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None, None, None]:
        row_RD, cand_CD, bias_C, shift_R, sum_R = ctx.saved_tensors
        table: FactoredTable = ctx.table
        weight_R = torch.where(sum_R > 0, grad_R / sum_R, 0).mul_(ctx.scale)
        still_R = weight_R.abs() < _LIGHTEST  # rows that pass nothing through their sum, but perhaps through positives
        weight_R[still_R] = 1
        blocks: Iterator[tuple[slice, Tensor]]
        if table.workspace.stamp == ctx.in_hand:
            buffer_RC = table.workspace.matrix(len(row_RD), len(cand_CD), row_RD)
            blocks = iter([(slice(0, len(row_RD)), buffer_RC)])
            ctx.in_hand = -1  # what follows alters the buffer
        else:
            blocks = _exponentials(table, ctx.scale, ctx.with_hits, shift_R, None)
        gradients = _Gradients(row_RD, cand_CD, bias_C)
        for rows, exp_BC in blocks:
            exp_BC[still_R[rows]] = 0
            if len(grad_P):
                mine_P = table._positives_of(rows)
                row_M, column_M = table.row_P[mine_P], table.column_P[mine_P]
                ride_M = grad_P[mine_P] / weight_R[row_M]
                exp_BC[row_M - rows.start, column_M] += ride_M  # there the exponential is, or 0 where it was masked
            gradients.add(rows, exp_BC, weight_R[rows])
        return gradients.row_RD, gradients.cand_CD, gradients.bias_C, None, None, None


def _exponentials(
    table: FactoredTable, scale: float, with_hits: bool, shift_R: Tensor, pos_P: Tensor | None
) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of ``exp(scale·s + ln ω − shift)``. The shift is the row's maximum where scores can be large, else 0.

    On the first pass ``shift_R`` and ``pos_P``, the scores of positives that are candidates, are found and filled in.
    """
    bounded = table.bound is not None and table.bound * scale <= _SAFE_EXPONENT and table.log_weight_C is None
    for rows, block_BC in table.score_blocks(scale):
        if pos_P is not None and len(pos_P):
            mine_P = table._positives_of(rows)
            pos_P[mine_P] = block_BC[table.row_P[mine_P] - rows.start, table.column_P[mine_P]].div_(scale)
        if table.log_weight_C is not None:
            block_BC += table.log_weight_C
        if not with_hits:
            table._mask_hits(block_BC, rows)
        if not bounded:
            if pos_P is not None and block_BC.shape[1]:
                top_B = block_BC.amax(1)
                shift_R[rows] = torch.where(top_B.isfinite(), top_B, 0)
            block_BC -= shift_R[rows].unsqueeze(1)
        yield rows, block_BC.exp_()


class _RowSum(torch.autograd.Function):
    """``Σ_j ω_j·φ(s_rj)`` over the negatives of each row."""

    @staticmethod
    def forward(
        ctx: Any, row_RD: Tensor, cand_CD: Tensor, bias_C: Tensor | None, table: FactoredTable, kernel: Kernel
    ) -> Tensor:
        ctx.table, ctx.kernel = table, kernel
        ctx.save_for_backward(row_RD, cand_CD, bias_C)
        sum_R = row_RD.new_empty(len(row_RD))
        for rows, score_BC in table.score_blocks():
            table._mask_hits(score_BC, rows)
            sum_R[rows] = _weighted(kernel.value(score_BC), table).sum(1)
        return sum_R

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_R: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None, None]:
        row_RD, cand_CD, bias_C = ctx.saved_tensors
        grads = _Gradients(row_RD, cand_CD, bias_C)
        for rows, score_BC in ctx.table.score_blocks():
            ctx.table._mask_hits(score_BC, rows)
            slope_BC = _weighted(ctx.kernel.slope(score_BC), ctx.table)
            grads.add(rows, slope_BC.mul_(grad_R[rows].unsqueeze(1)))
        return grads.row_RD, grads.cand_CD, grads.bias_C, None, None


class _PairSum(torch.autograd.Function):
    """``Σ_j ω_j·φ(s_rj − s_p)`` over the negatives of each positive's row."""

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        cand_CD: Tensor,
        bias_C: Tensor | None,
        pos_P: Tensor,
        table: FactoredTable,
        kernel: Kernel,
    ) -> Tensor:
        ctx.table, ctx.kernel = table, kernel
        ctx.save_for_backward(row_RD, cand_CD, bias_C, pos_P)
        sum_P = torch.zeros_like(pos_P)
        for part_P, _, difference in _differences(table, pos_P):
            sum_P[part_P] = _weighted(kernel.value(difference), table).sum(1)
        return sum_P

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_P: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor, None, None]:
        row_RD, cand_CD, bias_C, pos_P = ctx.saved_tensors
        table: FactoredTable = ctx.table
        grads, grad_pos_P = _Gradients(row_RD, cand_CD, bias_C), torch.zeros_like(pos_P)
        step = max(1, table.workspace.max_elements // max(1, len(cand_CD)))
        grad_BC = row_RD.new_zeros(min(step, len(row_RD)), len(cand_CD))
        rows = slice(0, 0)
        for part_P, block, difference in _differences(table, pos_P):
            if block != rows:
                grads.add(rows, grad_BC[: rows.stop - rows.start])
                grad_BC.zero_()
                rows = block
            slope = _weighted(ctx.kernel.slope(difference), table).mul_(grad_P[part_P].unsqueeze(1))
            grad_pos_P[part_P] = -slope.sum(1)
            grad_BC.index_add_(0, table.row_P[part_P] - rows.start, slope)
        grads.add(rows, grad_BC[: rows.stop - rows.start])
        return grads.row_RD, grads.cand_CD, grads.bias_C, grad_pos_P, None, None


def _differences(table: FactoredTable, pos_P: Tensor) -> Iterator[tuple[Tensor, slice, Tensor]]:
    """Parts of the positives, their block of rows, and their differences with all candidates; −∞ at the positives."""
    for rows, score_BC in table.score_blocks():
        table._mask_hits(score_BC, rows)
        for part_P in table._parts(table._positives_of(rows)):
            yield part_P, rows, score_BC[table.row_P[part_P] - rows.start].sub_(pos_P[part_P].unsqueeze(1))


def _weighted(value_NC: Tensor, table: FactoredTable) -> Tensor:
    """Values of candidates times their sampling weights."""
    return value_NC if table.log_weight_C is None else value_NC.mul_(table.log_weight_C.exp())


class _Gradients:
    """Gathers the gradients of vectors and bias from gradients of blocks of scores, which cover all rows once."""

    def __init__(self, row_RD: Tensor, cand_CD: Tensor, bias_C: Tensor | None) -> None:
        self._vectors = row_RD, cand_CD
        self.row_RD, self.cand_CD = torch.empty_like(row_RD), torch.empty_like(cand_CD)
        self.bias_C = None if bias_C is None else torch.zeros_like(bias_C)
        self._is_first = True
        if not len(row_RD):
            self.cand_CD.zero_()

    def add(self, rows: slice, grad_BC: Tensor, weight_B: Tensor | None = None) -> None:
        """Carry the gradient of a block of scores, a row's times its weight, back to the vectors.

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
