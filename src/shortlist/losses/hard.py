"""Hard negatives: pairwise losses that look at the negatives with the highest scores, or mostly at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.parameters import Search, param
from shortlist.scores import Kernel, ScoreTable, Softplus

_LEAST_TAU = 1e-6  # where all losses are equal their deviation is 0, and any temperature gives equal shares


@registry.register("dns")
class DNS(Loss):
    r"""Dynamic negative sampling, DNS(M, N): BPR against the M highest of N negatives.

    .. math:: L_{ui} = \frac{1}{M} \sum_{j \in \mathrm{top}_M(\hat N_u)} \ln\bigl(1 + e^{s_{uj}-s_{ui}}\bigr)

    It stands for the one-way partial AUC at a false positive rate of M/N. With M = N it is BPR, with M = 1 the original
    of 2013. ``n`` says of how many negatives the M are: where another number is at hand, as with the whole catalogue,
    the same share M/N of these is taken. Without it the M highest of those at hand are taken, however many they are;
    of a sample with weights, whose negatives stand for many, those that stand for the M highest of all.

    Zhang et al., "Optimizing Top-N Collaborative Filtering via Dynamic Negative Item Sampling", SIGIR 2013; Shi et al.,
    "On the Theories Behind Hard Negative Sampling for Recommendation", WWW 2023.

    >>> loss = DNS(m=1)
    >>> loss(torch.tensor([0.0]), torch.tensor([[0.0, -5.0, -9.0]]))
    tensor(0.6931)
    """

    formula = "mean_{j among the M highest} ln(1 + exp(s_j − s_i))"
    target = "OPAUC(M/N)"
    citation = "Zhang et al., SIGIR 2013; Shi et al., WWW 2023"
    cost = "200 drawn negatives a positive; exactly, one pass over the scores of all items and M terms a positive"
    use = "Where the top matters and a pairwise loss is wanted; a tiny M/N finds negatives that are none."
    collapse_hint = "a larger loss.m"
    sampled: ClassVar[int | None] = 200

    m: int = param(
        default=2, at_least=1, help="how many of the highest negatives count", search=Search(1, 20, log=True)
    )
    n: int | None = param(
        default=None,
        at_least=1,
        help="of how many negatives; none: of those at hand, or, if they have weights, of all that they stand for",
    )

    def __post_init__(self) -> None:
        """Check what only both parameters tell."""
        if self.n is not None and self.n < self.m:
            raise InputError(f"DNS.n: expected at least {self.m}, which is m, received {self.n}")

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        count_R = (
            table.n_represented_R * (self.m / self.n) if self.n else torch.full_like(table.n_represented_R, self.m)
        )
        hard = table.hardest(count_R)
        population_P = hard.per_positive(hard.n_represented_R.clamp(min=1e-30))  # 0/1e-30 where there is none
        return mean_over_positives(hard.pair_sum(Softplus()) / population_P)


def _shares(loss: Tensor, x: Tensor, rho: float) -> Tensor:
    """p of the losses of each row's differences x, along the last axis; 0 where x is −∞."""
    if not x.shape[-1]:
        return loss
    is_there = x.clone().ne_(-torch.inf)  # as numbers: products with truth values are slow
    n_there = is_there.sum(-1, keepdim=True).clamp_(min=1)
    deviation = (loss - loss.sum(-1, keepdim=True) / n_there).mul_(is_there)
    variance = deviation.square_().sum(-1, keepdim=True) / n_there
    tau = (variance / (2 * rho)).sqrt_().clamp_(min=_LEAST_TAU)
    share = (loss - loss.amax(-1, keepdim=True)).div_(tau).exp_().mul_(is_there)
    return share.div_(share.sum(-1, keepdim=True).clamp_(min=1))  # 1 at least: that of the largest


@dataclass(frozen=True)
class _Share(Kernel):
    """p_j of each of a row's differences, held constant. Tables hand a kernel all of them at once."""

    rho: float

    def value(self, x: Tensor) -> Tensor:
        return _shares(Softplus().value(x), x, self.rho)

    def slope(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


@dataclass(frozen=True)
class _SharedSoftplus(Kernel):
    """φ(x)_j = p_j·ln(1 + e^{x_j}), whose first factor is held constant."""

    rho: float

    def value(self, x: Tensor) -> Tensor:
        loss = Softplus().value(x)
        return _shares(loss.detach(), x.detach(), self.rho) * loss

    def slope(self, x: Tensor) -> Tensor:
        return _shares(Softplus().value(x), x, self.rho).mul_(Softplus().slope(x))


@registry.register("softmax_v")
class SoftmaxV(Loss):
    r"""Softmax_v(ρ, N): BPR whose negatives count by a softmax of their own losses, at a temperature that they set.

    .. math:: L_{ui} = \sum_{j \in N_u} \mathrm{sg}(p_j)\,\ell_j,\quad
              \ell_j = \ln\bigl(1 + e^{s_{uj}-s_{ui}}\bigr),\quad
              p_j \propto e^{\ell_j/\tau},\quad \tau = \sqrt{\mathrm{Var}_j(\ell_j) / 2\rho}

    The shares p are held constant (sg). They are the worst that lie within ρ of equal shares, by their divergence: with
    ρ → 0 the loss is BPR, with large ρ the hardest negative counts alone. Weights of a sample enter p; the variance is
    that of the negatives at hand.

    Shi et al., "On the Theories Behind Hard Negative Sampling for Recommendation", WWW 2023.

    >>> loss = SoftmaxV(rho=1.0)
    >>> loss(torch.tensor([0.0]), torch.tensor([[0.0, 0.0, 0.0]]))
    tensor(0.6931)
    """

    formula = "Σ_j sg(p_j)·ℓ_j, ℓ_j = ln(1 + exp(s_j − s_i)), p = softmax(ℓ/τ), τ = √(Var_j ℓ/(2ρ))"
    target = "OPAUC, softly"
    citation = "Shi et al., WWW 2023"
    cost = "200 drawn negatives a positive; exactly, a pass over all items for each positive, and dear ones"
    use = "Where the top matters and no number of hard negatives is to be chosen."
    collapse_hint = "a smaller loss.rho"
    sampled: ClassVar[int | None] = 200

    rho: float = param(
        default=1.0, above=0, help="radius ρ: how far shares may be from equal", search=Search(0.1, 10.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        term_P = table.pair_sum(_SharedSoftplus(self.rho))
        if table.log_weights() is not None:
            with torch.no_grad():
                total_P = table.pair_sum(_Share(self.rho))
            term_P = term_P / total_P.clamp(min=1e-30)  # 0/1e-30 where there is none
        return mean_over_positives(term_P)
