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
    """The largest t with ``#{p : s_p ≥ t} + (|N|/N̂)·#{j drawn : s_j ≥ t} ≥ k``: a draw counts for many."""
    sample = _sampled(table, n_items, samples, generator)
    negative_RN = sample.matrix().masked_fill(sample.is_positive(), -torch.inf)
    count_R = torch.bincount(table.row_P, minlength=table.n_rows)
    weight_R = (n_items - count_R) / negative_RN.isfinite().sum(1).clamp(min=1)
    row_M = torch.cat([torch.arange(table.n_rows).repeat_interleave(negative_RN.shape[1]), table.row_P])
    score_M = torch.cat([negative_RN.flatten(), sample.positives()])
    weight_M = torch.cat([weight_R.repeat_interleave(negative_RN.shape[1]), torch.ones(table.n_positives)])
    by_score = torch.argsort(score_M, descending=True, stable=True)
    order_M = by_score[torch.argsort(row_M[by_score], stable=True)]
    total_M = weight_M[order_M].double().cumsum(0)
    end_R = torch.bincount(row_M, minlength=table.n_rows).cumsum(0)
    before_R = torch.cat([torch.zeros(1, dtype=torch.double), total_M[end_R[:-1] - 1]])
    place_R = torch.searchsorted(total_M, before_R + k - 1e-9).minimum(end_R - 1)
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
