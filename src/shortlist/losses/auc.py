"""AUC and its partial forms: a square loss of pairs, made a sum over single items by a few learnt scalars.

With f = σ(s) in [0, 1] the square loss of all pairs is the saddle value of a function that no longer knows pairs:

    E₊E₋(1 − f_i + f_j)² = 1 + min_{a,b} max_γ E₊[ℓ₊] + E₋[ℓ₋] − γ²
    ℓ₊ = (f − a)² − 2(1 + γ)·f,   ℓ₋ = (f − b)² + 2(1 + γ)·f

at a = E₊f, b = E₋f, γ = b − a. Where ℓ₋ rises with f (γ ≥ b − 1) and ℓ₊ falls (γ ≥ −a), the best share β of the
negatives is the share of largest ℓ₋, and its mean is a minimum over one more scalar:

    mean of the largest β of ℓ₋ = min_s s + (1/β)·E₋(ℓ₋ − s)₊

The hinge is smoothed to r_κ(x) = ln(1 + e^{κx})/κ. It lies above the hinge by at most ln 2/κ.

E₊ is the mean over positives, E₋ the mean over positives of the mean over the negatives of their row: a row of many
positives counts as often as if each came with negatives of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.parameters import Search, param
from shortlist.scores import Kernel, ScoreTable


@dataclass(frozen=True)
class Scalar:
    """A learnt number: where it starts, its box, and its speed, which is negative where it descends."""

    start: float
    low: float
    high: float
    speed: float


class Minimax(Loss):
    """A loss with scalars for which a saddle is sought, by gradient descent and ascent beside the model's steps.

    The scalars are buffers: Adam does not move them and weight decay does not shrink them. After each step of the model
    at rate η, a and b move by ``scalar_lr_ratio``·η down their gradients, γ as far up its own, s⁻ four times as far
    down and s⁺ four times as far up, and each back into its box.

    Why four: to first order around the saddle, γ and s⁻ turn around each other, and do so ever more widely if
    J·(4f² − v) > 2, where v is the speed of s⁻ relative to γ, f ≤ 1 that of the last negative which counts, and
    J = κ·E₋[t(1 − t)]/β with t = σ(κ(ℓ₋ − s⁻)). With v = 4 that is never so; with v = 1, the published speeds, it is
    where f > ½ and κ is large. For a and s⁺ four is enough as well.

    Gradients are clipped to [−1, 1]: that of s⁻ is as large as 1/β on one side and at most 1 on the other, so that s⁻
    would leap up in one step and take 1/β steps down. γ is kept at or above max(−a, b − 1), where ℓ₊ falls and ℓ₋
    rises. At the saddle that holds by itself, since γ = b − a there: the multipliers with which the papers ask for it
    end at 0, and none are kept.

    In a loop of one's own call ``after_step(rate)`` after the optimiser's step.
    """

    scalars: ClassVar[Mapping[str, Scalar]]

    scalar_lr_ratio: float = param(
        default=1.0,
        above=0,
        help="learning rate of the loss's scalars, in multiples of the model's",
        aliases=("pace",),
    )

    def __post_init__(self) -> None:
        for name, scalar in self.scalars.items():  # no dimension: float64 here leaves float32 scores in float32
            self.register_buffer(name, torch.tensor(scalar.start, dtype=torch.float64, requires_grad=True))

    def start(self, n_users: int, n_items: int, n_pairs: int, generator: torch.Generator) -> None:
        """Put the scalars where they start."""
        with torch.no_grad():
            for name, scalar in self.scalars.items():
                self.get_buffer(name).fill_(scalar.start).grad = None

    @torch.no_grad()
    def after_step(self, rate: float) -> None:
        """One step of descent and ascent, then back into the boxes."""
        for name, scalar in self.scalars.items():
            value = self.get_buffer(name)
            if value.grad is not None:
                value += rate * self.scalar_lr_ratio * scalar.speed * value.grad.clamp(-1, 1)
                value.grad = None
            value.clamp_(scalar.low, scalar.high)
        a, b, gamma = self._read("a", "b", "gamma")
        gamma.copy_(torch.maximum(gamma, torch.maximum(-a, b - 1)))

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives; those with nothing against them count 0."""
        term_P = self.terms(_squashed(table.positives()), table)
        return mean_over_positives(torch.where(table.per_positive(table.n_represented_R) > 0, term_P, 0))

    @abstractmethod
    def terms(self, share_P: Tensor, table: ScoreTable) -> Tensor:
        """The formula: L of each positive, whose f is given."""

    def _read(self, *names: str) -> tuple[Tensor, ...]:
        return tuple(self.get_buffer(name) for name in names)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moved to another device or type, buffers would become results of a computation that no gradient stays in."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self.scalars:
            setattr(self, name, self.get_buffer(name).detach().requires_grad_())
        return self


A, B = Scalar(1.0, 0.0, 1.0, -1.0), Scalar(0.0, 0.0, 1.0, -1.0)
GAMMA = Scalar(0.0, -1.0, 1.0, 1.0)
S_NEG, S_POS = Scalar(0.5, 0.0, 5.0, -4.0), Scalar(0.5, -1.0, 4.0, 4.0)  # the boxes are the ranges of ℓ₋ and −ℓ₊


def _squashed(score_P: Tensor) -> Tensor:
    """σ(s), and NaN where a score is infinite: squashing must not hide a model that has broken."""
    return torch.sigmoid(score_P + 0 * score_P)


def _square_of_positives(share_P: Tensor, a: Tensor, gamma: Tensor) -> Tensor:
    """ℓ₊."""
    return (share_P - a).square() - 2 * (1 + gamma) * share_P


def _mean_of_negatives(table: ScoreTable, kernel: Kernel) -> Tensor:
    """The mean of the kernel over the negatives of each positive."""
    return table.per_positive(table.row_sum(kernel) / table.n_represented_R.clamp(min=1))


def _smooth_hinge(x: Tensor, kappa: float) -> Tensor:
    """r_κ(x) = ln(1 + e^{κx})/κ."""
    return F.softplus(x, beta=kappa, threshold=40.0)


@dataclass(frozen=True)
class SquareOfNegatives(Kernel):
    """φ(x) = ℓ₋(σ(x)) − ℓ₋(0) = f² + 2(1 + γ − b)·f: ℓ₋ less b², so that it is 0 at −∞.

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
        share = torch.sigmoid(x)
        return share * (share + 2 * (1 + self.gamma - self.b))

    def slope(self, x: Tensor) -> Tensor:
        """2·(f + 1 + γ − b)·f·(1 − f)."""
        share = torch.sigmoid(x)
        return (share + (1 + self.gamma - self.b)).mul_(share).mul_(1 - share).mul_(2)


@dataclass(frozen=True)
class TopOfNegatives(Kernel):
    """φ(x) = r_κ(ℓ₋(σ(x)) − s) − r_κ(ℓ₋(0) − s): what ℓ₋ has above s, less what it has at f = 0.

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
        """With t = σ(κ(ℓ₋ − s)) and t₀ that at f = 0: 2b·(t − t₀) − 2f·t, 2f·t, t₀ − t."""
        share = torch.sigmoid(x)
        above = torch.sigmoid(self._excess(share).mul_(self.kappa))
        twice = share.mul_(above).mul_(2)
        by_s = torch.sigmoid(self._excess(x.new_zeros(1)).mul_(self.kappa)) - above
        return -2 * self.b * by_s - twice, twice, by_s

    def at_zero(self, like: Tensor) -> Tensor:
        """r_κ(ℓ₋(0) − s), which the value leaves out: one number, of the type of ``like``."""
        return _smooth_hinge(self._excess(like.new_zeros(1)), self.kappa)

    def value(self, x: Tensor) -> Tensor:
        """r_κ(ℓ₋ − s) less the same at f = 0."""
        return _smooth_hinge(self._excess(torch.sigmoid(x)), self.kappa) - self.at_zero(x)

    def slope(self, x: Tensor) -> Tensor:
        """t·2·(f + 1 + γ − b)·f·(1 − f)."""
        share = torch.sigmoid(x)
        above = torch.sigmoid(self._excess(share).mul_(self.kappa))
        return above.mul_(share + (1 + self.gamma - self.b)).mul_(share).mul_(1 - share).mul_(2)

    def _excess(self, share: Tensor) -> Tensor:
        """ℓ₋(f) − s."""
        return share * (share + 2 * (1 + self.gamma - self.b)) + (self.b.square() - self.s)


@registry.register("auc")
class AUC(Minimax):
    r"""The square loss of all pairs, in its minimax form.

    .. math:: L_{ui} = 1 + \ell_+(f_{ui}) + \frac{1}{|N_u|} \sum_{j \in N_u} \ell_-(f_{uj}) - \gamma^2,\quad
              \ell_+ = (f-a)^2 - 2(1+\gamma)f,\quad \ell_- = (f-b)^2 + 2(1+\gamma)f

    with f = σ(s). The model and a, b descend, γ ascends; at the saddle a and b are the means of f over positives and
    negatives, γ = b − a, and the mean of L over positives is that of (1 − f_i + f_j)² over all pairs of a positive with
    a negative, whoever's they are. Positives of one user are so also held against the negatives of others: f has to
    mean the same for every user.

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
    cost = "one pass over the scores of all items, and one more backwards"
    use = "Where every pair of a positive and a negative counts the same."
    collapse_hint = "a smaller loss.scalar_lr_ratio"
    scalars = MappingProxyType({"a": A, "b": B, "gamma": GAMMA})

    def terms(self, share_P: Tensor, table: ScoreTable) -> Tensor:
        """1 + ℓ₊ + mean ℓ₋ − γ²."""
        a, b, gamma = self._read("a", "b", "gamma")
        negative_P = _mean_of_negatives(table, SquareOfNegatives(b, gamma)) + b.square()
        return 1 + _square_of_positives(share_P, a, gamma) + negative_P - gamma.square()


class Partial(Minimax):
    """What the partial forms share: the part of the negatives, of which only the best-placed count."""

    beta: float = param(
        default=0.1,
        above=0,
        at_most=1,
        help="share β of the negatives that count, the best-placed",
        search=Search(choices=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 0.9)),
    )
    kappa: float = param(default=5.0, above=0, help="sharpness κ with which those that count are told from the others")
    w: float = param(default=0.0, at_least=0, help="weight w that makes the part of γ more concave")

    def terms(self, share_P: Tensor, table: ScoreTable) -> Tensor:
        """1 + what the positive adds + s⁻ + mean r_κ(ℓ₋ − s⁻)/β − (w + 1)·γ²."""
        b, gamma, s = self._read("b", "gamma", "s_neg")
        kernel = TopOfNegatives(b, gamma, s, self.kappa)
        negative_P = s + (_mean_of_negatives(table, kernel) + kernel.at_zero(share_P)) / self.beta
        return 1 + self.positive_terms(share_P) + negative_P - (self.w + 1) * gamma.square()

    @abstractmethod
    def positive_terms(self, share_P: Tensor) -> Tensor:
        """What f of each positive adds."""


@registry.register("opauc")
class OPAUC(Partial):
    r"""One-way partial AUC (PAUCI): the square loss of all positives against the best-placed share β of the negatives.

    .. math:: L_{ui} = 1 + \ell_+(f_{ui}) + s^- + \frac{1}{\beta|N_u|} \sum_{j \in N_u} r_\kappa(\ell_-(f_{uj}) - s^-)
              - (w+1)\gamma^2,\quad r_\kappa(x) = \ln(1+e^{\kappa x})/\kappa

    with f, ℓ₊ and ℓ₋ as in AUC. The model and a, b, s⁻ descend, γ ascends. As κ grows the saddle of w = 0 tends to that
    of the negatives of largest f, a share β of all: b is their mean, γ = b − a, s⁻ the ℓ₋ of the last of them. w > 0
    trades that for a function that is concave in γ; κ/(2β) − 1 is enough.

    With β = 1 and s⁻ = 0, since r_κ(x) = x + ln(1 + e^{−κx})/κ, it is AUC plus E₋ ln(1 + e^{−κℓ₋})/κ, at most ln 2/κ.

    Shao et al., "Asymptotically Unbiased Instance-wise Regularized Partial AUC Optimization: Theory and Algorithm",
    NeurIPS 2022 (there κ = 2).

    >>> value = OPAUC(beta=0.5)(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))  # 1 − ¾ + ½ + 2·r(¾)
    >>> round(value.item(), 4)
    2.2593
    """

    formula = "1 + ℓ₊(f_i) + s⁻ + mean_j r_κ(ℓ₋(f_j) − s⁻)/β − (w + 1)·γ², f = σ(s), ℓ± as in auc"
    target = "OPAUC(β): AUC against the best-placed share β of the negatives"
    citation = "Shao et al., NeurIPS 2022"
    cost = "one pass over the scores of all items, and one more backwards"
    use = "Where only the hardest negatives matter, of which β is the share."
    collapse_hint = "a smaller loss.scalar_lr_ratio"
    scalars = MappingProxyType({"a": A, "b": B, "gamma": GAMMA, "s_neg": S_NEG})

    def positive_terms(self, share_P: Tensor) -> Tensor:
        """ℓ₊."""
        return _square_of_positives(share_P, *self._read("a", "gamma"))


@registry.register("llpauc")
class LLPAUC(Partial):
    r"""Lower-left partial AUC: the best-placed share α of positives against the best-placed share β of negatives.

    .. math:: L_{ui} = 1 - s^+ - \frac1\alpha r_\kappa(-\ell_+(f_{ui}) - s^+)
              + s^- + \frac{1}{\beta|N_u|} \sum_{j \in N_u} r_\kappa(\ell_-(f_{uj}) - s^-) - (w+1)\gamma^2

    with f, ℓ₊, ℓ₋ and r_κ as in OPAUC. The model and a, b, s⁻ descend, γ and s⁺ ascend. As κ grows the saddle of w = 0
    tends to that of the chosen items: a and b are the means of f over the share α of positives and the share β of
    negatives with largest f, γ = b − a. Positives far down, as those that came by mistake, cost nothing.

    With α = 1 and s⁺ = −1 it is OPAUC less E₊ ln(1 + e^{−κ(1 − ℓ₊)})/κ, at most ln 2/κ; with β = 1 and s⁻ = 0 as well,
    AUC but for the two terms.

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
    cost = "one pass over the scores of all items, and one more backwards"
    use = "Where the top of the list matters and some positives are noise: the lowest of them are left alone."
    collapse_hint = "a smaller loss.scalar_lr_ratio"
    scalars = MappingProxyType({**OPAUC.scalars, "s_pos": S_POS})

    alpha: float = param(
        default=0.7,
        above=0,
        at_most=1,
        help="share α of the positives that count, the best-placed",
        search=Search(choices=(0.1, 0.3, 0.5, 0.7, 0.9)),
    )

    def positive_terms(self, share_P: Tensor) -> Tensor:
        """−s⁺ − r_κ(−ℓ₊ − s⁺)/α."""
        a, gamma, s = self._read("a", "gamma", "s_pos")
        return -s - _smooth_hinge(-_square_of_positives(share_P, a, gamma) - s, self.kappa) / self.alpha
