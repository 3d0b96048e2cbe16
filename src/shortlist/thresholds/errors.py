"""Errors of estimated Top-K thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROUNDING = 1e-6  # rounding differences of the same products computed in different blocks


@dataclass(frozen=True)
class ThresholdError:
    """Error measures of estimates β̂ of the thresholds β, over users."""

    error: float
    """The mean of |β̂ − β|."""

    deviation: float
    """The standard deviation of |β̂ − β| over users."""

    bias: float
    """The mean of β̂ − β: below 0 where thresholds are estimated too low."""

    rank_error: float
    """The mean absolute error of the rank at the threshold."""

    recall: float
    """The fraction of positives in their user's Top-K that are above β̂; 0 without such positives."""

    precision: float
    """The fraction of positives above β̂ that are in their user's Top-K; 0 without such positives."""


@torch.no_grad()
def judge(estimate_R: Tensor, ascending_RI: Tensor, pos_P: Tensor, row_P: Tensor, k: int) -> ThresholdError:
    """Compare with the k-th largest score of each row; ``ascending_RI`` are the scores of all items, sorted by row.

    >>> scores, positives = torch.tensor([[0.1, 0.3, 0.7, 0.9]]), torch.tensor([0.9])
    >>> judged = judge(torch.tensor([0.5]), scores, positives, row_P=torch.tensor([0]), k=3)
    >>> f"{judged.error:.1f} {judged.bias:.1f} {judged.rank_error:g} {judged.recall:g}"
    '0.2 0.2 1 1'
    """
    exact_R = ascending_RI[:, -k]
    error_R = (estimate_R - exact_R).double()
    below_R = torch.searchsorted(ascending_RI, estimate_R.unsqueeze(1) - _ROUNDING).squeeze(1)
    inside_P, predicted_P = pos_P >= exact_R[row_P], pos_P >= estimate_R[row_P] - _ROUNDING
    true_positives = float((predicted_P & inside_P).sum())
    return ThresholdError(
        error=float(error_R.abs().mean()),
        deviation=float(error_R.abs().std(correction=0)),
        bias=float(error_R.mean()),
        rank_error=float((ascending_RI.shape[1] - below_R - k).abs().double().mean()),
        recall=true_positives / max(1.0, float(inside_P.sum())),
        precision=true_positives / max(1.0, float(predicted_P.sum())),
    )
