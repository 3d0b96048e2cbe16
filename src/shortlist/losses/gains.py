"""Labels, gains G(y) = 2^y − 1, discounts 1/log₂(1 + r), and the ideal DCG of a row."""

from __future__ import annotations

import torch
from torch import Tensor

from shortlist.losses.base import relative_weights
from shortlist.scores import ScoreTable
from shortlist.scores.column_topk import places


def dcg_discount(rank: Tensor) -> Tensor:
    """1/D(r), the discount of a rank.

    >>> dcg_discount(torch.tensor([1.0, 3.0]))
    tensor([1.0000, 0.5000])
    """
    return torch.log2(rank + 1).reciprocal_()


def grades(table: ScoreTable) -> Tensor:
    """The label of each positive: its grade, or 1."""
    pos_P = table.positives()
    return torch.ones_like(pos_P) if table.context.grade_P is None else table.context.grade_P.to(pos_P.dtype)


def gains(table: ScoreTable) -> Tensor:
    """2^y − 1 of each positive."""
    return torch.exp2(grades(table)) - 1


def ideal_dcg(table: ScoreTable, k: int | None = None, gain_P: Tensor | None = None) -> Tensor:
    """The DCG@k of each positive's row with its positives in the best order."""
    gain_P = gains(table) if gain_P is None else gain_P
    order_P = torch.argsort(gain_P, descending=True, stable=True)
    rank_P = torch.empty_like(table.row_P).scatter_(0, order_P, places(table.row_P[order_P], table.n_rows)) + 1
    part_P = torch.where(rank_P <= (k or table.n_positives), gain_P * dcg_discount(rank_P.to(gain_P.dtype)), 0)
    return table.per_positive(table.row_total(part_P))


def normalized_gains(table: ScoreTable, k: int | None = None) -> Tensor:
    """The contribution of each positive to its row's NDCG@k at rank 1: its gain divided by the ideal DCG.

    If positives have weights, gains are multiplied by the weight relative to the row's mean weight.
    """
    gain_P, weight_P = gains(table), relative_weights(table)
    if weight_P is not None:
        gain_P = gain_P * weight_P
    return gain_P / ideal_dcg(table, k, gain_P).clamp(min=1e-30)
