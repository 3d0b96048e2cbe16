"""Pointwise losses: each score is compared with its own target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.losses.gains import grades
from shortlist.parameters import Search, param
from shortlist.scores import Hinge, Kernel, ScoreTable, Similarity, Sizes, Softplus


@registry.register("bce")
class BCE(Loss):
    r"""Binary cross-entropy.

    .. math:: L_{ui} = \ln(1 + e^{-s_{ui}}) + \sum_{j \in N_u} \ln(1 + e^{s_{uj}})

    He et al., "Neural Collaborative Filtering", WWW 2017; Kang & McAuley, "Self-Attentive Sequential Recommendation",
    ICDM 2018.

    >>> import torch
    >>> BCE()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(2.0794)
    """

    formula = "ln(1 + exp(−s_i)) + Σ_j ln(1 + exp(s_j))"
    target = "accuracy; NDCG where s_i ≥ 0"
    citation = "He et al., WWW 2017; Kang & McAuley, ICDM 2018"
    cost = "one drawn negative per positive; with all items, one pass over their scores"
    use = "Where scores are read as probabilities; for ranking alone a softmax loss does better."
    sampled: ClassVar[int | None] = 1

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        negative_P = table.per_positive(table.row_sum(Softplus()))
        return mean_over_positives(table, Softplus().value(-table.positives()) + negative_P)


@registry.register("gbce")
class GBCE(Loss):
    r"""Generalised binary cross-entropy: the positive's term is reduced to correct for negatives that are not sampled.

    .. math:: L_{ui} = \beta\,\ln(1 + e^{-s_{ui}}) + \sum_{j \in \hat N_u} \ln(1 + e^{s_{uj}}),\quad
              \beta = 1 - t\,(1 - \alpha),\quad \alpha = |\hat N_u| / |N_u|

    BCE becomes overconfident if only a fraction of the negatives is sampled. α is that fraction, and t is the strength
    of the correction: 0 for none, 1 for a full one. With all negatives, β = 1 and the loss is BCE. In your own training
    loop, pass the size of the catalogue; without it the given negatives are assumed to be all.

    Petrov & Macdonald, "gSASRec: Reducing Overconfidence in Sequential Recommendation Trained with Negative Sampling",
    RecSys 2023.

    >>> loss = GBCE(t=1.0)
    >>> loss(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]), n_items=5)  # half of them: (½ + 2)·ln 2
    tensor(1.7329)
    """

    formula = "β·ln(1 + exp(−s_i)) + Σ_j ln(1 + exp(s_j)), β = 1 − t·(1 − N/|N_u|)"
    target = "accuracy, calibrated where negatives are sampled"
    citation = "Petrov & Macdonald, RecSys 2023"
    cost = "256 drawn negatives per positive; with all items it is BCE"
    use = "Instead of BCE where negatives are drawn and scores are read as probabilities."
    sampled: ClassVar[int | None] = 256

    t: float = param(
        default=0.75, at_least=0, at_most=1, help="strength t of the correction for sampling", search=Search(0.0, 1.0)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        n_negatives_R = table.catalogue_negatives_R()
        fraction_R = torch.where(n_negatives_R > 0, table.n_represented_R / n_negatives_R, 1).clamp(max=1)
        beta_P = table.per_positive(1 - self.t * (1 - fraction_R))
        positive_P = beta_P * Softplus().value(-table.positives())
        return mean_over_positives(table, positive_P + table.per_positive(table.row_sum(Softplus())))


class _HalfSquare(Kernel):
    """φ(x) = ½·x²."""

    def value(self, x: Tensor) -> Tensor:
        return self.slope(x).square().mul(0.5)

    def slope(self, x: Tensor) -> Tensor:
        return torch.where(x == -torch.inf, 0, x)


@registry.register("mse")
class MSE(Loss):
    r"""Mean squared error: the target of a positive is 1, or its grade if labels are graded; that of a negative is 0.

    .. math:: L_{ui} = \tfrac12 (s_{ui} - y_{ui})^2 + \tfrac{w}{2} \sum_{j \in N_u} s_{uj}^2

    Many negatives outweigh one positive: with the full catalogue choose a small w.

    He & Chua, "Neural Factorization Machines for Sparse Predictive Analytics", SIGIR 2017.

    >>> MSE()(torch.tensor([0.0]), torch.tensor([[2.0]]))  # ½·1 + ½·4
    tensor(2.5000)
    """

    formula = "½·(s_i − 1)² + w/2·Σ_j s_j²"
    target = "regression"
    citation = "He & Chua, SIGIR 2017"
    cost = "one drawn negative per positive; with all items, one pass over their scores"
    use = "Where scores should approximate given values; for the order of a list other losses do better."
    collapse_hint = "a smaller loss.weight"
    sampled: ClassVar[int | None] = 1

    weight: float = param(
        default=1.0, above=0, help="weight w of a negative relative to a positive", search=Search(1e-3, 1.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        negatives_P = table.per_positive(table.row_sum(_HalfSquare()))
        return mean_over_positives(table, (table.positives() - grades(table)).square() / 2 + self.weight * negatives_P)


@registry.register("ccl")
class CCL(Loss):
    r"""Cosine contrastive loss: only negatives above a margin have a gradient.

    .. math:: L_{ui} = \max(0, 1 - s_{ui}) + \frac{w}{|N_u|} \sum_{j \in N_u} \max(0, s_{uj} - m)

    Once every negative is below m, no negative has a gradient; with m = −1 all cosines have one.

    Mao et al., "SimpleX: A Simple and Strong Baseline for Collaborative Filtering", CIKM 2021.

    >>> CCL(margin=0.5, weight=10.0)(torch.tensor([0.5]), torch.tensor([[0.0, 1.0]]))  # ½ + 10·½·½
    tensor(3.)
    """

    formula = "max(0, 1 − s_i) + w·mean_j max(0, s_j − m)"
    target = "none proven"
    citation = "Mao et al., CIKM 2021"
    cost = "one pass over the scores of all items"
    use = "With cosine scores, where most negatives are easy; tune margin and weight together."
    collapse_hint = "a larger loss.margin or a smaller loss.weight"
    similarity: ClassVar[Similarity] = "cosine"

    margin: float = param(default=0.5, help="margin m above which negatives are penalised", search=Search(-0.5, 0.9))
    weight: float = param(
        default=10.0, above=0, help="weight w of the negatives' mean", search=Search(1.0, 500.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        mean_R = table.row_sum(Hinge(-self.margin)) / table.n_represented_R.clamp(min=1)
        return mean_over_positives(
            table, (1 - table.positives()).clamp(min=0) + self.weight * table.per_positive(mean_R)
        )


@registry.register("tce")
class TCE(Loss):
    r"""Truncated cross-entropy: BCE without the positives of the step that have the largest loss, which may be noise.

    .. math:: L_{ui} = [\,i \text{ is kept}\,]\,\ln(1 + e^{-s_{ui}}) + \sum_{j \in N_u} \ln(1 + e^{s_{uj}}),\quad
              \epsilon(T) = \epsilon\,\min\bigl(1, (T/T_g)^c\bigr)

    The fraction ε(T) of a step's positives with the largest terms is dropped. It grows with the number T of training
    steps, because at first every positive has a large loss. The published code computes the fraction over positives and
    negatives together, which would drop all positives if there are many negatives; here it is over positives only.

    Wang et al., "Denoising Implicit Feedback for Recommendation", WSDM 2021.

    >>> loss = TCE(drop=0.5, gradual=0)
    >>> loss(torch.tensor([0.0, -9.0]), torch.zeros(2, 0))  # one of two positives is left: ½·ln 2
    tensor(0.3466)
    """

    formula = "[i is kept]·ln(1 + exp(−s_i)) + Σ_j ln(1 + exp(s_j))"
    target = "accuracy, where some positives are noise"
    citation = "Wang et al., WSDM 2021"
    cost = "that of BCE, plus a selection among the step's positives"
    use = "Where a known fraction of the interactions is noise."
    sampled: ClassVar[int | None] = 1

    drop: float = param(
        default=0.2,
        at_least=0,
        below=1,
        help="fraction ε of positives that is finally dropped",
        search=Search(0.0, 0.5),
    )
    gradual: int = param(default=30_000, at_least=0, help="steps T_g until the full fraction is dropped")
    exponent: float = param(
        default=1.0, above=0, help="exponent c of the schedule: below 1 early, above 1 late", search=Search(0.5, 2.0)
    )

    step: Tensor

    def __post_init__(self) -> None:
        """Create the step counter."""
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """Reset the step counter."""
        self.step.zero_()

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        term_P = Softplus().value(-table.positives())
        keep_P = self._keep_factors(term_P.detach(), table.context.weight_P)
        if self.training and torch.is_grad_enabled():
            self.step += 1
        # a product instead of a selection, so that NaN in a dropped term still propagates
        return mean_over_positives(table, keep_P * term_P + table.per_positive(table.row_sum(Softplus())))

    def _keep_factors(self, term_P: Tensor, weight_P: Tensor | None) -> Tensor:
        """The keep factor of each positive: 0 for the largest terms; with weights the last one may be fractional.

        Integer weights are repetitions, of which an integer number is dropped; the added 1e-9 corrects rounding errors
        of the fraction.
        """
        progress = 1.0 if not self.gradual else min(1.0, int(self.step) / self.gradual)
        fraction = self.drop * progress**self.exponent
        keep_P = torch.ones_like(term_P)
        if weight_P is None:
            keep_P[term_P.topk(int(fraction * len(term_P) + 1e-9)).indices] = 0
            return keep_P
        order_P = term_P.argsort(descending=True)
        weight_S = weight_P.to(term_P.dtype)[order_P]
        dropped = fraction * weight_S.sum()
        if bool((weight_S == weight_S.round()).all()):
            dropped = (dropped + 1e-9).floor()
        left_S = (dropped - (weight_S.cumsum(0) - weight_S)).clamp(min=0)
        keep_P[order_P] = 1 - (left_S / weight_S.clamp(min=1e-30)).clamp(max=1)
        return keep_P


@dataclass(frozen=True)
class _TrustedSoftplus(Kernel):
    """φ(x) = σ(−x)^α·ln(1 + eˣ), with a constant first factor."""

    alpha: float

    def value(self, x: Tensor) -> Tensor:
        return Softplus().value(x) * self._trust(x)

    def slope(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x) * self._trust(x)

    def _trust(self, x: Tensor) -> Tensor:
        return Softplus().value(x.detach()).mul_(-self.alpha).exp_()


@registry.register("rce")
class RCE(Loss):
    r"""Reweighted cross-entropy: each term of BCE is weighted by the model's current probability of its label.

    .. math:: L_{ui} = \mathrm{sg}(\hat y_{ui}^\alpha)\,\ln(1 + e^{-s_{ui}})
              + \sum_{j \in N_u} \mathrm{sg}\bigl((1-\hat y_{uj})^\alpha\bigr)\,\ln(1 + e^{s_{uj}}),\quad
              \hat y = \sigma(s)

    The weights are constant (sg: stop-gradient); otherwise the loss could be reduced by making them small. With α = 0
    it is BCE. Many negatives per positive decrease all probabilities, and with them the weights of positives: use a
    smaller α then.

    Wang et al., "Denoising Implicit Feedback for Recommendation", WSDM 2021.

    >>> RCE(alpha=1.0)(torch.tensor([0.0]), torch.tensor([[0.0]]))  # ½·ln 2 + ½·ln 2
    tensor(0.6931)
    """

    formula = "sg(σ(s_i)^α)·ln(1 + exp(−s_i)) + Σ_j sg(σ(−s_j)^α)·ln(1 + exp(s_j))"
    target = "accuracy, where some labels are noise"
    citation = "Wang et al., WSDM 2021"
    cost = "that of BCE"
    use = "Where an unknown fraction of the interactions is noise; a soft alternative to tce."
    collapse_hint = "a smaller loss.alpha"
    sampled: ClassVar[int | None] = 1

    alpha: float = param(
        default=0.2, at_least=0, help="exponent α of the label's probability", search=Search(0.05, 1.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        kernel = _TrustedSoftplus(self.alpha)
        return mean_over_positives(table, kernel.value(-table.positives()) + table.per_positive(table.row_sum(kernel)))
