"""Hard negatives: pairwise losses of the negatives with the highest scores, or with most weight on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.parameters import Search, param
from shortlist.scores import Kernel, ScoreTable, Softplus

_LEAST_TAU = 1e-6  # if all losses are equal, their deviation is 0 and any temperature gives equal weights


@registry.register("dns")
class DNS(Loss):
    r"""Dynamic negative sampling, DNS(M, N): BPR against the M highest of N negatives.

    .. math:: L_{ui} = \frac{1}{M} \sum_{j \in \mathrm{top}_M(\hat N_u)} \ln\bigl(1 + e^{s_{uj}-s_{ui}}\bigr)

    It is a surrogate of the one-way partial AUC at a false positive rate of M/N. With M = N it is BPR, with M = 1 the
    original loss of 2013. ``n`` is N: if the number of negatives differs, as with the full catalogue, the fraction M/N
    of them is taken. Without ``n`` the M highest negatives are taken, however many there are; in a weighted sample,
    those that represent the M highest of the catalogue.

    Zhang et al., "Optimizing Top-N Collaborative Filtering via Dynamic Negative Item Sampling", SIGIR 2013; Shi et al.,
    "On the Theories Behind Hard Negative Sampling for Recommendation", WWW 2023.

    >>> loss = DNS(m=1)
    >>> loss(torch.tensor([0.0]), torch.tensor([[0.0, -5.0, -9.0]]))
    tensor(0.6931)
    """

    formula = "mean_{j among the M highest} ln(1 + exp(s_j − s_i))"
    target = "OPAUC(M/N)"
    citation = "Zhang et al., SIGIR 2013; Shi et al., WWW 2023"
    cost = "200 drawn negatives per positive; with all items, one pass over their scores and M terms per positive"
    use = "For a pairwise loss that emphasises the top; a very small M/N selects false negatives."
    collapse_hint = "a larger loss.m"
    sampled: ClassVar[int | None] = 200

    m: int = param(default=2, at_least=1, help="number M of highest negatives", search=Search(1, 20, log=True))
    n: int | None = param(
        default=None,
        at_least=1,
        help="number N of negatives that M refers to; none: those given, or all that a weighted sample represents",
    )

    def __post_init__(self) -> None:
        """Check that m does not exceed n."""
        if self.n is not None and self.n < self.m:
            raise InputError(f"DNS.n: expected at least {self.m}, which is m, received {self.n}")

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        count_R = (
            table.n_represented_R * (self.m / self.n) if self.n else torch.full_like(table.n_represented_R, self.m)
        )
        hard = table.hardest(count_R)
        n_represented_P = hard.per_positive(hard.n_represented_R.clamp(min=1e-30))  # 0/1e-30 where there is none
        return mean_over_positives(table, hard.pair_sum(Softplus()) / n_represented_P)


def _weights(loss: Tensor, x: Tensor, rho: float) -> Tensor:
    """p of the losses of each row's differences x, along the last axis; 0 where x is −∞."""
    if not x.shape[-1]:
        return loss
    present = x.clone().ne_(-torch.inf)  # as floats: products with booleans are slow
    count = present.sum(-1, keepdim=True).clamp_(min=1)
    deviation = (loss - loss.sum(-1, keepdim=True) / count).mul_(present)
    variance = deviation.square_().sum(-1, keepdim=True) / count
    tau = (variance / (2 * rho)).sqrt_().clamp_(min=_LEAST_TAU)
    weight = (loss - loss.amax(-1, keepdim=True)).div_(tau).exp_().mul_(present)
    return weight.div_(weight.sum(-1, keepdim=True).clamp_(min=1))  # at least 1: the weight of the largest


@dataclass(frozen=True)
class _Weight(Kernel):
    """p_j of each difference of a row, without gradient. Tables pass a kernel all differences of a row at once."""

    rho: float

    def value(self, x: Tensor) -> Tensor:
        return _weights(Softplus().value(x), x, self.rho)

    def slope(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


@dataclass(frozen=True)
class _WeightedSoftplus(Kernel):
    """φ(x)_j = p_j·ln(1 + e^{x_j}), with a constant first factor."""

    rho: float

    def value(self, x: Tensor) -> Tensor:
        loss = Softplus().value(x)
        return _weights(loss.detach(), x.detach(), self.rho) * loss

    def slope(self, x: Tensor) -> Tensor:
        return _weights(Softplus().value(x), x, self.rho).mul_(Softplus().slope(x))


@registry.register("softmax_v")
class SoftmaxV(Loss):
    r"""Softmax_v(ρ, N): BPR with negatives weighted by a softmax of their losses, whose temperature follows from ρ.

    .. math:: L_{ui} = \sum_{j \in N_u} \mathrm{sg}(p_j)\,\ell_j,\quad
              \ell_j = \ln\bigl(1 + e^{s_{uj}-s_{ui}}\bigr),\quad
              p_j \propto e^{\ell_j/\tau},\quad \tau = \sqrt{\mathrm{Var}_j(\ell_j) / 2\rho}

    The weights p are constant (sg: stop-gradient). They are the worst case among all weights whose divergence from
    uniform weights is at most ρ: with ρ → 0 the loss is BPR, with large ρ only the hardest negative counts. Sampling
    weights enter p; the variance is that of the table's negatives.

    Shi et al., "On the Theories Behind Hard Negative Sampling for Recommendation", WWW 2023.

    >>> loss = SoftmaxV(rho=1.0)
    >>> loss(torch.tensor([0.0]), torch.tensor([[0.0, 0.0, 0.0]]))
    tensor(0.6931)
    """

    formula = "Σ_j sg(p_j)·ℓ_j, ℓ_j = ln(1 + exp(s_j − s_i)), p = softmax(ℓ/τ), τ = √(Var_j ℓ/(2ρ))"
    target = "OPAUC, smoothed"
    citation = "Shi et al., WWW 2023"
    cost = "200 drawn negatives per positive; with all items, one expensive pass over them per positive"
    use = "For a pairwise loss that emphasises the top without a fixed number of hard negatives."
    collapse_hint = "a smaller loss.rho"
    sampled: ClassVar[int | None] = 200

    rho: float = param(default=1.0, above=0, help="radius ρ around uniform weights", search=Search(0.1, 10.0, log=True))

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        term_P = table.pair_sum(_WeightedSoftplus(self.rho))
        if table.log_weights() is not None:
            with torch.no_grad():
                total_P = table.pair_sum(_Weight(self.rho))
            term_P = term_P / total_P.clamp(min=1e-30)  # 0/1e-30 where there is none
        return mean_over_positives(table, term_P)
