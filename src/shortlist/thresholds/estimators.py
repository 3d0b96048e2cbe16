"""Where a user's Top-K list ends: estimates of the k-th largest score of a row.

Each estimator is a function of a score table whose rows are users with all their positives. Those that are
not exact look at a sample of the catalogue: the table's own, or one that they draw where the table has everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.scores import ScoreTable
from shortlist.scores.selection import largest, side_by_side

Estimator = Literal["auto", "exact", "monte_carlo", "positives_kept", "stratified"]

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
    is_positive_RN = sample.is_positive()
    count_R = torch.bincount(table.row_P, minlength=table.n_rows)
    weight_R = (n_items - count_R).double() / (~is_positive_RN).sum(1).clamp(min=1)
    # k of each are enough: a positive counts for one, and a draw for at least one
    drawn_RK = largest(sample.matrix().masked_fill(is_positive_RN, -torch.inf), k)
    kept_RM = side_by_side(sample.positives(), table.row_P, table.n_rows)
    weight_RN = torch.cat([weight_R.unsqueeze(1).expand_as(drawn_RK), torch.ones_like(kept_RM)], 1)
    score_RN, order_RN = torch.cat([drawn_RK, kept_RM], 1).sort(1, descending=True)
    there_RN = score_RN.isfinite()
    short_RN = (weight_RN.gather(1, order_RN) * there_RN).cumsum(1) < k - _ROUNDING
    place_R = short_RN.sum(1).minimum(there_RN.sum(1) - 1)
    return score_RN.gather(1, place_R.clamp(min=0).unsqueeze(1)).squeeze(1)


def auto(table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator) -> Tensor:
    """Exact where the row shows the whole catalogue, stratified where it shows a sample."""
    return (exact if table.complete else stratified)(table, k, n_items, samples, generator)


ESTIMATORS: dict[Estimator, Callable[[ScoreTable, int, int, int, torch.Generator], Tensor]] = {
    "auto": auto,
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
