"""Listwise losses: the negative log-likelihood, under a model of rankings, of the order given by the labels."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from shortlist.losses.base import (
    Loss,
    mean_over_positives,
    mean_over_rows,
    random_like,
    registry,
    relative_weights,
    row_weights,
)
from shortlist.losses.gains import grades
from shortlist.parameters import Search, param
from shortlist.scores import Kernel, ScoreTable
from shortlist.scores.column_topk import places


class Linear(Kernel):
    """φ(x) = x, and 0 at −∞."""

    def value(self, x: Tensor) -> Tensor:
        """x."""
        return x.masked_fill(x == -torch.inf, 0)

    def slope(self, x: Tensor) -> Tensor:
        """1."""
        return (x != -torch.inf).to(x.dtype)


@registry.register("listnet")
class ListNet(Loss):
    r"""ListNet: the cross entropy of two distributions over the list, one of labels and one of scores.

    .. math:: L_u = -\sum_i t_i \ln \frac{e^{s_i/\tau}}{\sum_j e^{s_j/\tau}}

    for each user; the value is the mean over users. As published, t = softmax(y), which gives probability to items with
    label 0: little in a list of a few documents, nearly all in a catalogue. ``target_distribution="proportional"``, the
    default, is t = y/Σy, which gives them none; with one positive it is the softmax loss over all items.

    Cao et al., "Learning to Rank: From Pairwise Approach to Listwise Approach", ICML 2007.

    >>> ListNet()(torch.tensor([0.0]), torch.tensor([[0.0]]))
    tensor(0.6931)
    """

    formula = "ln Σ_j exp(s_j/τ) − Σ_i t_i·s_i/τ, t = y/Σy or softmax(y), of a user"
    target = "likelihood of the first rank"
    citation = "Cao et al., ICML 2007"
    cost = "one pass over the scores of all items"
    use = "Where grades are proportional to the probability of the first rank."

    tau: float = param(default=1.0, above=0, help="temperature τ of the scores", search=Search(0.02, 2.0, log=True))
    target_distribution: Literal["proportional", "softmax"] = param(
        default="proportional",
        help="target distribution t: proportional to the labels, or their softmax, as published",
        aliases=("target_is",),
    )

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over rows that have a positive."""
        pos_P, label_P, weight_P = table.positives(), grades(table), relative_weights(table)
        if self.target_distribution == "softmax":
            label_P = label_P.exp()
        if weight_P is not None:
            label_P = label_P * weight_P.to(label_P.dtype)
        if self.target_distribution == "softmax":
            asked_R = table.row_total(label_P * pos_P) + table.row_sum(Linear())
            total_R = table.row_total(label_P) + table.n_represented_R
        else:
            asked_R, total_R = table.row_total(label_P * pos_P), table.row_total(label_P)
        asked_R = asked_R / total_R.clamp(min=1e-30) / self.tau
        lse_R = table.logsumexp(self.tau, "all")
        return mean_over_rows(table, torch.where(lse_R == -torch.inf, 0, lse_R) - asked_R)


@registry.register("listmle")
class ListMLE(Loss):
    r"""ListMLE: the negative log-likelihood of drawing the items in the order of their labels, without replacement.

    .. math:: L_u = \sum_k \Bigl[\ln \sum_{l \ge k} e^{s_{(l)}/\tau} - s_{(k)}/\tau\Bigr]

    where (k) is the item with the k-th largest label. Items of equal label are in a new random order at each call, or
    in the order of their scores if there is no generator. ``places="positives"``, the default, ends the sum with the
    last positive, so that the arbitrary order of negatives does not contribute. ``places="all"`` is the published sum,
    which needs the full score matrix; its terms of negatives do not use sampling weights. Both are divided by the
    number of positives.

    Xia et al., "Listwise Approach to Learning to Rank: Theory and Algorithm", ICML 2008.

    >>> ListMLE()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(1.0986)
    >>> ListMLE(places="all")(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(1.7918)
    """

    formula = "Σ_k (ln Σ_{l≥k} exp(s_(l)/τ) − s_(k)/τ), k in the order of labels"
    target = "likelihood of the ranking"
    citation = "Xia et al., ICML 2008"
    cost = "a sort of each row"
    use = "Where a complete order of items is known."

    tau: float = param(default=1.0, above=0, help="temperature τ of the scores", search=Search(0.02, 2.0, log=True))
    places: Literal["positives", "all"] = param(default="positives", help="which ranks of the list the sum covers")

    def value(self, table: ScoreTable) -> Tensor:
        """The sum over all rows, divided by the number of positives."""
        value = self._of_positives(table)
        if self.places == "all":
            value = value + self._of_negatives(table)
        return value

    def _of_positives(self, table: ScoreTable) -> Tensor:
        """The mean term of a positive; its denominator has the positives from it on and all negatives."""
        scaled_P = table.positives() / self.tau
        first_P = scaled_P.detach()
        if table.context.generator is not None:
            first_P = random_like(scaled_P, table.context.generator, torch.float32)
        order_S = torch.argsort(first_P, descending=True)
        order_S = order_S[torch.argsort(grades(table)[order_S], descending=True, stable=True)]
        place_S = places(table.row_P[order_S], table.n_rows)
        most = int(place_S.max()) + 1 if len(place_S) else 0
        lowest = torch.finfo(scaled_P.dtype).min / 4  # finite, since gradients of −∞ would be NaN
        side_RM = scaled_P.new_full((table.n_rows, most), lowest)
        side_RM = side_RM.index_put((table.row_P[order_S], place_S), scaled_P[order_S])
        after_S = _suffix_logsumexp(side_RM)[table.row_P[order_S], place_S]
        negatives_S = table.logsumexp(self.tau, "negatives")[table.row_P[order_S]]
        return mean_over_positives(table, torch.logaddexp(after_S, negatives_S) - scaled_P[order_S], order_S)

    def _of_negatives(self, table: ScoreTable) -> Tensor:
        """The terms of all negatives of rows that have a positive, divided by the number of positives."""
        has_R1 = (torch.bincount(table.row_P, minlength=table.n_rows) > 0).unsqueeze(1)
        negative_RC = table.is_negative() & has_R1
        scaled_RC = table.matrix() / self.tau
        first_RC = scaled_RC.detach()
        if table.context.generator is not None:
            first_RC = random_like(scaled_RC, table.context.generator, torch.float32)
        order_RC = first_RC.masked_fill(~negative_RC, -torch.inf).argsort(1, descending=True)
        lowest = torch.finfo(scaled_RC.dtype).min / 4
        ordered_RC = scaled_RC.masked_fill(~negative_RC, lowest).gather(1, order_RC)
        term_RC = _suffix_logsumexp(ordered_RC) - ordered_RC
        term_RC = torch.where(negative_RC.gather(1, order_RC), term_RC, 0)
        weight_R, weight_P = row_weights(table), table.context.weight_P
        if weight_R is None or weight_P is None:
            return term_RC.sum() / max(1, table.n_positives)
        total = weight_P.to(term_RC.dtype).sum().clamp(min=1e-30)
        return (term_RC.sum(1) * weight_R.to(term_RC.dtype)).sum() / total


def _suffix_logsumexp(x_RN: Tensor) -> Tensor:
    """ln Σ_{l≥k} exp(x_l) of each position k."""
    return x_RN.flip(1).logcumsumexp(1).flip(1)
