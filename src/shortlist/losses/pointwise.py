"""Pointwise losses: each score against what it should be, on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.parameters import Search, param
from shortlist.scores import Hinge, Kernel, ScoreTable, Similarity, Softplus


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
    cost = "one drawn negative a positive; exactly, one pass over the scores of all items"
    use = "Where a score is to be read as a probability; for ranking alone a softmax loss does better."
    sampled: ClassVar[int | None] = 1

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        return mean_over_positives(Softplus().value(-table.positives()) + table.per_positive(table.row_sum(Softplus())))


@registry.register("gbce")
class GBCE(Loss):
    r"""Generalised binary cross-entropy: the positive's term is weakened by as much as negatives are missing.

    .. math:: L_{ui} = \beta\,\ln(1 + e^{-s_{ui}}) + \sum_{j \in \hat N_u} \ln(1 + e^{s_{uj}}),\quad
              \beta = 1 - t\,(1 - \alpha),\quad \alpha = |\hat N_u| / |N_u|

    With few of the negatives drawn BCE grows overconfident; α is the share that is drawn, and t says how far that is
    made up for: 0 not at all, 1 wholly. Where all negatives are there, β = 1 and the loss is BCE. In a loop of one's
    own the size of the catalogue must be given; without it the negatives at hand are taken for all there are.

    Petrov & Macdonald, "gSASRec: Reducing Overconfidence in Sequential Recommendation Trained with Negative Sampling",
    RecSys 2023.

    >>> loss = GBCE(t=1.0)
    >>> loss(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]), n_items=5)  # half of them: (½ + 2)·ln 2
    tensor(1.7329)
    """

    formula = "β·ln(1 + exp(−s_i)) + Σ_j ln(1 + exp(s_j)), β = 1 − t·(1 − N/|N_u|)"
    target = "accuracy, calibrated where negatives are sampled"
    citation = "Petrov & Macdonald, RecSys 2023"
    cost = "256 drawn negatives a positive; exactly it is BCE"
    use = "In place of BCE where negatives are drawn and scores are to be read as probabilities."
    sampled: ClassVar[int | None] = 256

    t: float = param(
        default=0.75, at_least=0, at_most=1, help="how far missing negatives are made up for", search=Search(0.0, 1.0)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        n_negatives_R = table.catalogue_negatives_R()
        share_R = torch.where(n_negatives_R > 0, table.n_represented_R / n_negatives_R, 1).clamp(max=1)
        beta_P = table.per_positive(1 - self.t * (1 - share_R))
        return mean_over_positives(
            beta_P * Softplus().value(-table.positives()) + table.per_positive(table.row_sum(Softplus()))
        )


class _HalfSquare(Kernel):
    """φ(x) = ½·x²."""

    def value(self, x: Tensor) -> Tensor:
        return self.slope(x).square().mul(0.5)

    def slope(self, x: Tensor) -> Tensor:
        return torch.where(x == -torch.inf, 0, x)


@registry.register("mse")
class MSE(Loss):
    r"""Mean squared error: positives towards 1, or towards their grades where labels are graded; negatives towards 0.

    .. math:: L_{ui} = \tfrac12 (s_{ui} - y_{ui})^2 + \tfrac{w}{2} \sum_{j \in N_u} s_{uj}^2

    Many negatives outweigh the one positive: with a whole catalogue of them choose a small w.

    He & Chua, "Neural Factorization Machines for Sparse Predictive Analytics", SIGIR 2017.

    >>> MSE()(torch.tensor([0.0]), torch.tensor([[2.0]]))  # ½·1 + ½·4
    tensor(2.5000)
    """

    formula = "½·(s_i − 1)² + w/2·Σ_j s_j²"
    target = "regression"
    citation = "He & Chua, SIGIR 2017"
    cost = "one drawn negative a positive; exactly, one pass over the scores of all items"
    use = "Where scores are to be close to given values; for the order of a list other losses do better."
    collapse_hint = "a smaller loss.weight"
    sampled: ClassVar[int | None] = 1

    weight: float = param(
        default=1.0, above=0, help="weight w of each negative beside a positive's 1", search=Search(1e-3, 1.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        aim_P = 1.0 if table.grade_P is None else table.grade_P
        negatives_P = table.per_positive(table.row_sum(_HalfSquare()))
        return mean_over_positives((table.positives() - aim_P).square() / 2 + self.weight * negatives_P)


@registry.register("ccl")
class CCL(Loss):
    r"""Cosine contrastive loss: only negatives above a margin are pushed.

    .. math:: L_{ui} = \max(0, 1 - s_{ui}) + \frac{w}{|N_u|} \sum_{j \in N_u} \max(0, s_{uj} - m)

    Nothing is pushed any more once every negative is below m; m = −1 keeps all of them in play.

    Mao et al., "SimpleX: A Simple and Strong Baseline for Collaborative Filtering", CIKM 2021.

    >>> CCL(margin=0.5, weight=10.0)(torch.tensor([0.5]), torch.tensor([[0.0, 1.0]]))  # ½ + 10·½·½
    tensor(3.)
    """

    formula = "max(0, 1 − s_i) + w·mean_j max(0, s_j − m)"
    target = "none proven"
    citation = "Mao et al., CIKM 2021"
    cost = "one pass over the scores of all items"
    use = "With cosine scores, where most negatives are easy; margin and weight want tuning together."
    collapse_hint = "a larger loss.margin or a smaller loss.weight"
    similarity: ClassVar[Similarity] = "cosine"

    margin: float = param(default=0.5, help="margin m, from which on negatives are pushed", search=Search(-0.5, 0.9))
    weight: float = param(
        default=10.0, above=0, help="weight w of the negatives together", search=Search(1.0, 500.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        mean_R = table.row_sum(Hinge(-self.margin)) / table.n_represented_R.clamp(min=1)
        return mean_over_positives((1 - table.positives()).clamp(min=0) + self.weight * table.per_positive(mean_R))


@registry.register("tce")
class TCE(Loss):
    r"""Truncated cross-entropy: BCE without the positives of the step that it fits worst, for they may be mistakes.

    .. math:: L_{ui} = [\,i \text{ is kept}\,]\,\ln(1 + e^{-s_{ui}}) + \sum_{j \in N_u} \ln(1 + e^{s_{uj}}),\quad
              \epsilon(T) = \epsilon\,\min\bigl(1, (T/T_g)^c\bigr)

    The share ε(T) of a step's positives, those with the largest term, is left out; it grows with the number T of steps
    of training so far, for at first every positive is fitted badly. The published code takes the share of positives and
    negatives together, by which many negatives would leave no positive: here it is of the positives.

    Wang et al., "Denoising Implicit Feedback for Recommendation", WSDM 2021.

    >>> loss = TCE(drop=0.5, gradual=0)
    >>> loss(torch.tensor([0.0, -9.0]), torch.zeros(2, 0))  # one of two positives is left: ½·ln 2
    tensor(0.3466)
    """

    formula = "[i is kept]·ln(1 + exp(−s_i)) + Σ_j ln(1 + exp(s_j))"
    target = "accuracy, where some positives are mistakes"
    citation = "Wang et al., WSDM 2021"
    cost = "that of BCE, and a selection among the step's positives"
    use = "Where a known share of the interactions is noise."
    sampled: ClassVar[int | None] = 1

    drop: float = param(
        default=0.2,
        at_least=0,
        below=1,
        help="share ε of positives that is left out in the end",
        search=Search(0.0, 0.5),
    )
    gradual: int = param(default=30_000, at_least=0, help="steps T_g until the whole share is left out")
    exponent: float = param(
        default=1.0, above=0, help="exponent c of the way there: below 1 soon, above 1 late", search=Search(0.5, 2.0)
    )

    step: Tensor

    def __post_init__(self) -> None:
        """Begin to count."""
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def start(self, n_users: int, n_items: int, n_pairs: int, generator: torch.Generator) -> None:
        """Begin to count anew."""
        self.step.zero_()

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        term_P = Softplus().value(-table.positives())
        kept_P = torch.ones_like(term_P)
        kept_P[term_P.detach().topk(self._dropped(len(term_P))).indices] = 0
        if self.training and torch.is_grad_enabled():
            self.step += 1
        # a product and not a choice: what is left out but no number must still be seen
        return mean_over_positives(kept_P * term_P + table.per_positive(table.row_sum(Softplus())))

    def _dropped(self, n_positives: int) -> int:
        """How many positives of this step are left out; the addend makes up for shares that floats fall short of."""
        way = 1.0 if not self.gradual else min(1.0, int(self.step) / self.gradual)
        return int(self.drop * way**self.exponent * n_positives + 1e-9)


@dataclass(frozen=True)
class _TrustedSoftplus(Kernel):
    """φ(x) = σ(−x)^α·ln(1 + eˣ), whose first factor is held constant."""

    alpha: float

    def value(self, x: Tensor) -> Tensor:
        return Softplus().value(x) * self._trust(x)

    def slope(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x) * self._trust(x)

    def _trust(self, x: Tensor) -> Tensor:
        return Softplus().value(x.detach()).mul_(-self.alpha).exp_()


@registry.register("rce")
class RCE(Loss):
    r"""Reweighted cross-entropy: each term of BCE counts by how much the model believes its label already.

    .. math:: L_{ui} = \mathrm{sg}(\hat y_{ui}^\alpha)\,\ln(1 + e^{-s_{ui}})
              + \sum_{j \in N_u} \mathrm{sg}\bigl((1-\hat y_{uj})^\alpha\bigr)\,\ln(1 + e^{s_{uj}}),\quad
              \hat y = \sigma(s)

    The weights are held constant (sg): otherwise the loss would fall by making them small. With α = 0 it is BCE. Many
    negatives a positive press all probabilities down, and with them the weights of positives: α is then to be smaller.

    Wang et al., "Denoising Implicit Feedback for Recommendation", WSDM 2021.

    >>> RCE(alpha=1.0)(torch.tensor([0.0]), torch.tensor([[0.0]]))  # ½·ln 2 + ½·ln 2
    tensor(0.6931)
    """

    formula = "sg(σ(s_i)^α)·ln(1 + exp(−s_i)) + Σ_j sg(σ(−s_j)^α)·ln(1 + exp(s_j))"
    target = "accuracy, where some labels are mistakes"
    citation = "Wang et al., WSDM 2021"
    cost = "that of BCE"
    use = "Where an unknown share of the interactions is noise; softer than leaving some out."
    collapse_hint = "a smaller loss.alpha"
    sampled: ClassVar[int | None] = 1

    alpha: float = param(
        default=0.2, at_least=0, help="exponent α of the model's belief in a label", search=Search(0.05, 1.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        kernel = _TrustedSoftplus(self.alpha)
        return mean_over_positives(kernel.value(-table.positives()) + table.per_positive(table.row_sum(kernel)))
