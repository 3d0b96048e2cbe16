"""The recall family: a smooth rank of each positive, and its contribution to Recall@N over all N."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.losses.softmax import softmax_terms
from shortlist.parameters import Search, param
from shortlist.scores import Hinge, Kernel, Over, ScoreTable, Sigmoid, Similarity, Softplus, UnitStep, positive_pair_sum
from shortlist.scores.table import logsumexp_of_positives

Phi = Literal["hinge", "sigmoid", "exponential", "softplus"]
RankEstimator = Literal["unbiased", "published"]

_STEEPEST = 60.0
"""The exponent above which an exponential continues as its tangent, so that it cannot overflow; cosines stay below."""


@dataclass(frozen=True)
class Scaled(Kernel):
    """φ(c·x)."""

    kernel: Kernel
    factor: float

    @property
    def tilt(self) -> float | None:
        """c times that of φ."""
        return None if self.kernel.tilt is None else self.factor * self.kernel.tilt

    def value(self, x: Tensor) -> Tensor:
        """φ(c·x)."""
        return self.kernel.value(x * self.factor)

    def slope(self, x: Tensor) -> Tensor:
        """c·φ′(c·x)."""
        return self.kernel.slope(x * self.factor) * self.factor


class SmoothRank(NamedTuple):
    """``R = 1 + Σ_{j≠i} φ(c·(s_j − s_i))`` of each positive, as ln R and R − 1, each accurate where it is small."""

    log_P: Tensor
    excess_P: Tensor


def smooth_rank(
    table: ScoreTable,
    phi: Phi | Literal["step"],
    scale: float,
    margin: float,
    over: Over,
    estimator: RankEstimator = "unbiased",
) -> SmoothRank:
    """The rank among negatives, or among all items.

    ``unbiased``: each sampled negative counts as |N_u|/|I′| items, the number of negatives in the catalogue divided by
    that in the sample. ``published``: the complete rank of the sample is scaled, R = (n/|I′|)·(1 + Σφ), Eq. 24 of the
    paper. The sum of exponentials is computed per row, the others per pair.
    """
    if estimator == "published" and not table.is_full_catalogue:
        n_negatives_R = table.n_negatives_R.clamp(min=1)
        sampled = _smooth_rank(table, phi, scale, margin, over, n_negatives_R / table.n_represented_R.clamp(min=1))
        factor_P = table.per_positive(table.catalogue_R() / n_negatives_R)
        return SmoothRank(sampled.log_P + factor_P.log(), factor_P * (1 + sampled.excess_P) - 1)
    return _smooth_rank(table, phi, scale, margin, over, table.sampling_scale_R())


def _smooth_rank(
    table: ScoreTable, phi: Phi | Literal["step"], scale: float, margin: float, over: Over, count_R: Tensor
) -> SmoothRank:
    """The rank with the sum over negatives multiplied by ``count_R``."""
    if phi == "exponential":
        log_P = _log_rank_of_exponentials(table, scale, over, count_R)
        return SmoothRank(log_P, _expm1(log_P))
    kernels = {"hinge": Hinge(margin), "sigmoid": Sigmoid(), "softplus": Softplus(), "step": UnitStep()}
    kernel = Scaled(kernels[phi], scale)
    excess_P = table.per_positive(count_R) * table.pair_sum(kernel)
    if over == "all":
        excess_P = excess_P + positive_pair_sum(table, kernel)
    return SmoothRank(excess_P.log1p(), excess_P)


def _log_rank_of_exponentials(table: ScoreTable, scale: float, over: Over, count_R: Tensor) -> Tensor:
    if over == "all" and bool((count_R == 1).all()):
        return softmax_terms(table, 1 / scale, "all", 1.0)
    log_R = table.logsumexp(1 / scale, "negatives") + count_R.log()
    scaled_P = table.positives() * scale
    if over == "negatives":
        return Softplus().value(table.per_positive(log_R) - scaled_P)
    log_R = torch.logaddexp(log_R, logsumexp_of_positives(scaled_P, table.row_P, table.n_rows))
    return table.per_positive(log_R) - scaled_P


def _expm1(x: Tensor) -> Tensor:
    """eˣ − 1, continued as its tangent where it would overflow."""
    tangent = (x + (1 - _STEEPEST)) * math.exp(_STEEPEST)
    return torch.where(x > _STEEPEST, tangent, x.clamp(max=_STEEPEST).expm1())


def integral(log_P: Tensor, excess_P: Tensor, alpha: float) -> Tensor:
    """``∫₁^R t^{−α} dt`` from ln R and R − 1.

    >>> integral(torch.tensor([4.0]).log(), torch.tensor([3.0]), alpha=0.5)  # 2·(√4 − 1)
    tensor([2.])
    """
    if alpha == 0:
        return excess_P
    return log_P if alpha == 1 else _expm1(log_P * (1 - alpha)) / (1 - alpha)


def mass(table: ScoreTable, alpha: float) -> Tensor:
    """``∫₁^{n+1} t^{−α} dt`` for each positive, n being the size of the catalogue."""
    size_P = table.per_positive(table.catalogue_R())
    return integral(size_P.log1p(), size_P, alpha)


@registry.register("croloss")
class CROLoss(Loss):
    r"""CROLoss: Recall@N over all N, where a larger α puts more weight on small N.

    .. math:: L_{ui} = \frac{\int_1^{R_{ui}} t^{-\alpha}\,dt}{\int_1^{n+1} t^{-\alpha}\,dt},\quad
              R_{ui} = 1 + \sum_{j \ne i} \varphi\bigl(c\,(s_{uj}-s_{ui})\bigr)

    over the user's negatives, or with ``over="all"`` over all other items of the catalogue of size n, as published. The
    paper multiplies cosines by c = 10. φ is max(0, x + m), σ(x), eˣ or ln(1 + eˣ). Special cases, each up to a factor:
    the exponential with α = 1 over all items is SL at τ = 1/c, divided by ln(n + 1); with α = 0, hinge is the triplet
    loss and softplus is BPR, both summed over negatives and divided by n.

    From a sample I′ of negatives the rank is estimated as R = 1 + (|N_u|/|I′|)·Σφ: unbiased, and 1 for a perfect rank.
    ``estimator="published"`` is the paper's Eq. 24, R = (n/|I′|)·(1 + Σφ), which is n/|I′| for a perfect rank.

    Tang et al., "CROLoss: Towards a Customizable Loss for Retrieval Models in Recommender Systems", CIKM 2022.

    >>> CROLoss(kernel="sigmoid", alpha=1.0, scale=1.0)(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(0.5000)
    """

    formula = "∫₁^R t^−α dt / ∫₁^{n+1} t^−α dt, with R = 1 + Σ_j φ(c·(s_j − s_i))"
    target = "Recall@N over all N"
    collapse_hint = "a smaller loss.scale"
    citation = "Tang et al., CIKM 2022"
    cost = "about 50 passes over a user's scores; with the hinge one per positive, with the exponential one in total"
    use = "For candidate retrieval before a ranking stage: Recall@N, with the emphasis on N set by α."
    similarity: ClassVar[Similarity] = "cosine"

    kernel: Phi = param(
        default="softplus",
        help="φ, the smooth replacement of the unit step in the rank",
        search=Search(choices=("hinge", "sigmoid", "exponential", "softplus")),
    )
    alpha: float = param(
        default=1.0, at_least=0, help="α, the emphasis on small N over large N", search=Search(0.6, 1.6)
    )
    scale: float = param(default=10.0, above=0, help="factor c on the scores", search=Search(2.0, 50.0, log=True))
    margin: float = param(default=5.0, help="margin m of the hinge, on scaled scores")
    over: Over = param(default="negatives", help="items that the rank counts: the user's negatives, or all others")
    estimator: RankEstimator = param(
        default="unbiased",
        help="ranks from a sample I′: 1 + (|N_u|/|I′|)·Σφ (unbiased), or (n/|I′|)·(1 + Σφ) (published, Eq. 24)",
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        rank = smooth_rank(table, self.kernel, self.scale, self.margin, self.over, self.estimator)
        return mean_over_positives(table, integral(*rank, self.alpha) / mass(table, self.alpha))


@registry.register("croloss_lambda")
class CROLossLambda(Loss):
    r"""CROLoss-lambda: a rank by one kernel weights each positive, and a rank by another kernel is minimised.

    .. math:: L_{ui} = \frac{R_1^{-\alpha}}{\int_1^{n+1} t^{-\alpha}\,dt}\,(R_2 - 1),\quad
              R_k = 1 + \sum_{j \ne i} \varphi_k\bigl(c\,(s_{uj}-s_{ui})\bigr)

    with constant R₁. φ₁ may be the unit step, and then R₁ is the exact rank. (The publication has R₂ in place of
    R₂ − 1, with the same gradient.) With φ₁ = φ₂ the gradient is that of
    :class:`~shortlist.losses.recall.CROLoss`, which explains the other parameters.

    Tang et al., "CROLoss: Towards a Customizable Loss for Retrieval Models in Recommender Systems", CIKM 2022.

    >>> CROLossLambda(phi1="step", phi2="sigmoid", scale=1.0)(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(0.2404)
    """

    formula = "R₁^−α/∫₁^{n+1} t^−α dt · (R₂ − 1), with R_k = 1 + Σ_j φ_k(c·(s_j − s_i)) and R₁ constant"
    target = "Recall@N over all N"
    collapse_hint = "a smaller loss.scale"
    citation = "Tang et al., CIKM 2022"
    cost = "about 100 passes over a user's scores for any number of positives; with a step or hinges one per positive"
    use = "As CROLoss, where exact ranks should weight the positives."
    similarity: ClassVar[Similarity] = "cosine"

    phi1: Literal["step", "hinge", "sigmoid", "exponential", "softplus"] = param(
        default="sigmoid",
        help="φ₁, the kernel of the rank that weights positives",
        search=Search(choices=("step", "hinge", "sigmoid", "exponential", "softplus")),
    )
    phi2: Phi = param(
        default="softplus",
        help="φ₂, the kernel of the rank that is minimised",
        search=Search(choices=("hinge", "sigmoid", "exponential", "softplus")),
    )
    alpha: float = param(
        default=1.0, at_least=0, help="α, the emphasis on small N over large N", search=Search(0.6, 1.6)
    )
    scale: float = param(default=10.0, above=0, help="factor c on the scores", search=Search(2.0, 50.0, log=True))
    margin: float = param(default=5.0, help="margin m of the hinge, on scaled scores")
    over: Over = param(default="negatives", help="items that the ranks count: the user's negatives, or all others")
    estimator: RankEstimator = param(
        default="unbiased",
        help="ranks from a sample I′: 1 + (|N_u|/|I′|)·Σφ (unbiased), or (n/|I′|)·(1 + Σφ) (published, Eq. 24)",
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        pushed = smooth_rank(table, self.phi2, self.scale, self.margin, self.over, self.estimator)
        log_weight_P = -self.alpha * self._weighing(table, pushed)
        if self.phi2 == "exponential":
            # weight and rank may each overflow or underflow where their product does not
            value_P = _expm1(pushed.log_P + log_weight_P) - log_weight_P.expm1()
        else:
            value_P = pushed.excess_P * log_weight_P.exp()
        return mean_over_positives(table, value_P / mass(table, self.alpha))

    @torch.no_grad()
    def _weighing(self, table: ScoreTable, pushed: SmoothRank) -> Tensor:
        """``ln R₁``, reused from R₂ where both kernels are the same."""
        if self.phi1 == self.phi2:
            return pushed.log_P.detach()
        return smooth_rank(table, self.phi1, self.scale, self.margin, self.over, self.estimator).log_P
