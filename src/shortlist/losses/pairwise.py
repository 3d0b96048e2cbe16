"""Pairwise losses: a kernel of the score difference of a negative and a positive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.parameters import Search, param
from shortlist.scores import Hinge as HingeKernel
from shortlist.scores import Kernel, ScoreTable, Softplus, positive_pair_sum
from shortlist.scores.table import ranks_among_positives

_BLOCK = 1 << 22  # numbers per block where pairs are compared one by one

_EULER = 0.5772156649015329


@registry.register("bpr")
class BPR(Loss):
    r"""Bayesian personalised ranking.

    .. math:: L_{ui} = \frac{1}{|N_u|} \sum_{j \in N_u} \ln\bigl(1 + e^{s_{uj}-s_{ui}}\bigr)

    Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit Feedback", UAI 2009.

    >>> import torch
    >>> BPR()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(0.6931)
    """

    aliases = ("Bayesian personalised ranking", "Bayesian personalized ranking")
    formula = "mean_j ln(1 + exp(s_j − s_i))"
    target = "AUC"
    citation = "Rendle et al., UAI 2009"
    cost = "one drawn negative per positive; with all items, one pass over them per positive"
    use = "The standard choice where all pairs of items matter equally, such as a ranking that is read to its end."
    sampled: ClassVar[int | None] = 1

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        n_represented_P = table.per_positive(table.n_represented_R.clamp(min=1))
        return mean_over_positives(table, table.pair_sum(Softplus()) / n_represented_P)


@registry.register("hinge")
class Hinge(Loss):
    r"""Hinge loss of pairs, known as triplet loss: a positive should score above each negative by a margin.

    .. math:: L_{ui} = \frac{1}{|N_u|} \sum_{j \in N_u} \max(0, s_{uj} - s_{ui} + m)

    Schroff et al., "FaceNet: A Unified Embedding for Face Recognition and Clustering", CVPR 2015.

    >>> Hinge(margin=1.0)(torch.tensor([0.5]), torch.tensor([[0.0, -1.0]]))  # (½ + 0)/2
    tensor(0.2500)
    """

    formula = "mean_j max(0, s_j − s_i + m)"
    target = "AUC"
    citation = "Schroff et al., CVPR 2015"
    cost = "one drawn negative per positive; with all items, one pass over them per positive"
    use = "Where pairs separated by more than the margin should have no gradient."
    collapse_hint = "a larger loss.margin"
    sampled: ClassVar[int | None] = 1

    margin: float = param(
        default=1.0, at_least=0, help="margin m between a positive and a negative", search=Search(0.1, 5.0, log=True)
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        n_represented_P = table.per_positive(table.n_represented_R.clamp(min=1))
        return mean_over_positives(table, table.pair_sum(HingeKernel(self.margin)) / n_represented_P)


@registry.register("ranknet")
class RankNet(Loss):
    r"""RankNet: BPR for graded labels, where a positive should also score above positives of a lower grade.

    .. math:: L_{ui} = \frac{1}{|B_{ui}|} \sum_{j \in B_{ui}} \ln\bigl(1 + e^{s_{uj}-s_{ui}}\bigr),\quad
              B_{ui} = \{j : y_{uj} < y_{ui}\}

    Negatives have a lower grade than any positive. Without grades it is BPR.

    Burges et al., "Learning to Rank Using Gradient Descent", ICML 2005.

    >>> RankNet()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(0.6931)
    """

    formula = "mean_{j: y_j < y_i} ln(1 + exp(s_j − s_i))"
    target = "order of pairs"
    citation = "Burges et al., ICML 2005"
    cost = "that of BPR; with graded labels, also a term for each pair of a user's positives"
    use = "Where labels are graded and each pair in the wrong order counts the same."
    sampled: ClassVar[int | None] = 1

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        sum_P, count_P = table.pair_sum(Softplus()), table.per_positive(table.n_represented_R)
        if table.context.grade_P is not None:
            grade_P = table.context.grade_P
            at_least_P = ranks_among_positives(grade_P, table.row_P)
            count_P = count_P + table.per_positive(torch.bincount(table.row_P)) - at_least_P
            sum_P = sum_P + positive_pair_sum(
                table, Softplus(), lambda better_Q, worse_Q: (grade_P[better_Q] > grade_P[worse_Q]).to(sum_P.dtype)
            )
        return mean_over_positives(table, sum_P / count_P.clamp(min=1))


@dataclass(frozen=True)
class _Violation(Kernel):
    """φ(x) = 1 where x > −m, else 0: the indicator of violators."""

    margin: float

    def value(self, x: Tensor) -> Tensor:
        return HingeKernel(self.margin).slope(x)

    def slope(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


@registry.register("warp")
class WARP(Loss):
    r"""Weighted approximate-rank pairwise loss: a hinge at a violator, weighted by the rank that its search estimates.

    .. math:: L_{ui} = \Phi(\hat r_{ui})\,\max(0, m + s_{uj} - s_{ui}),\quad
              \hat r_{ui} = \bigl\lfloor |N_u| / q \bigr\rfloor,\quad \Phi(r) = \sum_{k \le r} 1/k

    where j is the first violator, a negative with :math:`s_{uj} > s_{ui} - m`, and q the number of negatives examined
    until it is found; 0 if there is none. Negatives are examined in the order in which they were drawn, or in random
    order if there is a generator; sampling weights are not used. ``rank="counted"`` computes what the search estimates:
    r is the number of violators, weighted if there are sampling weights, and the hinge is their mean. It has no
    sampling noise from the search.

    Weston et al., "WSABIE: Scaling Up to Large Vocabulary Image Annotation", IJCAI 2011.

    >>> pos, neg = torch.tensor([0.0]), torch.tensor([[-2.0, 0.0, 1.0]])
    >>> WARP(margin=1.0)(pos, neg)  # the second is a violator: Φ(⌊3/2⌋)·1
    tensor(1.0000)
    >>> WARP(margin=1.0, rank="counted")(pos, neg)  # two violators: Φ(2)·(1 + 2)/2
    tensor(2.2500)
    """

    aliases = ("weighted approximate-rank pairwise", "WSABIE")
    formula = "Φ(⌊|N_u|/q⌋)·max(0, m + s_j − s_i), Φ(r) = Σ_{k≤r} 1/k, j the first violator, at trial q"
    target = "precision at the top"
    citation = "Weston et al., IJCAI 2011"
    cost = "100 drawn negatives per positive; with all items, two passes over them per positive"
    use = "Where the top matters and negatives are drawn; with the full catalogue set rank=counted."
    collapse_hint = "a larger loss.margin"
    sampled: ClassVar[int | None] = 100

    margin: float = param(
        default=1.0, above=0, help="margin m between a positive and a negative", search=Search(0.1, 5.0, log=True)
    )
    rank: Literal["drawn", "counted"] = param(
        default="drawn", help="how the rank is estimated: from the first violator drawn, or by counting all violators"
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        return self._counted(table) if self.rank == "counted" else self._drawn(table)

    def _counted(self, table: ScoreTable) -> Tensor:
        """By sums over all negatives of the table, scaled to those of the catalogue."""
        with torch.no_grad():
            count_P = table.pair_sum(_Violation(self.margin))
        mean_P = table.pair_sum(HingeKernel(self.margin)) / count_P.clamp(min=1e-30)  # 0/1e-30 where there is none
        return mean_over_positives(table, _harmonic(count_P * table.per_positive(table.sampling_scale_R())) * mean_P)

    def _drawn(self, table: ScoreTable) -> Tensor:
        """By the first violator of each positive that has one."""
        score_RC, pos_P = table.matrix(), table.positives()
        n_columns = score_RC.shape[1]
        order_C = torch.arange(n_columns, device=score_RC.device)
        generator = table.context.generator
        if generator is not None:
            drawn_C = torch.randperm(n_columns, generator=generator, device=generator.device)
            order_C = drawn_C.to(score_RC.device)
        other_RC = ~table.is_negative()
        negative_RC = score_RC.detach().masked_fill(other_RC, -torch.inf)
        found_V, place_V = _first_violators(negative_RC, order_C, pos_P.detach(), table.row_P, self.margin)
        row_V = table.row_P[found_V]
        # the row's own positives are skipped: they do not count as trials
        row_Q, column_Q = other_RC.nonzero(as_tuple=True)
        other_Q = (row_Q * n_columns + torch.argsort(order_C)[column_Q]).sort().values
        first_V = row_V * n_columns
        before_V = torch.searchsorted(other_Q, first_V + place_V) - torch.searchsorted(other_Q, first_V)
        rank_V = (table.catalogue_negatives_R()[row_V] / (1 + place_V - before_V)).floor()
        lead_V = pos_P[found_V] - score_RC[row_V, order_C[place_V]]
        return mean_over_positives(table, _harmonic(rank_V) * (self.margin - lead_V), found_V)


def _harmonic(rank: Tensor) -> Tensor:
    """Σ_{k≤r} 1/k, extended to real r by the digamma function.

    >>> [round(value, 4) for value in _harmonic(torch.tensor([1.0, 2.0, 4.0])).tolist()]
    [1.0, 1.5, 2.0833]
    """
    return torch.digamma(rank + 1) + _EULER


def _first_violators(
    negative_RC: Tensor, order_C: Tensor, pos_P: Tensor, row_P: Tensor, margin: float
) -> tuple[Tensor, Tensor]:
    """The positives that have a violator, and its position in the order of columns; NaN counts as a violator.

    Most positives have one early: the number of examined columns grows for those without a violator so far.
    """
    found, place = [row_P[:0]], [row_P[:0]]
    searching_P, start, width = torch.arange(len(pos_P), device=row_P.device), 0, 32
    while start < len(order_C) and len(searching_P):
        block_RB = negative_RC.index_select(1, order_C[start : start + width])
        still = []
        for part_P in searching_P.split(max(1, _BLOCK // block_RB.shape[1])):
            difference = block_RB.index_select(0, row_P[part_P]).sub_(pos_P[part_P].unsqueeze(1))
            violates = difference.le_(-margin).logical_not_()
            any_P = violates.any(1)
            found.append(part_P[any_P])
            place.append(violates[any_P].argmax(1).add_(start))
            still.append(part_P[~any_P])
        searching_P, start, width = torch.cat(still), start + width, 4 * width
    return torch.cat(found), torch.cat(place)
