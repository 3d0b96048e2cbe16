"""What a list is worth: labels, gains G(y) = 2^y − 1, discounts 1/log₂(1 + r), and the best that a row can reach."""

from __future__ import annotations

import torch
from torch import Tensor

from shortlist.scores import ScoreTable
from shortlist.scores.column_topk import places


def dcg_discount(rank: Tensor) -> Tensor:
    """1/D(r), what a place is worth.

    >>> dcg_discount(torch.tensor([1.0, 3.0]))
    tensor([1.0000, 0.5000])
    """
    return torch.log2(rank + 1).reciprocal_()


def grades(table: ScoreTable) -> Tensor:
    """The label of each positive: its grade, or 1."""
    pos_P = table.positives()
    return torch.ones_like(pos_P) if table.grade_P is None else table.grade_P.to(pos_P.dtype)


def gains(table: ScoreTable) -> Tensor:
    """2^y − 1 of each positive."""
    return torch.exp2(grades(table)) - 1


def ideal_dcg(table: ScoreTable, k: int | None = None) -> Tensor:
    """The DCG of each positive's row, among its first k places, if its positives stood in the best order."""
    gain_P = gains(table)
    order_P = torch.argsort(gain_P, descending=True, stable=True)
    rank_P = torch.empty_like(table.row_P).scatter_(0, order_P, places(table.row_P[order_P], table.n_rows)) + 1
    part_P = torch.where(rank_P <= (k or table.n_positives), gain_P * dcg_discount(rank_P.to(gain_P.dtype)), 0)
    return table.per_positive(table.row_total(part_P))
