"""AUC and its partial forms: a square loss of pairs, rewritten as a sum over single items with a few learned scalars.

With f = σ(s) in [0, 1] the square loss of all pairs is the saddle value of a function without pairs:

    E₊E₋(1 − f_i + f_j)² = 1 + min_{a,b} max_γ E₊[ℓ₊] + E₋[ℓ₋] − γ²
    ℓ₊ = (f − a)² − 2(1 + γ)·f,   ℓ₋ = (f − b)² + 2(1 + γ)·f

at a = E₊f, b = E₋f, γ = b − a. If ℓ₋ increases with f (γ ≥ b − 1) and ℓ₊ decreases (γ ≥ −a), the top fraction β of the
negatives is the fraction with the largest ℓ₋, and its mean is a minimum over one more scalar:

    mean of the largest β of ℓ₋ = min_s s + (1/β)·E₋(ℓ₋ − s)₊

The hinge is smoothed to r_κ(x) = ln(1 + e^{κx})/κ, which exceeds the hinge by at most ln 2/κ.

E₊ is the mean over positives, E₋ the mean over positives of the mean over the negatives of their row: a row with many
positives counts as often as if each had its own negatives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.parameters import Search, param
from shortlist.scores import Kernel, ScoreTable, Sizes


@dataclass(frozen=True)
class Scalar:
    """A learned number: its start, its bounds, and its learning rate factor, which is negative for descent."""

    start: float
    low: float
    high: float
    lr_factor: float


class Minimax(Loss):
    """A loss with scalars whose saddle point is found by gradient descent and ascent between the model's steps.

    The scalars are buffers: Adam and weight decay do not change them. After each step of the model at learning rate η,
    a and b descend their gradients with the learning rate ``scalar_lr_ratio``·η, γ ascends with the same rate, s⁻
    descends and s⁺ ascends with four times that rate, and each is clamped to its bounds.

    Reason for the factor four: linearised around the saddle, γ and s⁻ oscillate, and the oscillation diverges if
    J·(4f² − v) > 2, where v is the learning rate of s⁻ relative to γ, f ≤ 1 is the value of the last negative that
    counts, and J = κ·E₋[t(1 − t)]/β with t = σ(κ(ℓ₋ − s⁻)). With v = 4 this never holds; with v = 1, the published
    rates, it holds where f > ½ and κ is large. For a and s⁺ the factor four is sufficient as well.

    Gradients are clipped to [−1, 1]: that of s⁻ is as large as 1/β on one side and at most 1 on the other, so that one
    step up would need 1/β steps down. γ is clamped from below at max(−a, b − 1), where ℓ₊ decreases and ℓ₋ increases.
    The saddle satisfies this constraint, since γ = b − a there: the multipliers by which the papers enforce it converge
    to 0, so none are used.

    In your own training loop, call ``after_step()`` after the optimiser's step: the scalars then move at ``scalar_lr``,
    which suits the learning rates of Adam, or at ``scalar_lr_ratio`` times the rate that is passed. Pass
    ``grad_scale=scaler.get_scale()`` where gradients are scaled. Where torch.distributed is initialized, all ranks take
    the mean of their gradients, so that their scalars stay equal.
    """

    scalars: ClassVar[Mapping[str, Scalar]]

    scalar_lr: float = param(
        default=0.1, above=0, help="learning rate of the loss's scalars in your own training loop, where none is passed"
    )
    scalar_lr_ratio: float = param(
        default=1.0,
        above=0,
        help="learning rate of the loss's scalars, in multiples of the model's",
        aliases=("pace",),
    )

    def __post_init__(self) -> None:
        for name, scalar in self.scalars.items():  # 0-dimensional: a float64 scalar does not promote float32 scores
            self.register_buffer(name, torch.tensor(scalar.start, dtype=torch.float64, requires_grad=True))

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """Reset the scalars to their initial values."""
        with torch.no_grad():
            for name, scalar in self.scalars.items():
                self.get_buffer(name).fill_(scalar.start).grad = None

    @torch.no_grad()
    def after_step(self, rate: float | None = None, *, grad_scale: float = 1.0) -> None:
        """One step of descent and ascent, then clamp to the bounds."""
        lr = self.scalar_lr if rate is None else rate * self.scalar_lr_ratio
        for name, scalar in self.scalars.items():
            value = self.get_buffer(name)
            if value.grad is not None:
                gradient = mean_over_ranks(value.grad / grad_scale)
                if bool(gradient.isfinite()):  # a scaler skips the steps whose gradients overflow
                    value += lr * scalar.lr_factor * gradient.clamp(-1, 1)
                value.grad = None
            value.clamp_(scalar.low, scalar.high)
        a, b, gamma = self._read("a", "b", "gamma")
        gamma.copy_(torch.maximum(gamma, torch.maximum(-a, b - 1)))

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives; those of rows without negatives count 0."""
        term_P = self.terms(_sigmoid(table.positives()), table)
        return mean_over_positives(table, torch.where(table.per_positive(table.n_represented_R) > 0, term_P, 0))

    @abstractmethod
    def terms(self, f_P: Tensor, table: ScoreTable) -> Tensor:
        """The formula: L of each positive from its f."""

    def _read(self, *names: str) -> tuple[Tensor, ...]:
        return tuple(self.get_buffer(name) for name in names)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Keep the scalars leaf tensors, which receive gradients, when the module changes device or dtype."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self.scalars:
            setattr(self, name, self.get_buffer(name).detach().requires_grad_())
        return self


A, B = Scalar(1.0, 0.0, 1.0, -1.0), Scalar(0.0, 0.0, 1.0, -1.0)
GAMMA = Scalar(0.0, -1.0, 1.0, 1.0)
S_NEG, S_POS = Scalar(0.5, 0.0, 5.0, -4.0), Scalar(0.5, -1.0, 4.0, 4.0)  # the bounds are the ranges of ℓ₋ and −ℓ₊


def mean_over_ranks(gradient: Tensor) -> Tensor:
    """The mean over the processes of torch.distributed, where it is initialized."""
    if not (dist.is_available() and dist.is_initialized()):
        return gradient
    total = gradient.clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def _sigmoid(score_P: Tensor) -> Tensor:
    """σ(s), and NaN where a score is infinite: the sigmoid must not hide a diverged model."""
    return torch.sigmoid(score_P + 0 * score_P)


def _square_of_positives(f_P: Tensor, a: Tensor, gamma: Tensor) -> Tensor:
    """ℓ₊."""
    return (f_P - a).square() - 2 * (1 + gamma) * f_P


def _mean_of_negatives(table: ScoreTable, kernel: Kernel) -> Tensor:
    """The mean of the kernel over the negatives of each positive."""
    return table.per_positive(table.row_sum(kernel) / table.n_represented_R.clamp(min=1))


def _smooth_hinge(x: Tensor, kappa: float) -> Tensor:
    """r_κ(x) = ln(1 + e^{κx})/κ."""
    return F.softplus(x, beta=kappa, threshold=40.0)


@dataclass(frozen=True)
class SquareOfNegatives(Kernel):
    """φ(x) = ℓ₋(σ(x)) − ℓ₋(0) = f² + 2(1 + γ − b)·f: ℓ₋ minus b², so that it is 0 at −∞.

    >>> SquareOfNegatives(torch.tensor(0.5), torch.tensor(0.0)).value(torch.tensor([0.0, -torch.inf]))
    tensor([0.7500, 0.0000])
    """

    b: Tensor
    gamma: Tensor

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """b and γ."""
        return self.b, self.gamma

    def parameter_slopes(self, x: Tensor) -> tuple[Tensor, ...]:
        """−2f and 2f."""
        twice = torch.sigmoid(x).mul_(2)
        return -twice, twice

    def value(self, x: Tensor) -> Tensor:
        """f·(f + 2(1 + γ − b))."""
        f = torch.sigmoid(x)
        return f * (f + 2 * (1 + self.gamma - self.b))

    def slope(self, x: Tensor) -> Tensor:
        """2·(f + 1 + γ − b)·f·(1 − f)."""
        f = torch.sigmoid(x)
        return (f + (1 + self.gamma - self.b)).mul_(f).mul_(1 - f).mul_(2)


@dataclass(frozen=True)
class TopOfNegatives(Kernel):
    """φ(x) = r_κ(ℓ₋(σ(x)) − s) − r_κ(ℓ₋(0) − s): the smoothed excess of ℓ₋ over s, minus that at f = 0.

    >>> kernel = TopOfNegatives(torch.tensor(0.5), torch.tensor(0.0), torch.tensor(0.25), 5.0)
    >>> kernel.value(torch.tensor([0.0, -torch.inf]))
    tensor([0.6160, 0.0000])
    """

    b: Tensor
    gamma: Tensor
    s: Tensor
    kappa: float

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """b, γ and s."""
        return self.b, self.gamma, self.s

    def parameter_slopes(self, x: Tensor) -> tuple[Tensor, ...]:
        """With t = σ(κ(ℓ₋ − s)) and t₀ its value at f = 0: 2b·(t − t₀) − 2f·t, 2f·t, t₀ − t."""
        f = torch.sigmoid(x)
        above = torch.sigmoid(self._excess(f).mul_(self.kappa))
        twice = f.mul_(above).mul_(2)
        by_s = torch.sigmoid(self._excess(x.new_zeros(1)).mul_(self.kappa)) - above
        return -2 * self.b * by_s - twice, twice, by_s

    def at_zero(self, like: Tensor) -> Tensor:
        """r_κ(ℓ₋(0) − s), which :meth:`value` subtracts: one number, of the dtype of ``like``."""
        return _smooth_hinge(self._excess(like.new_zeros(1)), self.kappa)

    def value(self, x: Tensor) -> Tensor:
        """r_κ(ℓ₋ − s) minus its value at f = 0."""
        return _smooth_hinge(self._excess(torch.sigmoid(x)), self.kappa) - self.at_zero(x)

    def slope(self, x: Tensor) -> Tensor:
        """t·2·(f + 1 + γ − b)·f·(1 − f)."""
        f = torch.sigmoid(x)
        above = torch.sigmoid(self._excess(f).mul_(self.kappa))
        return above.mul_(f + (1 + self.gamma - self.b)).mul_(f).mul_(1 - f).mul_(2)

    def _excess(self, f: Tensor) -> Tensor:
        """ℓ₋(f) − s."""
        return f * (f + 2 * (1 + self.gamma - self.b)) + (self.b.square() - self.s)


@registry.register("auc")
class AUC(Minimax):
    r"""The square loss of all pairs, in its minimax form.

    .. math:: L_{ui} = 1 + \ell_+(f_{ui}) + \frac{1}{|N_u|} \sum_{j \in N_u} \ell_-(f_{uj}) - \gamma^2,\quad
              \ell_+ = (f-a)^2 - 2(1+\gamma)f,\quad \ell_- = (f-b)^2 + 2(1+\gamma)f

    with f = σ(s). The model and a, b descend, γ ascends. At the saddle a and b are the means of f over positives and
    negatives, γ = b − a, and the mean of L over positives is that of (1 − f_i + f_j)² over all pairs of a positive and
    a negative, also of different users. Positives of one user are therefore also compared with negatives of others: f
    must be on the same scale for every user.

    Ying et al., "Stochastic Online AUC Maximization", NIPS 2016; Yuan et al., "Large-scale Robust Deep AUC
    Maximization", ICCV 2021.

    >>> loss = AUC()
    >>> value = loss(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))  # a = 1, b = γ = 0: 1 + ¼ − 1 + ¼ + 1
    >>> value.item()
    1.5
    >>> value.backward()
    >>> loss.after_step(rate=0.1)  # a and b step towards the means, ½ and ½
    >>> round(loss.a.item(), 4), round(loss.b.item(), 4)
    (0.9, 0.1)
    """

    formula = "1 + (f_i − a)² − 2(1 + γ)·f_i + mean_j[(f_j − b)² + 2(1 + γ)·f_j] − γ², f = σ(s)"
    target = "AUC"
    citation = "Ying et al., NIPS 2016; Yuan et al., ICCV 2021"
    cost = "one pass over the scores of all items, and one in the backward pass"
    use = "Where every pair of a positive and a negative has the same weight."
    collapse_hint = "a smaller loss.scalar_lr_ratio"
    scalars = MappingProxyType({"a": A, "b": B, "gamma": GAMMA})

    def terms(self, f_P: Tensor, table: ScoreTable) -> Tensor:
        """1 + ℓ₊ + mean ℓ₋ − γ²."""
        a, b, gamma = self._read("a", "b", "gamma")
        negative_P = _mean_of_negatives(table, SquareOfNegatives(b, gamma)) + b.square()
        return 1 + _square_of_positives(f_P, a, gamma) + negative_P - gamma.square()


class Partial(Minimax):
    """Base class of the partial forms: only the top-ranked fraction of the negatives counts."""

    beta: float = param(
        default=0.1,
        above=0,
        at_most=1,
        help="top-ranked fraction β of the negatives that counts",
        search=Search(choices=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 0.9)),
    )
    kappa: float = param(default=5.0, above=0, help="sharpness κ of the selection of the items that count")
    w: float = param(default=0.0, at_least=0, help="weight w of the extra concave term in γ")

    def terms(self, f_P: Tensor, table: ScoreTable) -> Tensor:
        """1 + the positive's term + s⁻ + mean r_κ(ℓ₋ − s⁻)/β − (w + 1)·γ²."""
        b, gamma, s = self._read("b", "gamma", "s_neg")
        kernel = TopOfNegatives(b, gamma, s, self.kappa)
        negative_P = s + (_mean_of_negatives(table, kernel) + kernel.at_zero(f_P)) / self.beta
        return 1 + self.positive_terms(f_P) + negative_P - (self.w + 1) * gamma.square()

    @abstractmethod
    def positive_terms(self, f_P: Tensor) -> Tensor:
        """The positive's term, from f of each positive."""


@registry.register("opauc")
class OPAUC(Partial):
    r"""One-way partial AUC (PAUCI): the square loss of all positives with the top-ranked fraction β of the negatives.

    .. math:: L_{ui} = 1 + \ell_+(f_{ui}) + s^- + \frac{1}{\beta|N_u|} \sum_{j \in N_u} r_\kappa(\ell_-(f_{uj}) - s^-)
              - (w+1)\gamma^2,\quad r_\kappa(x) = \ln(1+e^{\kappa x})/\kappa

    with f, ℓ₊ and ℓ₋ as in AUC. The model and a, b, s⁻ descend, γ ascends. As κ grows, the saddle for w = 0 tends to
    that of the fraction β of negatives with the largest f: b is their mean, γ = b − a, and s⁻ is ℓ₋ of the last of
    them. w > 0 gives this up for a function that is concave in γ; κ/(2β) − 1 is sufficient.

    With β = 1 and s⁻ = 0, since r_κ(x) = x + ln(1 + e^{−κx})/κ, it is AUC plus E₋ ln(1 + e^{−κℓ₋})/κ, at most ln 2/κ.

    Shao et al., "Asymptotically Unbiased Instance-wise Regularized Partial AUC Optimization: Theory and Algorithm",
    NeurIPS 2022 (there κ = 2).

    >>> value = OPAUC(beta=0.5)(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))  # 1 − ¾ + ½ + 2·r(¾)
    >>> round(value.item(), 4)
    2.2593
    """

    formula = "1 + ℓ₊(f_i) + s⁻ + mean_j r_κ(ℓ₋(f_j) − s⁻)/β − (w + 1)·γ², f = σ(s), ℓ± as in auc"
    target = "OPAUC(β): AUC over the top-ranked fraction β of the negatives"
    citation = "Shao et al., NeurIPS 2022"
    cost = "one pass over the scores of all items, and one in the backward pass"
    use = "Where only the hardest fraction β of the negatives matters."
    collapse_hint = "a smaller loss.scalar_lr_ratio"
    scalars = MappingProxyType({"a": A, "b": B, "gamma": GAMMA, "s_neg": S_NEG})

    def positive_terms(self, f_P: Tensor) -> Tensor:
        """ℓ₊."""
        return _square_of_positives(f_P, *self._read("a", "gamma"))


@registry.register("llpauc")
class LLPAUC(Partial):
    r"""Lower-left partial AUC: the top-ranked fraction α of positives with the top-ranked fraction β of negatives.

    .. math:: L_{ui} = 1 - s^+ - \frac1\alpha r_\kappa(-\ell_+(f_{ui}) - s^+)
              + s^- + \frac{1}{\beta|N_u|} \sum_{j \in N_u} r_\kappa(\ell_-(f_{uj}) - s^-) - (w+1)\gamma^2

    with f, ℓ₊, ℓ₋ and r_κ as in OPAUC. The model and a, b, s⁻ descend, γ and s⁺ ascend. As κ grows, the saddle for w =
    0 tends to that of the selected items: a and b are the means of f over the fraction α of positives and the fraction
    β of negatives with the largest f, γ = b − a. Low-ranked positives, for example noise, do not contribute.

    With α = 1 and s⁺ = −1 it is OPAUC minus E₊ ln(1 + e^{−κ(1 − ℓ₊)})/κ, at most ln 2/κ; if also β = 1 and s⁻ = 0, it
    is AUC except for the two terms.

    Shi et al., "Lower-Left Partial AUC: An Effective and Efficient Optimization Metric for Recommendation", WWW 2024;
    the normalisers 1/α and 1/β, missing in its equation 14, are those of its authors' code.

    >>> loss = LLPAUC(alpha=0.5, beta=0.5)
    >>> value = loss(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))  # 1 − ½ − 2·r(¼) + ½ + 2·r(¾)
    >>> round(value.item(), 4)
    1.9085
    """

    formula = "1 − s⁺ − r_κ(−ℓ₊(f_i) − s⁺)/α + s⁻ + mean_j r_κ(ℓ₋(f_j) − s⁻)/β − (w + 1)·γ², f = σ(s), ℓ± as in auc"
    target = "LLPAUC(α, β); Recall@K and Precision@K"
    citation = "Shi et al., WWW 2024"
    cost = "one pass over the scores of all items, and one in the backward pass"
    use = "Where the top of the list matters and some positives are noise: the lowest ones are ignored."
    collapse_hint = "a smaller loss.scalar_lr_ratio"
    scalars = MappingProxyType({**OPAUC.scalars, "s_pos": S_POS})

    alpha: float = param(
        default=0.7,
        above=0,
        at_most=1,
        help="top-ranked fraction α of the positives that counts",
        search=Search(choices=(0.1, 0.3, 0.5, 0.7, 0.9)),
    )

    def positive_terms(self, f_P: Tensor) -> Tensor:
        """−s⁺ − r_κ(−ℓ₊ − s⁺)/α."""
        a, gamma, s = self._read("a", "gamma", "s_pos")
        return -s - _smooth_hinge(-_square_of_positives(f_P, a, gamma) - s, self.kappa) / self.alpha
