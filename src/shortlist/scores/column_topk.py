"""The largest scores of each row, by a two-step selection."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

_GROUP = 16  # scores per group, reduced to their maximum before the selection


def largest(score_RC: Tensor, k: int) -> Tensor:
    """The k largest values of each row, descending; the values of ``torch.topk``, several times faster on long rows.

    A row is folded into strided groups of 16. The k largest scores lie in the k groups with the largest maxima, so only
    16·k scores remain to select from. The maxima along the strided axis are limited by memory bandwidth only.

    >>> largest(torch.tensor([[3.0, 1.0, 2.0]]), 2)
    tensor([[3., 2.]])
    """
    n_columns = score_RC.shape[1]
    if n_columns // _GROUP < 4 * k:
        return score_RC.topk(min(k, n_columns), 1).values
    return _pool(score_RC, k)[0].topk(k, 1).values


def best_columns(score_RC: Tensor, k: int) -> Tensor:
    """The columns of the k largest finite values of each row, in no order; −1 where there are fewer.

    >>> best_columns(torch.tensor([[3.0, 1.0, 2.0]]), 1), best_columns(torch.tensor([[-torch.inf]]), 2)
    (tensor([[0]]), tensor([[-1, -1]]))
    """
    n_columns = score_RC.shape[1]
    width = n_columns // _GROUP
    if width < 4 * k:
        value_RK, column_RK = score_RC.topk(min(k, n_columns), 1, sorted=False)
        column_RK.masked_fill_(value_RK == -torch.inf, -1)
        return F.pad(column_RK, (0, k - column_RK.shape[1]), value=-1)
    pool_RN, group_RK = _pool(score_RC, k)
    value_RK, place_RK = pool_RN.topk(k, 1, sorted=False)
    folded_RK = (place_RK // k) * width + group_RK.gather(1, place_RK % k)
    column_RK = torch.where(place_RK < _GROUP * k, folded_RK, place_RK + _GROUP * (width - k))
    return column_RK.masked_fill_(value_RK == -torch.inf, -1)


def _pool(score_RC: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Scores that include the k largest: those of the k best groups, stride by stride, then the rest of the row."""
    n_rows, width = len(score_RC), score_RC.shape[1] // _GROUP
    folded_RGW = score_RC[:, : width * _GROUP].view(n_rows, _GROUP, width)
    group_RK = folded_RGW.amax(1).topk(k, 1, sorted=False).indices
    group_RGK = folded_RGW.gather(2, group_RK.unsqueeze(1).expand(n_rows, _GROUP, k))
    return torch.cat([group_RGK.flatten(1), score_RC[:, width * _GROUP :]], 1), group_RK


def gathered(score_RC: Tensor, column_RM: Tensor) -> Tensor:
    """The scores of the given columns of each row; −∞ at column −1."""
    return score_RC.gather(1, column_RM.clamp(min=0)).masked_fill_(column_RM < 0, -torch.inf)


def side_by_side(value_P: Tensor, row_P: Tensor, n_rows: int) -> Tensor:
    """Values arranged by row, padded with −∞.

    >>> side_by_side(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 0, 1]), 2)
    tensor([[2., -inf],
            [1., 3.]])
    """
    place_P = places(row_P, n_rows)
    side_RM = value_P.new_full((n_rows, int(place_P.max()) + 1 if len(row_P) else 0), -torch.inf)
    side_RM[row_P, place_P] = value_P
    return side_RM


def places(row_P: Tensor, n_rows: int) -> Tensor:
    """The position of each element within its row: the number of earlier elements of the same row.

    >>> places(torch.tensor([1, 0, 1]), 2)
    tensor([0, 0, 1])
    """
    count_R = torch.bincount(row_P, minlength=n_rows)
    order_P = torch.argsort(row_P, stable=True)
    place_S = torch.arange(len(row_P), device=row_P.device) - (count_R.cumsum(0) - count_R)[row_P[order_P]]
    return torch.empty_like(row_P).scatter_(0, order_P, place_S)


def kth_largest(cand_RC: Tensor, pos_P: Tensor, row_P: Tensor, k: int) -> Tensor:
    """The k-th largest score of each row among finite candidates and positives; the lowest if there are fewer."""
    side_RM = side_by_side(pos_P, row_P, len(cand_RC))
    top_RK = largest(torch.cat([largest(cand_RC, k), side_RM], 1), k)
    there_R = top_RK.isfinite().sum(1).clamp_(min=1)
    return top_RK.gather(1, (there_R - 1).unsqueeze(1)).squeeze(1)


def descending(score_RN: Tensor) -> Tensor:
    """An order of each row from the highest score to the lowest, by numpy, whose sort is several times faster.

    >>> descending(torch.tensor([[1.0, 3.0, 2.0]]))
    tensor([[1, 2, 0]])
    """
    if score_RN.device.type != "cpu":
        return score_RN.argsort(1, descending=True)
    return torch.from_numpy(np.argsort(-score_RN.numpy(), 1))


def ranks(negative_RC: Tensor, pos_P: Tensor, row_P: Tensor, count_R: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Ranks of negatives and positives among both, with ties counted against each; missing entries have the score −∞.

    Each negative counts as ``count_R`` items of its row and a positive as one. With several columns the last is for
    positives and the others are for negatives: one for all, or one for each.

    >>> ranks(torch.tensor([[3.0, 1.0]]), torch.tensor([2.0, 1.0]), torch.tensor([0, 0]))
    (tensor([[1., 4.]]), tensor([2., 4.]))
    >>> ranks(torch.tensor([[3.0, 1.0]]), torch.tensor([2.0, 1.0]), torch.tensor([0, 0]), torch.tensor([10.0]))
    (tensor([[10., 22.]]), tensor([11., 22.]))
    >>> ranks(torch.tensor([[3.0, 1.0]]), torch.tensor([2.0, 1.0]), torch.tensor([0, 0]), torch.tensor([[5.0, 5.0]]))
    (tensor([[ 5., 20.]]), tensor([10., 20.]))
    >>> ranks(torch.tensor([[3.0, 1.0]]), torch.tensor([2.0, 0.0]), torch.tensor([0, 0]), torch.tensor([[4.0, 7, 1]]))
    (tensor([[ 4., 12.]]), tensor([ 5., 13.]))
    """
    n_rows, n_negatives = negative_RC.shape
    score_RN = torch.cat([negative_RC, side_by_side(pos_P, row_P, n_rows)], 1)
    order_RN = descending(score_RN)
    score_RN = score_RN.gather(1, order_RN)
    if count_R is None:
        above_RN = torch.arange(1, score_RN.shape[1] + 1, dtype=score_RN.dtype, device=score_RN.device).expand_as(
            score_RN
        )
    else:
        count = (count_R if count_R.ndim == 2 else torch.stack([count_R, torch.ones_like(count_R)], 1)).to(
            score_RN.dtype
        )
        n_positives = score_RN.shape[1] - n_negatives
        count_RN = torch.cat([count[:, :-1].expand(-1, n_negatives), count[:, -1:].expand(-1, n_positives)], 1)
        above_RN = count_RN.gather(1, order_RN).cumsum_(1)
    is_last_RN = torch.ones_like(score_RN, dtype=torch.bool)
    is_last_RN[:, :-1] = score_RN[:, 1:] != score_RN[:, :-1]
    # equal scores share the rank of the last of them: a running minimum, from the end, over the ranks of last ones
    rank_RN = torch.where(is_last_RN, above_RN, torch.inf).flip(1).cummin(1).values.flip(1)
    rank_RN = torch.empty_like(rank_RN).scatter_(1, order_RN, rank_RN)
    return rank_RN[:, :n_negatives], rank_RN[row_P, n_negatives + places(row_P, n_rows)]
