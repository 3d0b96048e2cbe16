"""Sums over pairs of a positive and a candidate from a few moments of the row, without a look at the pairs.

Where scores are bounded, |s| ≤ b, a smooth kernel of a difference is a short sum of products, for x and y up to b:

    φ(x − y) = e^{λ(x − y)} · Σ_m c_m(y)·T_m(x/b)

T are Chebyshev polynomials, and c(y) the coefficients of what the tilt λ leaves of the kernel, seen as a function of x.
(They are kept with the signs + + − −, by which T_{m+1} = T_{m−1} ± 2x·T_m: one operation in place.) The candidates of a
row enter by M numbers, which serve all of its positives:

    μ_m = Σ_j ω_j·e^{λs_j}·T_m(s_j/b)        Σ_j ω_j·φ(s_j − s_p) = e^{−λs_p} · H_p,   H_p = Σ_m c_m(s_p)·μ_m

A pass for each term takes the place of one for each positive; a term is a multiplication where a pair is an exponential
and a logarithm. The gradient has the same form: with c′ the coefficients of φ′,

    ∂/∂s_j Σ_p a_p·H_p·e^{−λs_p} = ω_j·e^{λs_j} · Σ_m T_m(s_j/b) · Σ_p a_p·e^{−λs_p}·c′_m(s_p)

is a polynomial of s_j whose coefficients are sums over the positives of the row.

There are as many terms as single precision can tell apart. What is left out, and what rounding leaves, is small beside
the largest value that the kernel could have had; where the sum of a positive is far below that, the table looks at the
pairs.
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
_LEFT_OUT = 1e-7  # what the terms that are left out may add up to, beside the kernel's largest value
_LEAST_SHARE = 1e-3  # of the largest value it could have, below which a sum is not to be trusted


@dataclass(frozen=True)
class Expansion:
    """A kernel, given as it is or by its logarithm; the bound of scores; and how many terms it needs there."""

    kernel: Kernel
    by_logarithm: bool
    bound: float
    tilt: float
    terms: int

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, kernel: Kernel, bound: float, by_logarithm: bool = False) -> Expansion | None:
        """The expansion of a kernel; none where it has no tilt, is too steep for single floats or needs many terms.

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
        """c of each offset y, or c′, by interpolation at Chebyshev's nodes."""
        order_M = torch.arange(self.terms, dtype=torch.float64)
        angle_M = (order_M + 0.5) * (math.pi / self.terms)
        difference_PM = (self.bound * angle_M.cos()).to(offset_P) - offset_P.unsqueeze(1)
        value_PM = self._slope(difference_PM) if slope else self._value(difference_PM)
        cosine_MM = torch.outer(order_M, angle_M).cos_().mul_(2 / self.terms)
        cosine_MM[0] /= 2
        cosine_MM[order_M % 4 >= 2] *= -1
        return value_PM @ cosine_MM.T.to(offset_P)

    def largest(self, offset_P: Tensor) -> Tensor:
        """The largest value of what the coefficients of an offset stand for, on a grid."""
        place_G = torch.linspace(-self.bound, self.bound, 65).to(offset_P)
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
            table.mask_hits(score_BC, rows)
            for moment_NM, score_NC in _in_cache(moment_RM[rows], score_BC):
                double_NC, term_NC = self._place_and_weight(score_NC, table.log_weight_C)
                torch.sum(term_NC, 1, out=moment_NM[:, 0])
                next_NC = torch.mul(double_NC, term_NC).mul_(0.5)
                torch.sum(next_NC, 1, out=moment_NM[:, 1])
                for m in range(1, self.terms - 1):
                    term_NC, next_NC = next_NC, term_NC.addcmul_(double_NC, next_NC, value=_sign(m))
                    torch.sum(next_NC, 1, out=moment_NM[:, m + 1])
        return moment_RM

    def spread(self, table: FactoredTable, coefficient_RM: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of ``ω_j·e^{λs_j}·Σ_m a_rm·T_m(s_j/b)``, in place of the scores; 0 at the row's positives."""
        for rows, score_BC in table.score_blocks():
            table.mask_hits(score_BC, rows)
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
    """The sign of 2x·T_m where T_{m+1} is made from it."""
    return -1 if m % 2 else 1


def _in_cache(value_BM: Tensor, score_BC: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """A few rows at a time."""
    step = max(1, IN_CACHE // max(1, score_BC.shape[1]))
    return zip(value_BM.split(step), score_BC.split(step), strict=True)


class Answer:
    """What the moments of the rows say about each positive: H, and whether it can be trusted."""

    def __init__(self, expansion: Expansion, table: FactoredTable, pos_P: Tensor) -> None:
        self.expansion = expansion
        self.moment_RM = expansion.moments(table)
        moment_PM = self.moment_RM.index_select(0, table.row_P)
        self.sum_P = (expansion.coefficients(pos_P) * moment_PM).sum(1)
        largest_P = expansion.largest(pos_P) * moment_PM[:, 0]
        self.holds = bool((self.sum_P >= _LEAST_SHARE * largest_P).all())


class MomentSum(torch.autograd.Function):
    """``Σ_j ω_j·φ(s_rj − s_p)`` over the negatives of each positive's row, from the moments of the row.

    The logarithm of it where the kernel is given by its own.
    """

    @staticmethod
    def forward(
        ctx: Any,
        row_RD: Tensor,
        cand_CD: Tensor,
        bias_C: Tensor | None,
        pos_P: Tensor,
        table: FactoredTable,
        answer: Answer,
    ) -> Tensor:
        """The sum of each positive."""
        ctx.table, ctx.answer = table, answer
        ctx.save_for_backward(row_RD, cand_CD, bias_C, pos_P)
        if answer.expansion.by_logarithm:
            return answer.sum_P.log().sub_(pos_P, alpha=answer.expansion.tilt)
        return answer.sum_P * (pos_P * -answer.expansion.tilt).exp_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_P: Tensor) -> tuple[Tensor | None, ...]:
        """A polynomial of the scores for each row."""
        row_RD, cand_CD, bias_C, pos_P = ctx.saved_tensors
        table: FactoredTable = ctx.table
        answer: Answer = ctx.answer
        expansion = answer.expansion
        if expansion.by_logarithm:
            weight_P = torch.where(answer.sum_P > 0, grad_P / answer.sum_P, 0)
        else:
            weight_P = grad_P * (pos_P * -expansion.tilt).exp_()
        slope_PM = expansion.coefficients(pos_P, slope=True).mul_(weight_P.unsqueeze(1))
        grad_pos_P = -(slope_PM * answer.moment_RM.index_select(0, table.row_P)).sum(1)
        coefficient_RM = torch.zeros_like(answer.moment_RM).index_add_(0, table.row_P, slope_PM)
        grads = Gradients(row_RD, cand_CD, bias_C)
        for rows, grad_BC in expansion.spread(table, coefficient_RM):
            grads.add(rows, grad_BC)
        return grads.row_RD, grads.cand_CD, grads.bias_C, grad_pos_P, None, None
