"""Sums over pairs of a positive and a candidate from a few moments of the row, without enumerating the pairs.

Where scores are bounded, |s| ≤ b, a smooth kernel of a difference is a short sum of products, for x and y up to b:

    φ(x − y) = e^{λ(x − y)} · Σ_m c_m(y)·T_m(x/b)

T are Chebyshev polynomials, and c(y) the coefficients of the kernel divided by the tilt e^{λ(x − y)}, as a function of
x. (They are stored with the signs + + − −, so that T_{m+1} = T_{m−1} ± 2x·T_m is one in-place operation.) The
candidates of a row enter through M numbers, which serve all of its positives:

    μ_m = Σ_j ω_j·e^{λs_j}·T_m(s_j/b)        Σ_j ω_j·φ(s_j − s_p) = e^{−λs_p} · H_p,   H_p = Σ_m c_m(s_p)·μ_m

One pass per term replaces one pass per positive, and a term costs a multiplication where a pair costs an exponential
and a logarithm. The gradient has the same form: with c′ the coefficients of φ′,

    ∂/∂s_j Σ_p a_p·H_p·e^{−λs_p} = ω_j·e^{λs_j} · Σ_m T_m(s_j/b) · Σ_p a_p·e^{−λs_p}·c′_m(s_p)

is a polynomial of s_j whose coefficients are sums over the positives of the row.

The number of terms is as large as single precision can resolve. Truncation and rounding errors are small relative to
the largest value that the kernel can have. Where the sum of a positive is far below that, the table enumerates the
pairs instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from shortlist.scores.gemm_autograd import IN_CACHE, SAFE_EXPONENT, Gradients
from shortlist.scores.kernels import Kernel

if TYPE_CHECKING:
    from shortlist.scores.factored import FactoredTable

_MOST_TERMS = 64
_LEFT_OUT = 1e-7  # bound of the truncated terms' sum, relative to the kernel's largest value
_LEAST_SHARE = 1e-3  # a sum below this fraction of its largest possible value is not accurate


@dataclass(frozen=True)
class Expansion:
    """A kernel, given directly or by its logarithm; the bound of scores; and the number of terms it needs there."""

    kernel: Kernel
    by_logarithm: bool
    bound: float
    tilt: float
    terms: int

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, kernel: Kernel, bound: float, by_logarithm: bool = False) -> Expansion | None:
        """The expansion of a kernel; None if it has no tilt, is too steep for float32 or needs too many terms.

        >>> from shortlist.scores import Sigmoid
        >>> [Expansion.of(Sigmoid(), bound).terms for bound in (1.0, 3.0, 10.0)]
        [10, 19, 55]
        """
        tilt = kernel.tilt
        if tilt is None or tilt * bound > SAFE_EXPONENT:
            return None
        full = cls(kernel, by_logarithm, bound, tilt, 3 * _MOST_TERMS)
        offset_Y = torch.linspace(-bound, bound, 65, dtype=torch.float64)
        left_YM = full.coefficients(offset_Y).abs().flip(1).cumsum(1).flip(1) / full.largest(offset_Y).unsqueeze(1)
        enough_M = left_YM.amax(0) <= _LEFT_OUT
        terms = max(2, int(enough_M.int().argmax()))
        return replace(full, terms=terms) if enough_M.any() and terms <= _MOST_TERMS else None

    def coefficients(self, offset_P: Tensor, *, slope: bool = False) -> Tensor:
        """c of each offset y, or c′, by interpolation at the Chebyshev nodes.

        The nodes are few, and made in double precision on the CPU: not every device has that.
        """
        order_M = torch.arange(self.terms, dtype=torch.float64)
        angle_M = (order_M + 0.5) * (math.pi / self.terms)
        difference_PM = (self.bound * angle_M.cos()).to(offset_P) - offset_P.unsqueeze(1)
        value_PM = self._slope(difference_PM) if slope else self._value(difference_PM)
        cosine_MM = torch.outer(order_M, angle_M).cos_().mul_(2 / self.terms)
        cosine_MM[0] /= 2
        cosine_MM[order_M % 4 >= 2] *= -1
        return value_PM @ cosine_MM.T.to(offset_P)

    def largest(self, offset_P: Tensor) -> Tensor:
        """The largest value of φ(x − y)·e^{−λ(x − y)} for each offset y, over a grid of x."""
        place_G = torch.linspace(-self.bound, self.bound, 65, device=offset_P.device).to(offset_P.dtype)
        return self._value(place_G - offset_P.unsqueeze(1)).amax(1)

    def _value(self, difference: Tensor) -> Tensor:
        """φ(d)·e^{−λd}."""
        value = self.kernel.value(difference)
        if self.by_logarithm:
            return value.sub_(difference, alpha=self.tilt).exp_()
        return value.mul_((difference * -self.tilt).exp_())

    def _slope(self, difference: Tensor) -> Tensor:
        """φ′(d)·e^{−λd}."""
        factor = self._value(difference) if self.by_logarithm else (difference * -self.tilt).exp_()
        return factor.mul_(self.kernel.slope(difference))

    def moments(self, table: FactoredTable) -> Tensor:
        """μ of each row, R × M."""
        moment_RM = table.row_RD.new_empty(table.n_rows, self.terms)
        for rows, score_BC in table.score_blocks():
            table.mask_positives(score_BC, rows)
            for moment_NM, score_NC in _in_cache(moment_RM[rows], score_BC):
                double_NC, term_NC = self._place_and_weight(score_NC, table.log_weight_C)
                torch.sum(term_NC, 1, out=moment_NM[:, 0])
                next_NC = torch.mul(double_NC, term_NC).mul_(0.5)
                torch.sum(next_NC, 1, out=moment_NM[:, 1])
                for m in range(1, self.terms - 1):
                    term_NC, next_NC = next_NC, term_NC.addcmul_(double_NC, next_NC, value=_sign(m))
                    torch.sum(next_NC, 1, out=moment_NM[:, m + 1])
        return moment_RM

    def evaluate(self, table: FactoredTable, coefficient_RM: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of ``ω_j·e^{λs_j}·Σ_m a_rm·T_m(s_j/b)``, written over the scores; 0 at the row's positives."""
        for rows, score_BC in table.score_blocks():
            table.mask_positives(score_BC, rows)
            for coefficient_NM, score_NC in _in_cache(coefficient_RM[rows], score_BC):
                double_NC, weight_NC = self._place_and_weight(score_NC, table.log_weight_C)
                of_term = coefficient_NM.unsqueeze(1).unbind(2)
                above_NC, total_NC = torch.zeros_like(double_NC), of_term[-1].expand_as(double_NC).contiguous()
                for m in range(self.terms - 2, 0, -1):  # Clenshaw's scheme
                    above_NC.addcmul_(double_NC, total_NC, value=_sign(m)).add_(of_term[m])
                    above_NC, total_NC = total_NC, above_NC
                above_NC.addcmul_(double_NC, total_NC, value=0.5).add_(of_term[0])
                torch.mul(above_NC, weight_NC, out=score_NC)
            yield rows, score_BC

    def _place_and_weight(self, score_NC: Tensor, log_weight_C: Tensor | None) -> tuple[Tensor, Tensor]:
        """2·s/b, finite at the row's positives too, and ω·e^{λs}, which is 0 there."""
        exponent_NC = score_NC * self.tilt
        if log_weight_C is not None:
            exponent_NC += log_weight_C
        return score_NC.clamp(min=-self.bound).mul_(2 / self.bound), exponent_NC.exp_()


def _sign(m: int) -> int:
    """The sign of 2x·T_m in the recurrence for T_{m+1}."""
    return -1 if m % 2 else 1


def _in_cache(value_BM: Tensor, score_BC: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """A few rows at a time."""
    step = max(1, IN_CACHE // max(1, score_BC.shape[1]))
    return zip(value_BM.split(step), score_BC.split(step), strict=True)


class RowMoments:
    """H of each positive from the moments of the rows, and whether it is accurate."""

    def __init__(self, expansion: Expansion, table: FactoredTable, pos_P: Tensor) -> None:
        self.expansion = expansion
        self.moment_RM = expansion.moments(table)
        moment_PM = self.moment_RM.index_select(0, table.row_P)
        self.sum_P = (expansion.coefficients(pos_P) * moment_PM).sum(1)
        largest_P = expansion.largest(pos_P) * moment_PM[:, 0]
        self.is_accurate = bool((self.sum_P >= _LEAST_SHARE * largest_P).all())


class MomentSum(torch.autograd.Function):
    """``Σ_j ω_j·φ(s_rj − s_p)`` over the negatives of each positive's row, from the moments of the row.

    The logarithm of the sum where the kernel is given by its logarithm.
    """

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        cand_CD: Tensor,
        bias_C: Tensor | None,
        pos_P: Tensor,
        table: FactoredTable,
        moments: RowMoments,
    ) -> Tensor:
        """The sum of each positive."""
        ctx.table, ctx.moments = table, moments
        ctx.save_for_backward(row_RD, cand_CD, bias_C, pos_P)
        if moments.expansion.by_logarithm:
            return moments.sum_P.log().sub_(pos_P, alpha=moments.expansion.tilt)
        return moments.sum_P * (pos_P * -moments.expansion.tilt).exp_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_P: Tensor) -> tuple[Tensor | None, ...]:
        """A polynomial of the scores for each row."""
        row_RD, cand_CD, bias_C, pos_P = ctx.saved_tensors
        table: FactoredTable = ctx.table
        moments: RowMoments = ctx.moments
        expansion = moments.expansion
        if expansion.by_logarithm:
            weight_P = torch.where(moments.sum_P > 0, grad_P / moments.sum_P, 0)
        else:
            weight_P = grad_P * (pos_P * -expansion.tilt).exp_()
        slope_PM = expansion.coefficients(pos_P, slope=True).mul_(weight_P.unsqueeze(1))
        grad_pos_P = -(slope_PM * moments.moment_RM.index_select(0, table.row_P)).sum(1)
        coefficient_RM = torch.zeros_like(moments.moment_RM).index_add_(0, table.row_P, slope_PM)
        grads = Gradients(row_RD, cand_CD, bias_C)
        for rows, grad_BC in expansion.evaluate(table, coefficient_RM):
            grads.add(rows, grad_BC)
        return grads.row_RD, grads.cand_CD, grads.bias_C, grad_pos_P, None, None
