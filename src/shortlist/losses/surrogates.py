"""Smooth surrogates of NDCG: ranks are replaced by differentiable functions."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from shortlist.losses.base import Loss, mean_over_positives, mean_over_rows, registry
from shortlist.losses.gains import dcg_discount, gains, ideal_dcg, normalized_gains
from shortlist.parameters import Search, param
from shortlist.scores import Kernel, ScoreTable, Sigmoid, Similarity, Sizes, SquaredHinge, positive_pair_sum


@registry.register("approx_ndcg")
class ApproxNDCG(Loss):
    r"""ApproxNDCG: NDCG whose ranks are sums of sigmoids.

    .. math:: L_u = -\frac{1}{Z_u} \sum_{i \in P_u} \frac{G_i}{\log_2(1 + \tilde\pi_i)},\quad
              \tilde\pi_i = 1 + \sum_{j \ne i} \sigma\bigl(a\,(s_j - s_i)\bigr)

    for each user; the value is the mean over users. As a grows it becomes −NDCG, and its gradient vanishes. The sum
    over sampled negatives is scaled to the catalogue.

    Qin et al., "A General Approximation Framework for Direct Optimization of Information Retrieval Measures",
    Information Retrieval 2010.

    >>> ApproxNDCG()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0, 0.0, 0.0]]))
    tensor(-0.5000)
    """

    formula = "−Σ_i G_i/(Z·log₂(1 + π̃_i)), π̃_i = 1 + Σ_j σ(a·(s_j − s_i)), of a user"
    target = "NDCG"
    citation = "Qin et al., Information Retrieval 2010"
    cost = "a pass over all items per positive"
    use = "Where lists are graded and a smooth approximation of NDCG should be optimised."
    collapse_hint = "a smaller loss.sharpness"

    sharpness: float = param(
        default=1.0, above=0, help="sharpness a of the sigmoids", search=Search(0.1, 100.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over rows that have a positive."""
        kernel = Sigmoid(self.sharpness)
        above_P = table.per_positive(table.sampling_scale_R()) * table.pair_sum(kernel) + positive_pair_sum(
            table, kernel
        )
        gain_P = normalized_gains(table)
        return mean_over_rows(table, -table.row_total(gain_P * dcg_discount(1 + above_P)))


class SONGEstimate:
    """Estimates of a step's positives in SONG: ĝ, its moving average u, and f and f′ at u.

    ``ideal_P`` is the ideal DCG Z of each positive's row, which divides the gains; None: gains are not normalised.
    """

    def __init__(
        self, table: ScoreTable, average: Tensor | None, margin: float, gamma: float, ideal_P: Tensor | None
    ) -> None:
        n_represented_P = table.per_positive(table.n_represented_R).clamp(min=1)
        self.estimate_P = table.pair_sum(SquaredHinge(margin)) / n_represented_P
        self.average_P = ema_read(average, table.context.pair_P, self.estimate_P.detach(), gamma)
        count_P = table.per_positive(table.catalogue_negatives_R())
        rank_P = margin**2 + count_P * self.average_P
        gain_P = gains(table) if ideal_P is None else gains(table) / ideal_P.clamp(min=1e-30)
        discount_P = dcg_discount(rank_P)
        self.value_P = -gain_P * discount_P
        self.slope_P = gain_P * count_P * discount_P.square() / (math.log(2) * (1 + rank_P))

    def surrogate(self, weight_P: Tensor | float = 1.0) -> Tensor:
        """A number per positive with the value w·f(u) and the gradient w·f′(u)·∇ĝ."""
        gap_P = self.slope_P * (self.estimate_P - self.estimate_P.detach())
        return weight_P * (self.value_P + gap_P)


@registry.register("song")
class SONG(Loss):
    r"""SONG: NDCG with ranks bounded by squared hinges, whose means are moving averages over steps.

    .. math:: f(g_{ui}) = -\frac{G_i}{Z_u \log_2\bigl(1 + c^2 + |N_u|\,g_{ui}\bigr)},\quad
              g_{ui} = \frac{1}{|N_u|} \sum_{j \in N_u} (s_j - s_i + c)_+^2

    ĝ is the estimate of g from the negatives of the step. The moving average u ← (1 − γ)·u + γ·ĝ, one per training pair
    and initialised with the first ĝ, replaces g in f. The value is f(u), the gradient f′(u)·∇ĝ. A positive contributes
    c² to its own rank, which is therefore never 0; the other positives of its row do not count. Z is the ideal DCG of
    the row's positives: 1 where each pair is a row. Without ``normalised`` Z is 1 everywhere, and users with many
    positives have more weight.

    Qiu et al., "Large-scale Stochastic Optimization of NDCG Surrogates for Deep Learning with Provable Convergence",
    ICML 2022.

    >>> SONG()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(-0.5000)
    """

    formula = "−G_i/(Z·log₂(1 + c² + |N_u|·mean_j (s_j − s_i + c)₊²)), the mean a moving average"
    target = "NDCG"
    citation = "Qiu et al., ICML 2022"
    cost = "a pass over all items per positive"
    use = "Where few negatives are sampled and NDCG should be approximated."
    similarity: ClassVar[Similarity] = "cosine"

    gamma: float = param(
        default=0.9, above=0, at_most=1, help="weight γ of the new value in the moving average", search=Search(0.1, 1.0)
    )
    margin: float = param(default=1.0, above=0, help="margin c of the squared hinge")
    normalised: bool = param(default=True, help="whether gains are divided by the ideal DCG of the user's positives")

    average: Tensor | None

    def __post_init__(self) -> None:
        self.register_buffer("average", None)

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """A moving average for each training pair; NaN before its first update."""
        self.average = nan_state(sizes.n_pairs)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        ideal_P = ideal_dcg(table) if self.normalised else None
        estimate = SONGEstimate(table, self.average, self.margin, self.gamma, ideal_P)
        ema_write(self, self.average, table.context.pair_P, estimate.average_P)
        return mean_over_positives(table, estimate.surrogate())


def nan_state(count: int | None) -> Tensor | None:
    """State for ``count`` entries, NaN before their first update; None without entries."""
    return None if count is None else torch.full((count,), torch.nan)


def ema_write(loss: Loss, state: Tensor | None, place: Tensor | None, value: Tensor) -> None:
    """Store moving averages, in training and if there is an index."""
    if loss.training and torch.is_grad_enabled() and state is not None and place is not None:
        state[place] = value.detach().to(state.dtype)


def ema_read(state: Tensor | None, place: Tensor | None, new: Tensor, gamma: float) -> Tensor:
    """The stored averages moved towards the new values, ``u + γ·(new − u)``; the new values before the first update."""
    if state is None or place is None:
        return new
    before = state[place].to(new.dtype)
    return torch.where(before.isnan(), new, before + gamma * (new - before))


def mean_over_key(value_R: Tensor, key_R: Tensor | None) -> Tensor:
    """The mean over all rows with the same key; the value unchanged if rows have no keys.

    >>> mean_over_key(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([7, 3, 7]))
    tensor([3., 2., 3.])
    """
    if key_R is None:
        return value_R
    _, place_R, count_N = key_R.unique(return_inverse=True, return_counts=True)
    mean_N: Tensor = value_R.new_zeros(len(count_N)).index_add_(0, place_R, value_R) / count_N
    return mean_N[place_R]


class SigmoidSlope(Kernel):
    """φ(x) = σ′(x/τ)/τ, a window of width τ around 0; it is summed, never differentiated."""

    def __init__(self, tau: float) -> None:
        self._sigmoid = Sigmoid(1 / tau)

    def value(self, x: Tensor) -> Tensor:
        """σ′(x/τ)/τ."""
        return self._sigmoid.slope(x)

    def slope(self, x: Tensor) -> Tensor:
        """Not implemented."""
        raise NotImplementedError


_EPSILON = 0.5  # ε in (0, 1) puts the minimum at the (K + 1)-th largest score; with 0 it lies anywhere up to the K-th


@registry.register("song_at_k")
class SONGAtK(Loss):
    r"""SONG@K, known as K-SONG: SONG whose positives are weighted by their score relative to a learned threshold λ.

    .. math:: L_{ui} = \psi_{ui}\,f(u_{ui}),\quad \psi_{ui} = \sigma\bigl(c_\psi\,(s_i - \lambda_u)\bigr),\quad
              \lambda_u \leftarrow \lambda_u - \eta\Bigl[\tfrac{K + \epsilon}{n} + \tau_2 \lambda_u
              - \tfrac{1}{n} \sum_j \sigma\bigl(\tfrac{s_j - \lambda_u}{\tau_1}\bigr)\Bigr]

    with f and u as in :class:`SONG`, where Z is the ideal DCG@K. λ converges to the (K + 1)-th largest score of all
    items; sampled negatives are scaled to the number that they represent. λ starts at 0.
    In ``prac``, ψ is constant. ``theo`` adds the gradient through ψ,
    :math:`\psi'\,f(u)\,\nabla\bigl(s_i - \sum_j h_j s_j / (n H_u)\bigr)` with
    :math:`h_j = \sigma'((s_j - \lambda)/\tau_1)/\tau_1` held constant and H the moving average of
    :math:`\tau_2 + \frac1n \sum_j h_j`. The value is ψ·f(u) in both.

    Qiu et al., "Large-scale Stochastic Optimization of NDCG Surrogates for Deep Learning with Provable Convergence",
    ICML 2022.

    >>> SONGAtK(k=1)(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(-0.2500)
    """

    formula = "σ(c·(s_i − λ_u))·f(u_i), f as in song, λ_u learned as the (K + 1)-th largest score"
    target = "NDCG@K"
    citation = "Qiu et al., ICML 2022"
    cost = "a pass over all items per positive, and one per user for the threshold"
    use = "As SONG, where a list of K items is shown."
    similarity: ClassVar[Similarity] = "cosine"

    k: int = param(default=20, at_least=1, help="K, the length of the list that is shown")
    gamma: float = param(
        default=0.9, above=0, at_most=1, help="weight γ of the new value in the moving average", search=Search(0.1, 1.0)
    )
    margin: float = param(default=1.0, above=0, help="margin c of the squared hinge")
    normalised: bool = param(default=True, help="whether gains are divided by the ideal DCG@K of the user's positives")
    gradient: Literal["prac", "theo"] = param(
        default="prac", help="whether ψ is constant (prac), or the gradient flows through ψ and λ (theo)"
    )
    sharpness: float = param(default=2.0, above=0, help="sharpness c of the weight ψ")
    eta: float = param(default=0.1, above=0, help="step size η of λ", search=Search(1e-4, 0.1, log=True))
    tau1: float = param(default=0.01, above=0, help="temperature τ₁ of the count of scores above λ")
    tau2: float = param(default=1e-4, above=0, help="weight τ₂ of the penalty on λ")
    gamma1: float = param(default=0.9, above=0, at_most=1, help="weight γ₁ of the new value in the average of H")

    average: Tensor | None
    threshold: Tensor | None
    curvature: Tensor | None

    def __post_init__(self) -> None:
        for name in ("average", "threshold", "curvature"):
            self.register_buffer(name, None)

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """Averages of pairs, λ and H of keys; averages are NaN before their first update."""
        self.average, self.curvature = nan_state(sizes.n_pairs), nan_state(sizes.n_keys)
        self.threshold = None if sizes.n_keys is None else torch.zeros(sizes.n_keys)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        ideal_P = ideal_dcg(table, self.k) if self.normalised else None
        estimate = SONGEstimate(table, self.average, self.margin, self.gamma, ideal_P)
        pos_P = table.positives()
        lambda_R = torch.zeros_like(table.n_represented_R).to(pos_P.dtype)
        if self.threshold is not None and table.context.key_R is not None:
            lambda_R = self.threshold[table.context.key_R].to(pos_P.dtype)
        lambda_P = table.per_positive(lambda_R)
        psi_P = torch.sigmoid(self.sharpness * (pos_P - lambda_P)).detach()
        value_P = estimate.surrogate(psi_P)
        if self.gradient == "theo":
            fraction_R = self._fraction_above(table, Sigmoid(1 / self.tau1), lambda_R)
            with torch.no_grad():
                hessian_R = self.tau2 + self._fraction_above(table, SigmoidSlope(self.tau1), lambda_R)
                hessian_R = mean_over_key(hessian_R, table.context.key_R)
            curvature_R = ema_read(self.curvature, table.context.key_R, hessian_R, self.gamma1)
            ema_write(self, self.curvature, table.context.key_R, curvature_R)
            # the gradient of the fraction above λ is that of the h-weighted mean of scores
            gap_P = pos_P - table.per_positive(fraction_R / curvature_R)
            slope_P = self.sharpness * psi_P * (1 - psi_P) * estimate.value_P
            value_P = value_P + slope_P * (gap_P - gap_P.detach())
        ema_write(self, self.average, table.context.pair_P, estimate.average_P)
        if self.training and torch.is_grad_enabled():
            self._move_threshold(table, lambda_R)
        return mean_over_positives(table, value_P)

    def _fraction_above(self, table: ScoreTable, kernel: Kernel, lambda_R: Tensor) -> Tensor:
        """(1/n)·Σ_j φ(s_j − λ) over all items, with the table's negatives and positives scaled to those of the user."""
        own_R = table.row_total(kernel.value(table.positives() - table.per_positive(lambda_R)))
        positives_R = table.catalogue_R() - table.catalogue_negatives_R()
        scale_R = positives_R / torch.bincount(table.row_P, minlength=table.n_rows).clamp(min=1)
        total_R = table.sampling_scale_R() * table.row_sum(kernel, lambda_R) + scale_R * own_R
        return total_R / table.catalogue_R().clamp(min=1)

    @torch.no_grad()
    def _move_threshold(self, table: ScoreTable, lambda_R: Tensor) -> None:
        """A gradient step on λ; the gradients of a user with several rows are averaged."""
        if self.threshold is None or table.context.key_R is None:
            return
        fraction_R = self._fraction_above(table, Sigmoid(1 / self.tau1), lambda_R)
        wanted_R = (self.k + _EPSILON) / table.catalogue_R().clamp(min=1)
        grad_R = mean_over_key(wanted_R + self.tau2 * lambda_R - fraction_R, table.context.key_R)
        self.threshold[table.context.key_R] = (lambda_R - self.eta * grad_R).to(self.threshold.dtype)
