"""How far estimated Top-K thresholds lie from the exact ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROUNDING = 1e-6  # products of the same vectors differ by so much, in whatever portions they are computed


@dataclass(frozen=True)
class ThresholdError:
    """What is wrong with estimates β̂ of the thresholds β of some users."""

    error: float
    """The mean of |β̂ − β|."""

    deviation: float
    """The standard deviation of |β̂ − β| over users."""

    bias: float
    """The mean of β̂ − β: below 0 where thresholds are estimated too low."""

    rank_error: float
    """By how many places of its row an estimate is off, in the mean."""

    recall: float
    """Of the positives that are in their user's Top-K, the share that β̂ takes to be there; 0 where there is none."""

    precision: float
    """Of the positives that β̂ takes to be in the Top-K, the share that is there; 0 where there is none."""


@torch.no_grad()
def judge(estimate_R: Tensor, ascending_RI: Tensor, pos_P: Tensor, row_P: Tensor, k: int) -> ThresholdError:
    """Compare with the k-th largest of each row; ``ascending_RI`` are the scores of all items, each row sorted.

    >>> scores, positives = torch.tensor([[0.1, 0.3, 0.7, 0.9]]), torch.tensor([0.9])
    >>> judged = judge(torch.tensor([0.5]), scores, positives, row_P=torch.tensor([0]), k=3)
    >>> f"{judged.error:.1f} {judged.bias:.1f} {judged.rank_error:g} {judged.recall:g}"
    '0.2 0.2 1 1'
    """
    exact_R = ascending_RI[:, -k]
    off_R = (estimate_R - exact_R).double()
    below_R = torch.searchsorted(ascending_RI, estimate_R.unsqueeze(1) - _ROUNDING).squeeze(1)
    inside_P, taken_P = pos_P >= exact_R[row_P], pos_P >= estimate_R[row_P] - _ROUNDING
    both = float((taken_P & inside_P).sum())
    return ThresholdError(
        error=float(off_R.abs().mean()),
        deviation=float(off_R.abs().std(correction=0)),
        bias=float(off_R.mean()),
        rank_error=float((ascending_RI.shape[1] - below_R - k).abs().double().mean()),
        recall=both / max(1.0, float(inside_P.sum())),
        precision=both / max(1.0, float(taken_P.sum())),
    )
