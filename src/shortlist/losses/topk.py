"""Softmax losses for the Top-K: positives are weighted by their score relative to the row's Top-K threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from shortlist.errors import InputError
from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.losses.contrastive import LogEMA, averaged_terms
from shortlist.losses.softmax import softmax_terms
from shortlist.parameters import Search, param
from shortlist.scores import Kernel, Over, ScoreTable, Similarity, Sizes
from shortlist.thresholds import Estimator, Thresholds

_LN2 = math.log(2)


@registry.register("slatk")
class SLAtK(Loss):
    r"""SL@K: softmax loss whose positives are weighted by their score relative to the row's Top-K threshold β.

    .. math:: L_{ui} = w_{ui}\,\Bigl(\ln \sum_j e^{s_{uj}/\tau} - c\,s_{ui}/\tau\Bigr),\quad
              w_{ui} = \sigma\bigl((s_{ui}-\beta_u)/\tau_w\bigr)

    The defaults are the published loss: c = 1, and the gradient flows through the weight. β has no gradient. With all
    items in the sum and exact β, the sum over a user's positives bounds −ln DCG@K where at least two of them are in the
    Top-K, and half of that where one is (Theorem 3.2).

    The gradient through the weight adds ``w(1−w)/τ_w`` times the bracket ℓ at the positive. It acts as a smaller c,
    about ``1 − (1−w)·ℓ·τ/τ_w``, so the ratio τ_w/τ matters: the published optima are all near 10, the default, and
    training collapses if the ratio is small relative to ℓ. :class:`SLAtKDetached` separates the two effects.

    The weight multiplies the logarithm, so the scale of the sum matters, unlike in SL: ``negatives`` is the number of
    negatives that the sum is scaled to.

    Yang et al., "Breaking the Top-K Barrier: Advancing Top-K Ranking Metrics Optimization in Recommender Systems", KDD
    2025.

    >>> loss = SLAtK(k=1, tau=1.0, tau_w=1.0, negatives=2.0)
    >>> loss(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]), threshold=torch.tensor([1.0]))
    tensor(-0.1534)
    >>> SLAtK(tau=0.1).weight_temperature, SLAtK(tau=0.1, tau_w=2.5).weight_temperature
    (1.0, 2.5)
    """

    aliases = ("SL@K", "SoftmaxLoss@K")
    formula = "σ((s_i − β_u)/τ_w)·(ln Σ_j exp(s_j/τ) − c·s_i/τ)"
    target = "NDCG@K"
    collapse_hint = "a larger loss.tau_w_ratio, or --loss slatk_detached"
    citation = "Yang et al., KDD 2025"
    cost = "one pass over the scores of all items, and the K-th largest of each row in every refresh-th epoch"
    use = "Where a list of K items is shown and ranks below K do not matter."
    similarity: ClassVar[Similarity] = "cosine"
    reads_thresholds: ClassVar[bool] = True

    k: int = param(default=20, at_least=1, help="K, the length of the list that is shown")
    tau: float = param(default=0.2, above=0, help="temperature τ of the scores", search=Search(0.02, 0.5, log=True))
    tau_w_ratio: float = param(
        default=10.0, above=0, help="τ_w as a multiple of τ, if tau_w is none", search=Search(2.5, 40.0, log=True)
    )
    tau_w: float | None = param(default=None, above=0, help="temperature τ_w of the weight; none: tau_w_ratio times τ")
    weight: Literal["published", "detached"] = param(
        default="published", help="whether the gradient flows through the weight (published) or not (detached)"
    )
    positive_weight: float = param(default=1.0, above=0, help="factor c on the positive's term", aliases=("pull",))
    denominator: Over = param(default="negatives", help="what the sum runs over: the user's negatives, or all items")
    negatives: float = param(default=1000.0, above=0, help="how many negatives the sum over negatives is scaled to")
    threshold: Estimator = param(default="auto", help="estimator of β; auto: exact from full rows, else stratified")
    samples: int = param(default=1000, at_least=1, help="number of items in the sample for a sampled threshold")
    refresh: int = param(default=5, at_least=1, help="epochs between refreshes of β")

    @property
    def weight_temperature(self) -> float:
        """τ_w: as given, or the multiple of τ."""
        return self.tau * self.tau_w_ratio if self.tau_w is None else self.tau_w

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        term_P = softmax_terms(table, self.tau, self.denominator, self.positive_weight, self.negatives)
        weight_P = self.weights(table)
        return mean_over_positives(table, (weight_P.detach() if self.weight == "detached" else weight_P) * term_P)

    def weights(self, table: ScoreTable) -> Tensor:
        """w of each positive."""
        return torch.sigmoid(_above_threshold(self, table) / self.weight_temperature)

    def collapse_hint_for(self) -> str:
        """A larger τ_w, by the parameter that sets it; also a detached weight if it is not detached."""
        larger = "a larger loss.tau_w_ratio" if self.tau_w is None else "a larger loss.tau_w"
        return larger if self.weight == "detached" else f"{larger}, or --loss slatk_detached"

    def thresholds(self, sizes: Sizes) -> Thresholds:
        """β of every row, refreshed according to the parameters."""
        return _thresholds(self, sizes)


@registry.register("slatk_detached")
class SLAtKDetached(SLAtK):
    r"""SL@K with a detached weight: stable for every τ_w, with the positive's factor c as a separate parameter.

    .. math:: L_{ui} = \bar w_{ui}\,\Bigl(\ln \sum_j e^{s_{uj}/\tau} - c\,s_{ui}/\tau\Bigr),\quad
              \bar w_{ui} = \sigma\bigl((s_{ui}-\beta_u)/\tau_w\bigr) \text{ constant}

    The published :class:`SLAtK` combines two effects: positives near or above the threshold have more weight, and the
    gradient of hard positives is smaller, because it also flows through the weight. Here the detached weight gives the
    first effect and c < 1 the second. Training does not collapse, so τ_w can be small, and then K affects the lists
    strongly. The default τ_w of 2.5 is conservative: it equals or exceeds SL on every data set tested, but the effect
    of K is small.

    >>> loss = SLAtKDetached(k=1, tau=1.0, tau_w=1.0, positive_weight=1.0, negatives=2.0)
    >>> loss(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]), threshold=torch.tensor([1.0]))
    tensor(-0.1534)
    """

    formula = "σ((s_i − β_u)/τ_w)·(ln Σ_j exp(s_j/τ) − c·s_i/τ), the weight constant"
    collapse_hint = "a larger loss.tau_w"
    use = "As slatk, if it collapses, rows have one positive, or K should have a strong effect (a small loss.tau_w)."

    weight: Literal["published", "detached"] = param(
        default="detached", help="whether the gradient flows through the weight (published) or not (detached)"
    )
    tau_w_ratio: float = param(default=10.0, above=0, help="τ_w as a multiple of τ, if tau_w is none")
    tau_w: float | None = param(
        default=2.5,
        above=0,
        help="temperature τ_w of the weight; none: tau_w_ratio times τ",
        search=Search(0.1, 3.0, log=True),
    )
    positive_weight: float = param(
        default=0.9, above=0, help="factor c on the positive's term", search=Search(0.6, 1.0), aliases=("pull",)
    )


@dataclass(frozen=True)
class SigmoidPower(Kernel):
    """φ(x) = (2·σ(x))^{1/τ}: 1 at the threshold, where σ^{1/τ} itself may underflow."""

    tau: float

    def value(self, x: Tensor) -> Tensor:
        """(2·σ(x))^{1/τ}."""
        return ((F.logsigmoid(x) + _LN2) / self.tau).exp()

    def slope(self, x: Tensor) -> Tensor:
        """φ(x)·(1 − σ(x))/τ."""
        return self.value(x) * torch.sigmoid(-x) / self.tau


@registry.register("talos")
class Talos(Loss):
    r"""Talos: a softmax over sigmoids of the scores relative to the row's Top-K threshold β.

    .. math:: L_{ui} = \ln \sum_j \sigma(s_{uj}-\beta_u)^{1/\tau} - \tfrac{1}{\tau} \ln \sigma(s_{ui}-\beta_u)

    over the user's negatives, or over all items. β has no gradient. Scores far above the threshold have small
    gradients, and the sum prevents all scores from growing together. With β → ∞ it is SL at τ, since ln σ(x) → x for
    x → −∞. The authors update β by steps of quantile regression (``threshold="regression"``); where the full catalogue
    is scored, the default is exact.

    Zhang et al. (Talos), WWW 2026.

    >>> loss = Talos(k=1, tau=1.0)
    >>> loss(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]), threshold=torch.tensor([0.0]))
    tensor(0.6931)
    """

    formula = "ln Σ_j σ(s_j − β_u)^{1/τ} − ln σ(s_i − β_u)/τ"
    target = "Precision@K, Recall@K"
    collapse_hint = "a larger loss.tau"
    citation = "Zhang et al., WWW 2026"
    cost = "one pass over the scores of all items, and the K-th largest of each row in every refresh-th epoch"
    use = "Where a list of K items is shown, their order does not matter, and preferences shift over time."
    similarity: ClassVar[Similarity] = "cosine"
    reads_thresholds: ClassVar[bool] = True

    k: int = param(default=20, at_least=1, help="K, the length of the list that is shown")
    tau: float = param(default=0.1, at_least=0.01, help="temperature τ", search=Search(0.05, 0.3, log=True))
    denominator: Over = param(default="negatives", help="what the sum runs over: the user's negatives, or all items")
    threshold: Estimator = param(default="auto", help="estimator of β; auto: exact from full rows, else stratified")
    samples: int = param(default=1000, at_least=1, help="number of items in the sample for a sampled threshold")
    refresh: int = param(default=1, at_least=1, help="epochs between refreshes of β")

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        kernel, above_P = SigmoidPower(self.tau), _above_threshold(self, table)
        assert table.context.threshold_R is not None  # _above_threshold raises without it
        sum_R = table.sampling_scale_R() * table.row_sum(kernel, table.context.threshold_R.detach())
        if self.denominator == "all":
            sum_R = sum_R + table.row_total(kernel.value(above_P))
        sum_P = table.per_positive(sum_R)
        present_P = sum_P != 0
        log_P = torch.where(present_P, sum_P, 1).log()
        return mean_over_positives(table, torch.where(present_P, log_P - (F.logsigmoid(above_P) + _LN2) / self.tau, 0))

    def thresholds(self, sizes: Sizes) -> Thresholds:
        """β of every row, refreshed according to the parameters."""
        return _thresholds(self, sizes)


@registry.register("sogslatk")
class SogSLAtK(Loss):
    r"""SogSL@K: SL@K whose sum over negatives is averaged over the steps that a user appears in, as in SogCLR.

    .. math:: L_{ui} = w_{ui}\,\bigl(-s_{ui}/\tau + \ln g_u + \hat g_u/g_u - 1\bigr),\quad
              w_{ui} = \sigma\bigl((s_{ui}-\beta_u)/\tau_w\bigr)

    with constant weight w and average g; see :class:`~shortlist.losses.contrastive.SogCLR` for g. At γ = 1 this is SL@K
    with a detached weight and its sum scaled to one negative.

    ``form="published"`` is what the authors of SL@K train under this name. It weights only the positive's term, by w
    divided by its mean in the step. Its gradient therefore differs from that of SL@K:

    .. math:: L_{ui} = -\frac{w_{ui}}{\bar w}\,s_{ui}/\tau + \ln g_u + \hat g_u/g_u - 1

    Yang et al., "Breaking the Top-K Barrier: Advancing Top-K Ranking Metrics Optimization in Recommender Systems", KDD
    2025 (its code); Yuan et al., ICML 2022.

    >>> loss = SogSLAtK(k=1, tau=1.0, tau_w=1.0)
    >>> loss(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]), threshold=torch.tensor([1.0]))
    tensor(-0.5000)
    """

    formula = "σ((s_i − β_u)/τ_w)·(−s_i/τ + ln g_u + ĝ_u/g_u − 1), with g_u the average of ĝ_u = mean_j exp(s_j/τ)"
    target = "NDCG@K, with few negatives"
    collapse_hint = "a larger loss.tau"
    citation = "Yang et al., KDD 2025; Yuan et al., ICML 2022"
    cost = "one pass over the scores of all items, and the K-th largest of each row in every refresh-th epoch"
    use = "Where a list of K items is shown and few negatives are sampled."
    similarity: ClassVar[Similarity] = "cosine"
    reads_thresholds: ClassVar[bool] = True

    k: int = param(default=20, at_least=1, help="K, the length of the list that is shown")
    tau: float = param(default=0.2, above=0, help="temperature τ of the scores", search=Search(0.02, 0.5, log=True))
    tau_w: float = param(default=2.5, above=0, help="temperature τ_w of the weight", search=Search(0.1, 3.0, log=True))
    gamma: float = param(
        default=0.9,
        above=0,
        at_most=1,
        help="weight γ of the current step in the average",
        search=Search(choices=(0.1, 0.3, 0.5, 0.7, 0.9)),
    )
    form: Literal["consistent", "published"] = param(
        default="consistent", help="which terms are weighted: both, as in SL@K, or only the positive's, as published"
    )
    threshold: Estimator = param(default="auto", help="estimator of β; auto: exact from full rows, else stratified")
    samples: int = param(default=1000, at_least=1, help="number of items in the sample for a sampled threshold")
    refresh: int = param(default=5, at_least=1, help="epochs between refreshes of β")

    @property
    def weight_temperature(self) -> float:
        """τ_w."""
        return self.tau_w

    def __post_init__(self) -> None:
        self.means: LogEMA | None = None

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """An average for each key, initially unset."""
        self.means = None if sizes.n_keys is None else LogEMA(sizes.n_keys)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        log_weight_P = F.logsigmoid(_above_threshold(self, table).detach() / self.weight_temperature)
        log_P = averaged_terms(table, self.tau, self.gamma, self.means, self.training)
        positive_P, present_P = table.positives() / self.tau, log_P != -torch.inf
        if self.form == "published":  # the mean is computed in logarithms: all weights may underflow to 0
            log_mean = _log_mean_of_exp(log_weight_P[present_P], table.context.weight_P, present_P)
            relative_weight_P = torch.where(present_P, (log_weight_P - log_mean[0]).exp() * log_mean[1], 0)
            return mean_over_positives(table, torch.where(present_P, log_P - relative_weight_P * positive_P, 0))
        return mean_over_positives(table, torch.where(present_P, log_weight_P.exp() * (log_P - positive_P), 0))

    def weights(self, table: ScoreTable) -> Tensor:
        """w of each positive."""
        return torch.sigmoid(_above_threshold(self, table) / self.weight_temperature)

    def thresholds(self, sizes: Sizes) -> Thresholds:
        """β of every row, refreshed according to the parameters."""
        return _thresholds(self, sizes)


def _above_threshold(loss: Loss, table: ScoreTable) -> Tensor:
    """The score of each positive minus the threshold of its row, which has no gradient."""
    if table.context.threshold_R is None:
        raise InputError(f"{type(loss).__name__}.threshold: expected the Top-K threshold of each row, received none")
    return table.positives() - table.per_positive(table.context.threshold_R.detach())


def _log_mean_of_exp(log_N: Tensor, weight_P: Tensor | None, present_P: Tensor) -> tuple[Tensor, Tensor]:
    """``ln Σ ω·eˣ`` and ``Σ ω``, whose difference is the logarithm of the weighted mean of eˣ; ω is 1 if not given."""
    if weight_P is None:
        return torch.logsumexp(log_N, 0), present_P.sum()
    weight_N = weight_P[present_P].to(log_N.dtype)
    return torch.logsumexp(log_N + weight_N.log(), 0), weight_N.sum()


def _thresholds(loss: SLAtK | Talos | SogSLAtK, sizes: Sizes) -> Thresholds:
    """β of every row according to the loss's parameters; an error if K exceeds the catalogue."""
    if sizes.n_items is not None and loss.k > sizes.n_items:
        name = f"{type(loss).__name__}.k"
        raise InputError(f"{name}: expected at most {sizes.n_items}, the number of items, received {loss.k}")
    return Thresholds(
        sizes.n_keys, sizes.n_items, loss.k, estimator=loss.threshold, samples=loss.samples, refresh=loss.refresh
    )
