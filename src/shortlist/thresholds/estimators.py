"""Where a user's Top-K list ends: estimates of the k-th largest score of a row.

Each estimator is a function of a score table whose rows are users with all their positives. All but :func:`exact` look
at a sample of the catalogue only: the table's own, or one that they draw where the table has the whole catalogue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.scores import ScoreTable

Estimator = Literal["exact", "monte_carlo", "positives_kept", "stratified"]

_ROUNDING = 1e-6  # by how much a sum of weights may miss a whole number that it is


def exact(table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator) -> Tensor:
    """The k-th largest score of the row itself."""
    if not table.complete:
        raise InputError("thresholds: expected the whole catalogue for 'exact', received sampled candidates")
    return table.kth_largest(k)


def monte_carlo(table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator) -> Tensor:
    """The ⌈N·k/n⌉-th largest of N draws from all n items, with replacement (SL@K, Theorem 3.1).

    Of no use where N·k/n < 1: the largest of the draws is then an estimate of a deeper rank than k.
    """
    if table.complete:
        table = table.restricted(torch.randint(n_items, (samples,), generator=generator))
    drawn_RN = table.matrix()
    rank = -(-drawn_RN.shape[1] * k // n_items)
    return drawn_RN.topk(min(rank, drawn_RN.shape[1]), 1).values[:, -1]


def positives_kept(table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator) -> Tensor:
    """The k-th largest among the row's positives and N sampled negatives: the estimator that SL@K's authors train with.

    It is biased downwards, since the negatives that were not drawn cannot stand above the threshold.
    """
    return _sampled(table, n_items, samples, generator).kth_largest(k)


def stratified(table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator) -> Tensor:
    """The largest t with ``#{p : s_p ≥ t} + (|N|/N̂)·#{j drawn : s_j ≥ t} ≥ k``: a draw counts for many.

    Where even the lowest score is reached by fewer, it is the lowest score.
    """
    sample = _sampled(table, n_items, samples, generator)
    row_N, column_N = (~sample.is_positive()).nonzero(as_tuple=True)
    drawn_R, count_R = (torch.bincount(row, minlength=table.n_rows) for row in (row_N, table.row_P))
    weight_R = (n_items - count_R).double() / drawn_R.clamp(min=1)
    row_M = torch.cat([row_N, table.row_P])
    score_M = torch.cat([sample.matrix()[row_N, column_N], sample.positives()])
    weight_M = torch.cat([weight_R[row_N], weight_R.new_ones(table.n_positives)])
    by_score = torch.argsort(score_M, descending=True, stable=True)
    order_M = by_score[torch.argsort(row_M[by_score], stable=True)]
    total_M = weight_M[order_M].cumsum(0)
    end_R = (drawn_R + count_R).cumsum(0)
    before_R = torch.cat([total_M.new_zeros(1), total_M[end_R[:-1] - 1]])
    place_R = torch.searchsorted(total_M, before_R + (k - _ROUNDING)).minimum(end_R - 1)
    return score_M[order_M][place_R]


ESTIMATORS: dict[Estimator, Callable[[ScoreTable, int, int, int, torch.Generator], Tensor]] = {
    "exact": exact,
    "monte_carlo": monte_carlo,
    "positives_kept": positives_kept,
    "stratified": stratified,
}


def _sampled(table: ScoreTable, n_items: int, samples: int, generator: torch.Generator) -> ScoreTable:
    """The table against a sample of the catalogue, each item drawn at most once and shared by the rows."""
    if not table.complete:
        return table
    return table.restricted(torch.randperm(n_items, generator=generator)[:samples])
