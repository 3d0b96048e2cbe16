"""The softmax family: a positive compared with a log-sum-exp of the negatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from shortlist.losses.base import Loss, mean_over_positives, registry, relative_weights
from shortlist.parameters import Search, param
from shortlist.scores import Kernel, Over, ScoreTable, Similarity
from shortlist.scores.table import logsumexp_of_positives


def softmax_terms(
    table: ScoreTable, tau: float, over: Over, positive_weight: float, negatives: float | None = None
) -> Tensor:
    """``ln Σ_j exp(s_j/τ) − c·s_i/τ`` of each positive i; 0 if its row has nothing in the sum.

    With ``negatives`` the sum over negatives is scaled to that many: (N/|N_u|)·Σ_j.
    """
    lse_R = table.logsumexp(tau, over)
    if negatives is not None and over == "negatives":
        lse_R = lse_R + (negatives / table.n_represented_R.clamp(min=1)).log()
    lse_P = table.per_positive(lse_R)
    return torch.where(lse_P == -torch.inf, 0, lse_P - table.positives() * (positive_weight / tau))


def log_mean_exp(table: ScoreTable, tau: float) -> Tensor:
    """``ln mean_j exp(s_j/τ)`` of each row's negatives; a sample estimates it without the size of the catalogue."""
    return table.logsumexp(tau, "negatives") - table.n_represented_R.clamp(min=1).log()


@registry.register("sl")
class SL(Loss):
    r"""Softmax loss, known as sampled softmax, InfoNCE, CCE.

    .. math:: L_{ui} = \ln \sum_j e^{s_{uj}/\tau} - c\,s_{ui}/\tau

    over the user's negatives, or over all items, including the positives. ``positive_weight`` is the factor c on the
    positive's term: 1 as published; a value slightly below 1 limits positives that already rank high.

    Bruch et al., "An Analysis of the Softmax Cross Entropy Loss for Learning-to-Rank with Binary Relevance", ICTIR
    2019; Wu et al., "On the Effectiveness of Sampled Softmax Loss for Item Recommendation", TOIS 2024.

    >>> loss = SL(tau=1.0)
    >>> loss(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]))
    tensor(-0.3069)
    >>> SL(tau=1.0, denominator="all")(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]))
    tensor(0.5514)
    """

    formula = "ln Σ_j exp(s_j/τ) − c·s_i/τ"
    aliases = ("InfoNCE", "sampled softmax", "softmax", "CCE", "SSM")
    target = "NDCG"
    collapse_hint = "a larger loss.tau"
    citation = "Bruch et al., ICTIR 2019; Wu et al., TOIS 2024"
    cost = "one pass over the scores of all items"
    use = "The first choice: fast and stable, and its temperature is the only setting that matters much."
    similarity: ClassVar[Similarity] = "cosine"

    tau: float = param(default=0.2, above=0, help="temperature τ of the scores", search=Search(0.02, 0.5, log=True))
    denominator: Over = param(default="negatives", help="what the sum runs over: the user's negatives, or all items")
    positive_weight: float = param(
        default=1.0, above=0, help="factor c on the positive's term", search=Search(0.6, 1.0), aliases=("pull",)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        return mean_over_positives(table, softmax_terms(table, self.tau, self.denominator, self.positive_weight))


@registry.register("bsl")
class BSL(Loss):
    r"""Bilateral softmax loss: a softmax also over the positives, with a separate temperature.

    .. math:: L_u = -\tau_1 \ln \frac{1}{|P_u|} \sum_{i \in P_u} e^{s_{ui}/\tau_1}
                    + \tau_2 \ln \frac{1}{|N_u|} \sum_{j \in N_u} e^{s_{uj}/\tau_2}

    This is ``form="user"``. Each positive has the value of its user, so that a user's weight is the number of its
    positives. It needs rows with all positives of a user: the gradient is then concentrated on the easy positives, and
    noisy ones receive little. ``form="batch"`` is the form for drawn pairs, with one positive per row:

    .. math:: L_{ui} = -s_{ui}/\tau_1 + \frac{\tau_2}{\tau_1} \ln \sum_{j \in N_u} e^{s_{uj}/\tau_2}

    which is τ₂/τ₁ times SL at τ₂: τ₁ is only a scale factor. As τ₁ grows, the user form becomes τ₂ times SL at τ₂, up
    to the constant by which a mean differs from a sum.

    Wu et al., "BSL: Understanding and Improving Softmax Loss for Recommendation", 2023 (arXiv 2312.12882).

    >>> BSL(tau1=2.0, tau2=1.0)(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]))
    tensor(-0.1534)
    """

    formula = "−s_i/τ₁ + (τ₂/τ₁)·ln Σ_j exp(s_j/τ₂); by user: −τ₁·ln mean_i exp(s_i/τ₁) + τ₂·ln mean_j exp(s_j/τ₂)"
    target = "NDCG, where some positives are noise"
    collapse_hint = "a larger loss.tau2"
    citation = "Wu et al., arXiv 2312.12882"
    cost = "one pass over the scores of all items"
    use = "Where some of the positives are noise; form=user if users have several positives."
    similarity: ClassVar[Similarity] = "cosine"

    tau1: float = param(
        default=0.2, above=0, help="temperature τ₁ of the positives", search=Search(0.02, 0.5, log=True)
    )
    tau2: float = param(
        default=0.2, above=0, help="temperature τ₂ of the negatives", search=Search(0.02, 0.5, log=True)
    )
    form: Literal["batch", "user"] = param(
        default="batch", help="whether positives are separate, as in published results, or grouped by user"
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        if self.form == "batch":
            return mean_over_positives(table, softmax_terms(table, self.tau2, "negatives", 1.0)) * (
                self.tau2 / self.tau1
            )
        negatives_R = log_mean_exp(table, self.tau2)
        weight_P = relative_weights(table)
        scaled_P = table.positives() / self.tau1
        count_R = table.row_total(torch.ones_like(scaled_P)).clamp(min=1)
        if weight_P is not None:  # weights that sum to the number of positives
            scaled_P = scaled_P + weight_P.to(scaled_P.dtype).log()
        positives_R = logsumexp_of_positives(scaled_P, table.row_P, table.n_rows) - count_R.log()
        value_R = self.tau2 * negatives_R - self.tau1 * positives_R
        return mean_over_positives(table, table.per_positive(torch.where(negatives_R == -torch.inf, 0, value_R)))


_REACH = 1e-6
"""The lower bound of an activation, which keeps the logarithm finite; below it the gradient is 0."""


@dataclass(frozen=True)
class LogActivation(Kernel):
    """ln σ_a(x)/τ of an activation σ_a that approximates eˣ around 0."""

    tau: float

    @property
    def tilt(self) -> float:
        """1/τ, the slope at 0."""
        return 1 / self.tau


@dataclass(frozen=True)
class LogTanh(LogActivation):
    """ln(1 + tanh x)/τ, as ln 2 + ln σ(2x)."""

    def value(self, x: Tensor) -> Tensor:
        """(ln 2 + ln σ(2x))/τ; for y far below 0, ln σ(y) equals y in floating point."""
        double = x * 2
        log_sigmoid = torch.sigmoid(double.clamp(min=-80)).log()  # three times as fast as logsigmoid
        return torch.minimum(log_sigmoid, double).add_(math.log(2)).mul_(1 / self.tau)

    def slope(self, x: Tensor) -> Tensor:
        """2·σ(−2x)/τ."""
        return torch.sigmoid(x * -2).mul_(2 / self.tau)


@dataclass(frozen=True)
class LogAtan(LogActivation):
    """ln(1 + arctan x)/τ; the activation is negative for x < −tan 1 ≈ −1.557, and the lower bound replaces it there."""

    def value(self, x: Tensor) -> Tensor:
        """ln max(1 + arctan x, ε)/τ."""
        return _floored_log(x.atan() + 1, x).mul_(1 / self.tau)

    def slope(self, x: Tensor) -> Tensor:
        """1/(τ·(1 + x²)·(1 + arctan x)), and 0 below the lower bound."""
        level = F.threshold(x.atan().add_(1), _REACH, torch.inf)
        return level.mul_(x.square().add_(1)).reciprocal_().mul_(1 / self.tau)


@dataclass(frozen=True)
class LogRelu(LogActivation):
    """ln max(0, 1 + x)/τ; the lower bound replaces 0."""

    def value(self, x: Tensor) -> Tensor:
        """ln max(1 + x, ε)/τ."""
        return _floored_log(x + 1, x).mul_(1 / self.tau)

    def slope(self, x: Tensor) -> Tensor:
        """1/(τ·(1 + x)), and 0 below the lower bound."""
        return F.threshold(x + 1, _REACH, torch.inf).reciprocal_().mul_(1 / self.tau)


def _floored_log(level: Tensor, x: Tensor) -> Tensor:
    """``ln max(level, ε)``, but −∞ where x is −∞: elsewhere the second argument of the minimum exceeds all values."""
    return torch.minimum(level.clamp(min=_REACH).log(), x + 1e30)


_ACTIVATIONS: dict[str, Callable[[float], Kernel]] = {"tanh": LogTanh, "atan": LogAtan, "relu": LogRelu}


@registry.register("psl")
class PSL(Loss):
    r"""Pairwise softmax loss: softmax loss with the exponential replaced by an activation closer to the unit step.

    .. math:: L_{ui} = \ln \sum_{j \in N_u} \sigma_a(s_{uj}-s_{ui})^{1/\tau},\quad
              \sigma_a(d) \in \{1+\tanh d,\; 1+\arctan d,\; \max(0, 1+d)\}

    On [−1, 1], where differences of half-cosine scores lie, 1[d ≥ 0] ≤ σ_a(d) ≤ eᵈ: a tighter bound of NDCG than SL,
    with less weight on negatives far above the positive. With exp as activation it would be SL at 2τ on cosine scores.
    If the activation of a negative is 0 or less (1 + arctan d is negative below −1.557, which half-cosine scores never
    reach), it is replaced by 10⁻⁶ without gradient, so that the loss remains finite.

    Yang et al., "PSL: Rethinking and Improving Softmax Loss from Pairwise Perspective for Recommendation", NeurIPS
    2024.

    >>> PSL(tau=1.0, activation="relu")(torch.tensor([0.5]), torch.tensor([[0.0, 0.5]]))
    tensor(0.4055)
    """

    formula = "ln Σ_j σ_a(s_j − s_i)^{1/τ}, with σ_a(d) = 1 + tanh d, 1 + arctan d or max(0, 1 + d)"
    target = "NDCG"
    collapse_hint = "a larger loss.tau"
    citation = "Yang et al., NeurIPS 2024"
    cost = "about 20 passes over a user's scores for any number of positives; with unbounded scores one per positive"
    use = "Where SL puts too much weight on single hard negatives; its bound on NDCG is tighter."
    similarity: ClassVar[Similarity] = "half_cosine"

    tau: float = param(
        default=0.1, above=0, help="temperature τ: half the value for SL", search=Search(0.01, 0.25, log=True)
    )
    activation: Literal["tanh", "atan", "relu"] = param(
        default="tanh", help="activation in place of the exponential", search=Search(choices=("tanh", "atan", "relu"))
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        log_sum_P = table.pair_logsumexp(_ACTIVATIONS[self.activation](self.tau))
        return mean_over_positives(table, torch.where(log_sum_P == -torch.inf, 0, log_sum_P))
