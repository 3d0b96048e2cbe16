"""Softmax losses with state: averages of a user's sum over steps, or a learned hardness of each negative."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortlist.adam import adam_step_
from shortlist.errors import InputError
from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.losses.softmax import log_mean_exp
from shortlist.parameters import Search, param
from shortlist.scores import ScoreTable, Similarity, Sizes, Softplus
from shortlist.scores.table import logsumexp_of_positives


class LogEMA(nn.Module):
    """A moving average g of a positive number for each key, stored as ln g, since e^{1/τ} can overflow.

    >>> means = LogEMA(2)
    >>> means.update(torch.tensor([0.0]), torch.tensor([1]), gamma=0.5, write=True)  # the first update sets g
    tensor([0.])
    >>> means.update(torch.tensor([3.0]).log(), torch.tensor([1]), gamma=0.5, write=True).exp()
    tensor([2.])
    """

    log_mean_U: Tensor

    def __init__(self, n_keys: int) -> None:
        super().__init__()
        self.register_buffer("log_mean_U", torch.full((n_keys,), -torch.inf))

    @torch.no_grad()
    def update(self, log_value_R: Tensor, key_R: Tensor, gamma: float, write: bool) -> Tensor:
        """``ln g`` of each row's key after ``g ← (1 − γ)·g + γ·ĝ``; ``write`` stores the result.

        Rows with the same key have one ĝ, the mean of theirs, and one g. Rows with the value −∞ do not change g.
        """
        key_M, place_R = torch.unique(key_R, return_inverse=True)
        finite_R = log_value_R != -torch.inf
        count_M = torch.bincount(place_R[finite_R], minlength=len(key_M)).to(log_value_R.dtype)
        new_M = logsumexp_of_positives(log_value_R[finite_R], place_R[finite_R], len(key_M)) - count_M.log()
        old_M = self.log_mean_U[key_M].to(log_value_R.dtype)
        rest = math.log1p(-gamma) if gamma < 1 else -math.inf
        mean_M = torch.where(old_M == -torch.inf, new_M, torch.logaddexp(old_M + rest, new_M + math.log(gamma)))
        mean_M = torch.where(count_M == 0, old_M, mean_M)
        if write:
            self.log_mean_U[key_M] = mean_M.to(self.log_mean_U.dtype)
        return mean_M[place_R]


def averaged_terms(table: ScoreTable, tau: float, gamma: float, means: LogEMA | None, training: bool) -> Tensor:
    """``ln g + ĝ/g − 1`` of each positive's row, with ``ĝ = mean_j exp(s_j/τ)`` and constant g.

    This is the tangent of ln ĝ at g, an upper bound that is tight where g = ĝ. Its gradient is that of ĝ/g, and its
    value bounds the intended loss. −∞ where the row has no negatives.
    """
    log_now_R = log_mean_exp(table, tau)
    log_mean_R = log_now_R.detach()
    if table.context.key_R is not None:
        if means is None:
            raise InputError(
                "loss.initialize: expected a call with the number of keys before rows with keys, received none"
            )
        log_mean_R = means.update(log_mean_R, table.context.key_R, gamma, write=training and torch.is_grad_enabled())
    finite_R = log_now_R != -torch.inf
    log_mean_R = torch.where(finite_R, log_mean_R, 0)
    tangent_R = log_mean_R + (log_now_R - log_mean_R).exp() - 1
    return table.per_positive(torch.where(finite_R, tangent_R, -torch.inf))


@registry.register("sogclr")
class SogCLR(Loss):
    r"""SogCLR: softmax loss whose sum over few negatives is averaged over the steps that a user appears in.

    .. math:: \hat g_u = \frac{1}{|N_u|} \sum_{j \in N_u} e^{s_{uj}/\tau},\quad
              g_u \leftarrow (1-\gamma)\,g_u + \gamma\,\hat g_u,\quad
              L_{ui} = -s_{ui}/\tau + \ln g_u + \hat g_u/g_u - 1

    with constant g: the gradient is that of −s/τ + ĝ/g, as published. The value, which the published form leaves
    undefined, bounds that of SL by the tangent of the logarithm at g. The first step with a user sets g = ĝ; then, and
    always with γ = 1, the value is SL minus ln|N|. If a user has several rows in a step, the mean of their ĝ is used,
    and all rows read the same g. In your own training loop, call ``initialize`` once and pass ``keys``.

    Yuan et al., "Provable Stochastic Optimization for Global Contrastive Learning: Small Batch Does Not Harm
    Performance", ICML 2022.

    >>> SogCLR(tau=1.0)(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]))
    tensor(-1.)
    """

    formula = "−s_i/τ + ln g_u + ĝ_u/g_u − 1, with ĝ_u = mean_j exp(s_j/τ) and g_u its average over steps, constant"
    target = "NDCG, with few negatives"
    collapse_hint = "a larger loss.tau"
    citation = "Yuan et al., ICML 2022"
    cost = "one pass over the scores of all items"
    use = "Where few negatives are sampled: the average of each user reduces the sampling error."
    similarity: ClassVar[Similarity] = "cosine"

    tau: float = param(default=0.2, above=0, help="temperature τ of the scores", search=Search(0.02, 0.5, log=True))
    gamma: float = param(
        default=0.9,
        above=0,
        at_most=1,
        help="weight γ of the current step in the average",
        search=Search(choices=(0.1, 0.3, 0.5, 0.7, 0.9)),
    )

    def __post_init__(self) -> None:
        self.means: LogEMA | None = None

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """An average for each key, initially unset."""
        self.means = None if sizes.n_keys is None else LogEMA(sizes.n_keys)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        log_P = averaged_terms(table, self.tau, self.gamma, self.means, self.training)
        return mean_over_positives(table, torch.where(log_P == -torch.inf, 0, log_P - table.positives() / self.tau))


class AdversaryEmbedding(nn.Module):
    """An embedding table that maximises a loss, by Adam on the rows that a step uses."""

    vector: Tensor
    mean: Tensor
    square: Tensor
    steps: Tensor

    def __init__(self, count: int, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        start = torch.randn(count, dim, generator=generator).mul_(math.sqrt(2 / (count + dim)))  # Xavier normal
        self.register_buffer("vector", start)
        self.register_buffer("mean", torch.zeros(count, dim))
        self.register_buffer("square", torch.zeros(count, dim))
        self.register_buffer("steps", torch.tensor(0))
        self._leaf: Tensor | None = None

    def rows(self, index: Tensor, requires_grad: bool) -> Tensor:
        """Selected vectors; with ``requires_grad``, :meth:`ascend` uses their gradient."""
        if not requires_grad:
            return F.embedding(index, self.vector)
        if self._leaf is None:
            self._leaf = self.vector.detach().requires_grad_()  # shares the memory, but is a leaf
        return F.embedding(index, self._leaf, sparse=True)

    def clear_gradient(self) -> None:
        """Discard the accumulated gradient."""
        self._leaf = None

    @torch.no_grad()
    def ascend(self, rate: float) -> None:
        """A step of gradient ascent, if there is a gradient."""
        gradient = None if self._leaf is None else self._leaf.grad
        self._leaf = None
        if gradient is None:
            return
        gradient = gradient.coalesce()
        row_N, grad_NE = gradient.indices()[0], gradient.values()
        self.steps += 1
        tables = self.vector, self.mean, self.square
        vector_NE, mean_NE, square_NE = (table[row_N] for table in tables)
        adam_step_(vector_NE, grad_NE, mean_NE, square_NE, step=int(self.steps), lr=-rate)
        for table, rows in zip(tables, (vector_NE, mean_NE, square_NE), strict=True):
            table[row_N] = rows


@registry.register("advinfonce")
class AdvInfoNCE(Loss):
    r"""AdvInfoNCE: softmax loss against an adversary that learns how hard each negative is.

    .. math:: L_{ui} = \ln\Bigl(1 + k N \sum_{j \in N_u} p_{uj}\,e^{(s_{uj}-s_{ui})/\tau}\Bigr),\quad
              p_{uj} = \frac{e^{a_u \cdot b_j}}{\sum_{l \in N_u} e^{a_u \cdot b_l}}

    The model descends, and the adversary's vectors a, b ascend with their own Adam state and learning rate, in every
    ``every``-th epoch and at most ``rounds`` times, which bounds the distance of p from the uniform distribution. As in
    the original, the model is also trained in those epochs. N, the number of negatives that the sum is scaled to, makes
    samples and the full catalogue comparable. Scores without keys and items have a uniform p; with k = 1 this is then
    SL with the positive inside the sum.

    Zhang et al., "Empowering Collaborative Filtering with Principled Adversarial Contrastive Loss", NeurIPS 2023.

    >>> loss = AdvInfoNCE(tau=1.0, weight=1.0, negatives=2.0)
    >>> loss(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]))
    tensor(0.5514)
    """

    formula = "ln(1 + k·N·Σ_j p_j·exp((s_j − s_i)/τ)), with p = softmax_j(a_u·b_j), learned by an adversary"
    target = "NDCG, out of distribution"
    collapse_hint = "a larger loss.tau"
    citation = "Zhang et al., NeurIPS 2023"
    cost = "two passes over all items, with longer vectors"
    use = "Where negatives differ in hardness and some of them are false negatives."
    similarity: ClassVar[Similarity] = "cosine"

    tau: float = param(default=0.2, above=0, help="temperature τ of the scores", search=Search(0.02, 0.5, log=True))
    weight: float = param(default=64.0, above=0, help="weight k of the negatives")
    negatives: float | None = param(
        default=1000.0, above=0, help="number N of negatives that the sum is scaled to; none: the actual number"
    )
    dim: int = param(default=64, at_least=1, help="length of the adversary's vectors")
    rate: float = param(default=5e-5, at_least=0, help="learning rate of the adversary")
    every: int = param(default=5, at_least=1, help="epochs between those in which the adversary learns")
    rounds: int = param(default=7, at_least=0, help="maximum number of epochs in which the adversary learns")

    def __post_init__(self) -> None:
        self.users: AdversaryEmbedding | None = None
        self.items: AdversaryEmbedding | None = None
        self._is_learning = False

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """The adversary's vectors, Xavier-normal; None where rows have no keys."""
        if sizes.n_keys is not None and sizes.n_items is not None:
            counts = sizes.n_keys, sizes.n_items
            self.users, self.items = (AdversaryEmbedding(count, self.dim, generator) for count in counts)

    def before_epoch(self, epoch: int) -> None:
        """Decide whether the adversary learns in this epoch."""
        self._is_learning = epoch % self.every == 0 and epoch // self.every <= self.rounds
        for embedding in (self.users, self.items):
            if embedding is not None:
                embedding.clear_gradient()

    def after_step(self, rate: float | None = None, *, grad_scale: float = 1.0) -> None:
        """The adversary's step."""
        for embedding in (self.users, self.items):
            if embedding is not None:
                embedding.ascend(self.rate)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        size = table.n_represented_R.clamp(min=1).log() if self.negatives is None else math.log(self.negatives)
        negatives_P = table.per_positive(self._log_mean(table) + size + math.log(self.weight))
        return mean_over_positives(table, Softplus().value(negatives_P - table.positives() / self.tau))

    def _log_mean(self, table: ScoreTable) -> Tensor:
        """``ln Σ_j p_j·exp(s_j/τ)`` of each row."""
        if self.users is None or self.items is None or table.context.key_R is None or table.context.item_C is None:
            return log_mean_exp(table, self.tau)
        learns = self._is_learning and self.training and torch.is_grad_enabled()
        dtype = table.n_represented_R.dtype
        left_RE = self.users.rows(table.context.key_R, learns).to(dtype)
        right = self.items.rows(table.context.item_C, learns).to(dtype)
        normaliser_R = table.tilted_logsumexp(math.inf, left_RE, right)
        normaliser_R = torch.where(normaliser_R == -torch.inf, 0, normaliser_R)
        return table.tilted_logsumexp(self.tau, left_RE, right) - normaliser_R
