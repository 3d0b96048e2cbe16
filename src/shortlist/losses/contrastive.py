"""Softmax losses that remember: averages of a user's sum over steps, or how hard each negative is taken to be."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortlist.errors import InputError
from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.losses.softmax import log_mean_exp
from shortlist.parameters import Search, param
from shortlist.scores import ScoreTable, Similarity, Softplus
from shortlist.scores.table import logsumexp_of_positives


class LogEMA(nn.Module):
    """A moving average g of a positive number for each user, kept as ln g: e^{1/τ} leaves the range of floats.

    >>> means = LogEMA(2)
    >>> means.moved(torch.tensor([0.0]), torch.tensor([1]), gamma=0.5, keep=True)  # a first visit sets g
    tensor([0.])
    >>> means.moved(torch.tensor([3.0]).log(), torch.tensor([1]), gamma=0.5, keep=True).exp()
    tensor([2.])
    """

    log_mean_U: Tensor

    def __init__(self, n_users: int) -> None:
        super().__init__()
        self.register_buffer("log_mean_U", torch.full((n_users,), -torch.inf))

    @torch.no_grad()
    def moved(self, log_value_R: Tensor, user_R: Tensor, gamma: float, keep: bool) -> Tensor:
        """``ln g`` of each row's user after ``g ← (1 − γ)·g + γ·ĝ``, which is kept or only looked at.

        Rows of the same user give one ĝ, their mean, and read the same g. Rows at −∞ hold no number and move nothing.
        """
        user_M, place_R = torch.unique(user_R, return_inverse=True)
        there_R = log_value_R != -torch.inf
        count_M = torch.bincount(place_R[there_R], minlength=len(user_M)).to(log_value_R.dtype)
        new_M = logsumexp_of_positives(log_value_R[there_R], place_R[there_R], len(user_M)) - count_M.log()
        old_M = self.log_mean_U[user_M].to(log_value_R.dtype)
        rest = math.log1p(-gamma) if gamma < 1 else -math.inf
        mean_M = torch.where(old_M == -torch.inf, new_M, torch.logaddexp(old_M + rest, new_M + math.log(gamma)))
        mean_M = torch.where(count_M == 0, old_M, mean_M)
        if keep:
            self.log_mean_U[user_M] = mean_M.to(self.log_mean_U.dtype)
        return mean_M[place_R]


def averaged_terms(table: ScoreTable, tau: float, gamma: float, means: LogEMA | None, training: bool) -> Tensor:
    """``ln g + ĝ/g − 1`` of each positive's row, with ``ĝ = mean_j exp(s_j/τ)`` and g held constant.

    This is the tangent of ln ĝ at g, above it and equal to it where g = ĝ: its gradient is that of ĝ/g, its value a
    bound of the loss that is meant. −∞ where the row has no negatives.
    """
    log_now_R = log_mean_exp(table, tau)
    log_mean_R = log_now_R.detach()
    if table.user_R is not None:
        if means is None:
            raise InputError("loss.start: expected a call with the number of users before scores of known users")
        log_mean_R = means.moved(log_mean_R, table.user_R, gamma, keep=training and torch.is_grad_enabled())
    there_R = log_now_R != -torch.inf
    log_mean_R = torch.where(there_R, log_mean_R, 0)
    tangent_R = log_mean_R + (log_now_R - log_mean_R).exp() - 1
    return table.per_positive(torch.where(there_R, tangent_R, -torch.inf))


@registry.register("sogclr")
class SogCLR(Loss):
    r"""SogCLR: softmax loss whose sum over few negatives is averaged over the steps that a user appears in.

    .. math:: \hat g_u = \frac{1}{|N_u|} \sum_{j \in N_u} e^{s_{uj}/\tau},\quad
              g_u \leftarrow (1-\gamma)\,g_u + \gamma\,\hat g_u,\quad
              L_{ui} = -s_{ui}/\tau + \ln g_u + \hat g_u/g_u - 1

    with g held constant: the gradient is that of −s/τ + ĝ/g, as published, and the value, which the published form
    leaves without meaning, bounds SL's, by the tangent of the logarithm at g. The first visit of a user sets g = ĝ;
    there, and always with γ = 1, it is SL less ln|N|. A user that has several rows in a step counts with the mean of
    their ĝ, and all of them read the same g. In a loop of one's own call ``start`` once and give ``users`` along.

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
    use = "Where few negatives are at hand: the average of each user makes up for them."
    similarity: ClassVar[Similarity] = "cosine"

    tau: float = param(default=0.2, above=0, help="temperature τ of the scores", search=Search(0.02, 0.5, log=True))
    gamma: float = param(
        default=0.9,
        above=0,
        at_most=1,
        help="share γ of the step at hand in the average",
        search=Search(choices=(0.1, 0.3, 0.5, 0.7, 0.9)),
    )

    def __post_init__(self) -> None:
        self.means: LogEMA | None = None

    def start(self, n_users: int, n_items: int, n_pairs: int, generator: torch.Generator) -> None:
        """An average for each user, not yet set."""
        self.means = LogEMA(n_users)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        log_P = averaged_terms(table, self.tau, self.gamma, self.means, self.training)
        return mean_over_positives(torch.where(log_P == -torch.inf, 0, log_P - table.positives() / self.tau))


class AdversaryEmbedding(nn.Module):
    """A table of vectors that moves up a loss, by Adam on the rows that a step has touched."""

    vector: Tensor
    mean: Tensor
    square: Tensor
    steps: Tensor

    def __init__(self, count: int, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        start = torch.randn(count, dim, generator=generator).mul_(math.sqrt(2 / (count + dim)))  # Xavier's normal
        self.register_buffer("vector", start)
        self.register_buffer("mean", torch.zeros(count, dim))
        self.register_buffer("square", torch.zeros(count, dim))
        self.register_buffer("steps", torch.tensor(0))
        self._leaf: Tensor | None = None

    def rows(self, index: Tensor, climbs: bool) -> Tensor:
        """Some of the vectors; where they climb, :meth:`climb` will know the gradient that reaches them."""
        if not climbs:
            return F.embedding(index, self.vector)
        if self._leaf is None:
            self._leaf = self.vector.detach().requires_grad_()  # the same memory, but a start of gradients
        return F.embedding(index, self._leaf, sparse=True)

    def forget(self) -> None:
        """Drop what gradient has come so far."""
        self._leaf = None

    @torch.no_grad()
    def climb(self, rate: float) -> None:
        """A step up, if a gradient has come."""
        gradient = None if self._leaf is None else self._leaf.grad
        self._leaf = None
        if gradient is None:
            return
        gradient = gradient.coalesce()
        row_N, grad_NE = gradient.indices()[0], gradient.values()
        self.steps += 1
        mean_NE = self.mean[row_N].lerp_(grad_NE, 0.1)
        square_NE = self.square[row_N].lerp_(grad_NE.square(), 0.001)
        self.mean[row_N], self.square[row_N] = mean_NE, square_NE
        count = int(self.steps)
        mean_NE, square_NE = mean_NE / (1 - 0.9**count), square_NE / (1 - 0.999**count)
        self.vector[row_N] += rate * mean_NE / (square_NE.sqrt() + 1e-8)


@registry.register("advinfonce")
class AdvInfoNCE(Loss):
    r"""AdvInfoNCE: softmax loss against an adversary that learns how hard each negative is.

    .. math:: L_{ui} = \ln\Bigl(1 + k N \sum_{j \in N_u} p_{uj}\,e^{(s_{uj}-s_{ui})/\tau}\Bigr),\quad
              p_{uj} = \frac{e^{a_u \cdot b_j}}{\sum_{l \in N_u} e^{a_u \cdot b_l}}

    The model descends, the adversary's vectors a, b ascend, with an Adam and a learning rate of their own, in every
    ``every``-th epoch and at most ``rounds`` times, which bounds how far p leaves the uniform distribution. As in the
    original, the model goes on learning in those epochs. N, the number of negatives that the sum is scaled to, makes
    samples and the whole catalogue comparable. With the uniform p of scores whose users and items are not told, and
    k = 1, this is SL with the positive inside the sum.

    Zhang et al., "Empowering Collaborative Filtering with Principled Adversarial Contrastive Loss", NeurIPS 2023.

    >>> loss = AdvInfoNCE(tau=1.0, weight=1.0, negatives=2.0)
    >>> loss(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]))
    tensor(0.5514)
    """

    formula = "ln(1 + k·N·Σ_j p_j·exp((s_j − s_i)/τ)), with p = softmax_j(a_u·b_j), which an adversary learns"
    target = "NDCG, out of distribution"
    collapse_hint = "a larger loss.tau"
    citation = "Zhang et al., NeurIPS 2023"
    cost = "two passes over all items, with longer vectors"
    use = "Where negatives are of mixed hardness and some of them are positives that nobody has seen."
    similarity: ClassVar[Similarity] = "cosine"

    tau: float = param(default=0.2, above=0, help="temperature τ of the scores", search=Search(0.02, 0.5, log=True))
    weight: float = param(default=64.0, above=0, help="weight k of the negatives")
    negatives: float | None = param(
        default=1000.0, above=0, help="N, how many negatives the sum is scaled to; none: as many as there are"
    )
    dim: int = param(default=64, at_least=1, help="length of the adversary's vectors")
    rate: float = param(default=5e-5, at_least=0, help="learning rate of the adversary")
    every: int = param(default=5, at_least=1, help="epochs from one in which the adversary learns to the next")
    rounds: int = param(default=7, at_least=0, help="in how many epochs the adversary learns, at most")

    def __post_init__(self) -> None:
        self.users: AdversaryEmbedding | None = None
        self.items: AdversaryEmbedding | None = None
        self._climbs = False

    def start(self, n_users: int, n_items: int, n_pairs: int, generator: torch.Generator) -> None:
        """The adversary's vectors, by Xavier's normal distribution."""
        self.users, self.items = (AdversaryEmbedding(count, self.dim, generator) for count in (n_users, n_items))

    def before_epoch(self, epoch: int) -> None:
        """Decide whether the adversary learns in this epoch."""
        self._climbs = epoch % self.every == 0 and epoch // self.every <= self.rounds
        for climber in (self.users, self.items):
            if climber is not None:
                climber.forget()

    def after_step(self, rate: float) -> None:
        """The adversary's step."""
        for climber in (self.users, self.items):
            if climber is not None:
                climber.climb(self.rate)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        size = table.n_represented_R.clamp(min=1).log() if self.negatives is None else math.log(self.negatives)
        rival_P = table.per_positive(self._log_mean(table) + size + math.log(self.weight))
        return mean_over_positives(Softplus().value(rival_P - table.positives() / self.tau))

    def _log_mean(self, table: ScoreTable) -> Tensor:
        """``ln Σ_j p_j·exp(s_j/τ)`` of each row."""
        if self.users is None or self.items is None or table.user_R is None or table.item_C is None:
            return log_mean_exp(table, self.tau)
        climbs = self._climbs and self.training and torch.is_grad_enabled()
        dtype = table.n_represented_R.dtype
        left_RE = self.users.rows(table.user_R, climbs).to(dtype)
        right = self.items.rows(table.item_C, climbs).to(dtype)
        normaliser_R = table.tilted_logsumexp(math.inf, left_RE, right)
        normaliser_R = torch.where(normaliser_R == -torch.inf, 0, normaliser_R)
        return table.tilted_logsumexp(self.tau, left_RE, right) - normaliser_R
