"""The Lambda family: pairs weighted by a function of their ranks.

    L_i = Σ_{j : y_j < y_i} Δ_ij·log₂(1 + e^{s_j − s_i})

The weights Δ are functions of ranks and are constant. Labels are the grades of the table, if it has any, else 1 for
positives and 0 for negatives; gains are G(y) = 2^y − 1, discounts D(r) = log₂(1 + r).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.losses.gains import dcg_discount, gains, grades, ideal_dcg
from shortlist.parameters import Search, param
from shortlist.scores import ScoreTable, Softplus, UnitStep, positive_pair_sum
from shortlist.scores.table import ranks_among_positives

Ranks = Literal["unbiased", "scaled", "table"]

Delta = Literal["step", "light"]

Discount = Callable[[Tensor], Tensor]
"""A function of one integer or real number: a rank, or the distance of two ranks."""


def counts(table: ScoreTable, ranks: Ranks) -> Tensor | None:
    """The number of items that each negative counts as in ranks and, in a last column, each positive; None: one.

    Sampled negatives represent all negatives of the user: each as many as its sampling weight, or equally many each
    without weights.
    """
    if ranks == "table":
        return None
    log_weight = table.log_weights()
    if ranks == "unbiased" and log_weight is not None:
        weight_RC = log_weight.exp().expand(table.n_rows, -1)
        return torch.cat([weight_RC, weight_RC.new_ones(table.n_rows, 1)], 1)
    positives_R = torch.bincount(table.row_P, minlength=table.n_rows).to(table.n_represented_R.dtype)
    sampled_R, catalogue_R = table.n_negatives_R, table.catalogue_R()
    if ranks == "unbiased":
        count_R = table.catalogue_negatives_R() / sampled_R.clamp(min=1)
        return None if bool((count_R[sampled_R > 0] == 1).all()) else count_R
    scale_R = catalogue_R / (sampled_R + positives_R).clamp(min=1)
    return None if bool((scale_R == 1).all()) else scale_R.unsqueeze(1).expand(-1, 2)


def ranks_of_positives(table: ScoreTable, count: Tensor | None) -> Tensor:
    """The rank of each positive, in which negatives (and positives) have the counts of :func:`counts`."""
    pos_P = table.positives().detach()
    if count is None:
        return table.ranks().to(pos_P.dtype)
    among_positives_P = ranks_among_positives(pos_P, table.row_P)
    if count.ndim == 2 and count.shape[1] > 2:  # sampling weights: pair_sum applies them
        with torch.no_grad():
            return among_positives_P + table.pair_sum(UnitStep())
    rank_P = table.ranks()
    count_P2 = table.per_positive(count.view(table.n_rows, -1)).to(pos_P.dtype)
    own_P = count_P2[:, 1] if count_P2.shape[1] == 2 else 1
    return own_P * among_positives_P + count_P2[:, 0] * (rank_P - among_positives_P)


def inverse_log_gap(distance: Tensor) -> Tensor:
    """1/D(x) − 1/D(x + 1), computed without cancellation; 0 for x = 0, which is a tie.

    >>> inverse_log_gap(torch.tensor([0.0, 1.0, 3.0]))
    tensor([0.0000, 0.3691, 0.0693])
    """
    step = torch.log1p((distance + 1).reciprocal_())  # ln(2 + x) − ln(1 + x)
    near, far = torch.log1p(distance), torch.log1p(distance + 1)
    return torch.where(distance == 0, 0, step.mul_(math.log(2)).div_(near.mul_(far)))


def inverse_log_apart(distance: Tensor) -> Tensor:
    """1/D(x), the alternative to :func:`inverse_log_gap`; 0 for x = 0, which is a tie.

    >>> inverse_log_apart(torch.tensor([0.0, 1.0, 3.0]))
    tensor([0.0000, 1.0000, 0.5000])
    """
    return torch.where(distance == 0, 0, dcg_discount(distance))


class Discounts:
    """Discounts of numbers: read from lookup tables if all numbers are integers, else computed.

    A lookup table is built once per step, in double precision; reading it is several times faster than computing
    logarithms. ``most`` is the largest number that matters; masked entries may exceed it.
    """

    def __init__(self, most: int, integers: bool) -> None:
        self.most, self.integers = most, integers
        self._tables: dict[Discount, Tensor] = {}

    def __call__(self, discount: Discount, number: Tensor) -> Tensor:
        """The discount of each number."""
        if not self.integers:
            return discount(number)
        if discount not in self._tables:
            number_N = torch.arange(self.most + 1, dtype=torch.float64, device=number.device)
            self._tables[discount] = discount(number_N).to(number.dtype)
        index = number.to(torch.int32).clamp_(max=self.most)
        return self._tables[discount].index_select(0, index.view(-1)).view(number.shape)


Weigh = Callable[[Discounts, Tensor, Tensor], Tensor]
"""Δ of pairs from the ranks of both."""


def pairs_below(table: ScoreTable, label_P: Tensor, ranks: Ranks, weigh: Weigh | None) -> Tensor:
    """``Σ_j Δ_ij·(y_i − y_j)·log₂(1 + e^{s_j − s_i})`` of each positive i, over all j of its row with a lower label."""
    count, discounts = None, Discounts(0, integers=True)
    if weigh is not None:
        count = counts(table, ranks)
        most = int(table.n_represented_R.max()) + table.n_positives if table.n_rows else 0
        discounts = Discounts(most, integers=count is None)

    def of_ranks(rank_M1: Tensor, rank_MC: Tensor) -> Tensor:
        assert weigh is not None
        if count is not None:  # frequently drawn items have weights below one, but no rank is above the first
            rank_MC = rank_MC.clamp(min=1)
        return weigh(discounts, rank_M1, rank_MC)

    value_P = label_P * table.pair_sum(Softplus(), None if weigh is None else of_ranks, count)
    if table.context.grade_P is not None:
        rank_P = label_P if weigh is None else ranks_of_positives(table, count)

        def of_positives(first_Q: Tensor, second_Q: Tensor) -> Tensor:
            lead_Q = (label_P[first_Q] - label_P[second_Q]).clamp_(min=0)
            return lead_Q if weigh is None else lead_Q * weigh(discounts, rank_P[first_Q], rank_P[second_Q])

        value_P = value_P + positive_pair_sum(table, Softplus(), of_positives)
    return value_P / math.log(2)


class LambdaLossBase(Loss):
    """Base class of losses whose pairs are weighted by the ranks of both items.

    If the negatives are a sample, ranks are estimated. ``unbiased``: each sampled negative counts as |N_u|/N items, or
    as its sampling weight if items were drawn with different probabilities. ``scaled``: the rank in the sample is
    multiplied by n divided by the sample's size, which ranks positives too low, since all of them are in the sample
    (this is "-S" in the literature). ``table``: the rank in the sample is used unchanged. The last two are meant for
    uniform samples. With the full catalogue all three are the same.
    """

    ranks: Ranks = param(default="unbiased", help="how ranks are estimated if negatives are a sample")
    normalised: bool = param(default=False, help="whether gains are divided by the ideal DCG of the user's positives")

    @abstractmethod
    def weigh(self, discounts: Discounts, rank_i: Tensor, rank_j: Tensor) -> Tensor:
        """Δ of pairs from the ranks of both, without the gains."""

    def depth(self) -> int | None:
        """The number of ranks that the ideal DCG is summed over; None: all."""
        return None

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        value_P = pairs_below(table, gains(table), self.ranks, self.weigh)
        return mean_over_positives(
            table, normalize_by_idcg(value_P, table, self.depth()) if self.normalised else value_P
        )


def normalize_by_idcg(value_P: Tensor, table: ScoreTable, k: int | None = None) -> Tensor:
    """Values of positives divided by the ideal DCG of their row; 0 where that is 0."""
    ideal_P = ideal_dcg(table, k)
    return torch.where(ideal_P > 0, value_P / ideal_P.clamp(min=1e-30), 0 * value_P)


def _between(rank_i: Tensor, rank_j: Tensor, discounts: Discounts) -> Tensor:
    """ρ = |1/D(π_i) − 1/D(π_j)|, the change in discounts if the two are swapped."""
    return discounts(dcg_discount, rank_j).sub_(discounts(dcg_discount, rank_i)).abs_()


def _apart(rank_i: Tensor, rank_j: Tensor, discounts: Discounts, delta: Delta) -> Tensor:
    """δ of the distance of the two ranks."""
    return discounts(inverse_log_gap if delta == "step" else inverse_log_apart, (rank_j - rank_i).abs_())


def _delta() -> Any:
    """The parameter δ of the losses that use it."""
    return param(default="step", help="δ(x) of ranks at distance x: step, 1/D(x) − 1/D(x + 1), or light, 1/D(x)")


@registry.register("lambdarank")
class LambdaRank(LambdaLossBase):
    r"""LambdaRank: a pair is weighted by the change in DCG if the two items are swapped.

    .. math:: L_{ui} = \sum_{j : y_j < y_i} \Bigl|\tfrac{1}{D(\pi_i)} - \tfrac{1}{D(\pi_j)}\Bigr|\,(G_i - G_j)\,
              \log_2\bigl(1 + e^{s_j - s_i}\bigr)

    Burges et al., "Learning to Rank with Nonsmooth Cost Functions", NIPS 2006; in this form Wang et al., CIKM 2018.

    >>> LambdaRank()(torch.tensor([0.0]), torch.tensor([[1.0, -1.0]]))
    tensor(0.7584)
    """

    formula = "Σ_j |1/D(π_i) − 1/D(π_j)|·(G_i − G_j)·log₂(1 + exp(s_j − s_i))"
    target = "NDCG"
    citation = "Burges et al., NIPS 2006"
    cost = "a sort of each row and a pass over all items per positive"
    use = "Where lists are short and graded; a standard loss of learning to rank."

    def weigh(self, discounts: Discounts, rank_i: Tensor, rank_j: Tensor) -> Tensor:
        """ρ."""
        return _between(rank_i, rank_j, discounts)


@registry.register("ndcg_loss2")
class NDCGLoss2(LambdaLossBase):
    r"""NDCG-Loss2, known as LambdaLoss: a bound of NDCG's cost whose weights depend on the distance of two ranks.

    .. math:: L_{ui} = \sum_{j : y_j < y_i} \delta_{ij}\,(G_i - G_j)\,\log_2\bigl(1 + e^{s_j - s_i}\bigr),\quad
              \delta_{ij} = \tfrac{1}{D(|\pi_i - \pi_j|)} - \tfrac{1}{D(|\pi_i - \pi_j| + 1)}

    δ is 0 for tied ranks. ``delta="light"`` is δ = 1/D(|π_i − π_j|), which decreases far more slowly and therefore also
    weights distant pairs; published comparisons with SL@K used it under the same name.

    Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", CIKM 2018.

    >>> NDCGLoss2()(torch.tensor([0.0]), torch.tensor([[1.0, -1.0]]))
    tensor(0.8661)
    """

    aliases = ("LambdaLoss", "NDCG-Loss2")
    formula = "Σ_j δ(|π_i − π_j|)·(G_i − G_j)·log₂(1 + exp(s_j − s_i)), δ(x) = 1/D(x) − 1/D(x + 1)"
    target = "NDCG"
    citation = "Wang et al., CIKM 2018"
    cost = "a sort of each row and a pass over all items per positive"
    use = "Where lists are short and graded: a bound on NDCG."

    delta: Delta = _delta()

    def weigh(self, discounts: Discounts, rank_i: Tensor, rank_j: Tensor) -> Tensor:
        """δ."""
        return _apart(rank_i, rank_j, discounts, self.delta)


@registry.register("ndcg_loss2pp")
class NDCGLoss2pp(LambdaLossBase):
    r"""NDCG-Loss2++: the sum of the weights of LambdaRank and NDCG-Loss2.

    .. math:: L_{ui} = \sum_{j : y_j < y_i} (\rho_{ij} + \mu\,\delta_{ij})\,(G_i - G_j)\,
              \log_2\bigl(1 + e^{s_j - s_i}\bigr)

    with ρ as in :class:`LambdaRank` and δ as in :class:`NDCGLoss2`.

    Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", CIKM 2018.

    >>> NDCGLoss2pp(mu=10.0)(torch.tensor([0.0]), torch.tensor([[1.0, -1.0]]))
    tensor(9.4189)
    """

    aliases = ("NDCG-Loss2++",)
    formula = "Σ_j (|1/D(π_i) − 1/D(π_j)| + μ·δ(|π_i − π_j|))·(G_i − G_j)·log₂(1 + exp(s_j − s_i))"
    target = "NDCG"
    citation = "Wang et al., CIKM 2018"
    cost = "a sort of each row and a pass over all items per positive"
    use = "Where lists are short and graded; the best of its family in the publication."

    delta: Delta = _delta()
    mu: float = param(default=10.0, at_least=0, help="weight μ of δ relative to ρ", search=Search(1.0, 20.0, log=True))

    def weigh(self, discounts: Discounts, rank_i: Tensor, rank_j: Tensor) -> Tensor:
        """ρ + μ·δ."""
        return _apart(rank_i, rank_j, discounts, self.delta).mul_(self.mu).add_(_between(rank_i, rank_j, discounts))


@registry.register("lambdaloss_at_k")
class LambdaLossAtK(LambdaLossBase):
    r"""LambdaLoss@K: NDCG-Loss2 with larger weights for pairs of which one item is outside the Top-K.

    .. math:: L_{ui} = \sum_{j : y_j < y_i} \delta_{ij}\,m_{ij}\,(G_i - G_j)\,\log_2\bigl(1 + e^{s_j - s_i}\bigr),
              \quad m_{ij} = \begin{cases} 1 / \bigl(1 - 1/D(\max(\pi_i, \pi_j))\bigr) & \max(\pi_i, \pi_j) > K \\
              1 & \text{else} \end{cases}

    The factor m requires the logarithm to base 2, for which D(1) = 1; another base gives another loss.

    Jagerman et al., "On Optimizing Top-K Metrics for Neural Ranking Models", SIGIR 2022.

    >>> LambdaLossAtK(k=1)(torch.tensor([0.0]), torch.tensor([[1.0, -1.0]]))
    tensor(2.2282)
    """

    aliases = ("LambdaLoss@K",)
    formula = "Σ_j δ(|π_i − π_j|)·m_ij·(G_i − G_j)·log₂(1 + exp(s_j − s_i)), m = 1/(1 − 1/D(max π)) outside the Top-K"
    target = "NDCG@K"
    citation = "Jagerman et al., SIGIR 2022"
    cost = "a sort of each row and a pass over all items per positive"
    use = "Where lists are short and graded, and K of them are shown."

    k: int = param(default=20, at_least=1, help="K, the length of the list that is shown")
    delta: Delta = _delta()

    def depth(self) -> int | None:
        """K, as in NDCG@K."""
        return self.k

    def _boost(self, rank: Tensor) -> Tensor:
        """m at the larger of two ranks."""
        return torch.where(rank > self.k, (1 - dcg_discount(rank)).reciprocal_(), 1)

    def weigh(self, discounts: Discounts, rank_i: Tensor, rank_j: Tensor) -> Tensor:
        """δ·m."""
        return _apart(rank_i, rank_j, discounts, self.delta).mul_(discounts(self._boost, torch.maximum(rank_i, rank_j)))


def _against_all(table: ScoreTable) -> Tensor:
    """``Σ_j log₂(1 + e^{s_j − s_i})`` of each positive i, over all other items of its row, including positives."""
    return (table.pair_sum(Softplus()) + positive_pair_sum(table, Softplus())) / math.log(2)


@registry.register("ndcg_loss1")
class NDCGLoss1(Loss):
    r"""NDCG-Loss1: a positive's discounted gain times a bound on the number of items, positives included, above it.

    .. math:: L_{ui} = \frac{G_i}{D(\pi_i)} \sum_{j \ne i} \log_2\bigl(1 + e^{s_j - s_i}\bigr)

    Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", CIKM 2018.

    >>> NDCGLoss1()(torch.tensor([0.0]), torch.tensor([[1.0, -1.0]]))
    tensor(1.4805)
    """

    formula = "G_i/D(π_i)·Σ_j log₂(1 + exp(s_j − s_i)), over all j but i"
    target = "NDCG"
    citation = "Wang et al., CIKM 2018"
    cost = "two passes over all items per positive, and a term for each pair of a user's positives"
    use = "As a baseline bound on NDCG; pairs of equal labels make it loose."

    ranks: Ranks = param(default="unbiased", help="how ranks are estimated if negatives are a sample")
    normalised: bool = param(default=False, help="whether gains are divided by the ideal DCG of the user's positives")

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        worth_P = dcg_discount(ranks_of_positives(table, counts(table, self.ranks)))
        value_P = gains(table) * worth_P * _against_all(table)
        return mean_over_positives(table, normalize_by_idcg(value_P, table) if self.normalised else value_P)


@registry.register("arp_loss1")
class ARPLoss1(Loss):
    r"""ARP-Loss1: a bound of the average relevance position.

    .. math:: L_{ui} = y_i \sum_{j \ne i} \log_2\bigl(1 + e^{s_j - s_i}\bigr)

    Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", CIKM 2018.

    >>> ARPLoss1()(torch.tensor([0.0]), torch.tensor([[1.0, -1.0]]))
    tensor(2.3466)
    """

    formula = "y_i·Σ_j log₂(1 + exp(s_j − s_i)), over all j but i"
    target = "average relevance position"
    citation = "Wang et al., CIKM 2018"
    cost = "a pass over all items per positive, and a term for each pair of a user's positives"
    use = "Where the mean rank of relevant items matters."

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        return mean_over_positives(table, grades(table) * _against_all(table))


@registry.register("arp_loss2")
class ARPLoss2(Loss):
    r"""ARP-Loss2: RankNet with pairs weighted by the difference of labels; a bound of the average relevance position.

    .. math:: L_{ui} = \sum_{j : y_j < y_i} (y_i - y_j)\,\log_2\bigl(1 + e^{s_j - s_i}\bigr)

    Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", CIKM 2018.

    >>> ARPLoss2()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(2.)
    """

    formula = "Σ_j (y_i − y_j)·log₂(1 + exp(s_j − s_i))"
    target = "average relevance position"
    citation = "Wang et al., CIKM 2018"
    cost = "a pass over all items per positive"
    use = "Where the mean rank of relevant items matters; compares pairs of different labels only."

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        return mean_over_positives(table, pairs_below(table, grades(table), "table", None))
