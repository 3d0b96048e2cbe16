"""Where a user's Top-K list ends: estimates of the k-th largest score of a row.

Each estimator is a function of a score table whose rows are users with all their positives, and of what is known of
these rows from before. Those that are not exact look at a sample of the catalogue: the table's own, or one that they
draw where the table has everything. Where the table's sample has weights, a draw counts by its weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.scores import ScoreTable
from shortlist.scores.column_topk import kth_largest, side_by_side

Estimator = Literal["auto", "exact", "monte_carlo", "positives_kept", "stratified", "regression", "incremental"]

_ROUNDING = 1e-6  # by how much a sum of weights may miss a whole number that it is

STEPS = 5
"""Steps that regression takes on each sample."""

WINDOW = 5
"""Estimates from samples over which the incremental estimator takes a moving mean."""


@dataclass(frozen=True)
class Previous:
    """What is known of the rows from before: β, how many estimates made it, and negatives that were near the top.

    ``near_RM`` holds columns, −1 for none; it is there where the last estimate saw the whole catalogue.
    """

    value_R: Tensor
    updates_R: Tensor
    near_RM: Tensor | None = None


Estimate = Callable[[ScoreTable, int, int, int, torch.Generator, Previous | None], Tensor]
"""β of each row, from the table, k, the number of items, how many to sample, a generator, and what is known."""


def exact(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """The k-th largest score of the row itself."""
    if not table.is_full_catalogue:
        raise InputError("thresholds: expected the whole catalogue for 'exact', received sampled candidates")
    return table.kth_largest(k)


def monte_carlo(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """The ⌈N·k/n⌉-th largest of N draws from all n items, with replacement (SL@K, Theorem 3.1).

    With sampling weights ω it is the largest t with ``Σ_{s_j ≥ t} ω_j / Σ_j ω_j ≥ k/n``. Of no use where N·k/n < 1: the
    largest of the draws is then an estimate of a deeper rank than k.
    """
    if table.is_full_catalogue:
        table = table.restricted(torch.randint(n_items, (samples,), generator=generator))
    drawn_RN, log_weight = table.matrix(), table.log_weights()
    if log_weight is None:
        rank = -(-drawn_RN.shape[1] * k // n_items)
        return drawn_RN.topk(min(rank, drawn_RN.shape[1]), 1).values[:, -1]
    weight_RN = log_weight.double().exp().expand(drawn_RN.shape)
    return _largest_reached(drawn_RN, weight_RN * (n_items / weight_RN.sum(1, keepdim=True)), k)


def positives_kept(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """The k-th largest among the row's positives and N sampled negatives: the estimator that SL@K's authors train with.

    It is biased downwards, since the negatives that were not drawn cannot stand above the threshold. A draw counts for
    one, whatever its weight: that is its definition.
    """
    return _sampled(table, n_items, samples, generator).kth_largest(k)


def stratified(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """The largest t with ``#{p : s_p ≥ t} + Σ_{j drawn : s_j ≥ t} v_j ≥ k``: a draw counts for many.

    ``v_j = |N|·ω_j / Σ_{j' drawn} ω_j'`` is how many negatives a draw stands for: |N|/N̂ where each had the same chance.
    Where even the lowest score is reached by fewer than k, it is the lowest score.
    """
    sample = _sampled(table, n_items, samples, generator)
    drawn = _drawn_negatives(sample, n_items)
    drawn_RE, place_RE = drawn.score_RN.topk(drawn.enough(k), 1, sorted=False)
    kept_RM = side_by_side(sample.positives(), table.row_P, table.n_rows)
    weight_RE = drawn.stands_for(place_RE)
    weight_RN = torch.cat([weight_RE, weight_RE.new_ones(kept_RM.shape)], 1)
    return _largest_reached(torch.cat([drawn_RE, kept_RM], 1), weight_RN, k)


def regression(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """Quantile regression: a few subgradient steps on the pinball loss of a sample, from the last β on.

    The loss ``E[p·(s − β)₊ + (1 − p)·(β − s)₊]`` with p = 1 − k/n has the derivative F(β) − p: β rises where more than
    k items are estimated to reach it, and falls where fewer do. Steps are measured in σ, the deviation of the row's
    drawn scores, and by k, since the share k/n above β is tiny:

        β ← β + η·σ·min(1, ĉ(β)/k − 1),   η = 1/√(1 + steps taken so far)

    where ĉ counts positives as one and draws for as many as they stand for, as in :func:`stratified`. Nothing is
    sorted. The first estimate starts from the mean of the drawn scores.

    Each step sees N̂ draws, of which about N̂·k/n lie above β: with 1000 of 8000 items and k = 20 that is 2 or 3, and one
    more or less moves β by a fifth of η·σ or more. Its variance is therefore high until η has fallen, and when it has,
    β follows a model that still moves only slowly. SL@K's authors report no gain from it.
    """
    sample = _sampled(table, n_items, samples, generator)
    drawn, score_RN, pos_P = _drawn_negatives(sample, n_items), sample.matrix(), sample.positives()
    value_R = score_RN.mean(1)
    deviation_R = torch.linalg.vector_norm(score_RN - value_R.unsqueeze(1), dim=1) / score_RN.shape[1] ** 0.5
    done_R = torch.zeros_like(value_R)
    if last is not None:
        value_R = torch.where(last.updates_R > 0, last.value_R.to(value_R.dtype), value_R)
        done_R = last.updates_R.to(done_R.dtype) * STEPS
    for step in range(STEPS):
        count_R = table.row_total((pos_P >= table.per_positive(value_R)).to(value_R.dtype))
        count_R += drawn.reaching(value_R)
        value_R = value_R + deviation_R / (1 + done_R + step).sqrt() * (count_R / k - 1).clamp(max=1)
    return value_R


def incremental(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """The k-th largest among the row's positives and the few negatives that were near the top when last looked.

    Between two looks at the whole row only these are scored: a few times k inner products instead of the catalogue's.
    The estimate is never above the exact threshold, since it is the k-th largest of fewer items, and is exact as long
    as every negative that now belongs to the Top-K was near it then. :class:`~shortlist.thresholds.Thresholds` decides
    which are near and when to look again. Without such a list it is the exact threshold.

    Where candidates are a sample, most negatives near the top are not in it. There the estimate is a moving mean of
    stratified ones, ``β ← β + (β̂ − β)/min(t, 5)`` at the t-th: less noise, for a lag of a few refreshes.
    """
    if table.is_full_catalogue:
        if last is None or last.near_RM is None:
            return exact(table, k, n_items, samples, generator)
        return kth_largest(table.scores_at(last.near_RM), table.positives(), table.row_P, k)
    estimate_R = stratified(table, k, n_items, samples, generator)
    if last is None:
        return estimate_R
    gain_R = 1 / (last.updates_R + 1).clamp(max=WINDOW).to(estimate_R.dtype)
    return torch.lerp(last.value_R.to(estimate_R.dtype), estimate_R, gain_R)


def auto(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """Exact where the row shows the whole catalogue, stratified where it shows a sample."""
    return (exact if table.is_full_catalogue else stratified)(table, k, n_items, samples, generator)


ESTIMATORS: dict[Estimator, Estimate] = {
    "auto": auto,
    "exact": exact,
    "monte_carlo": monte_carlo,
    "positives_kept": positives_kept,
    "stratified": stratified,
    "regression": regression,
    "incremental": incremental,
}


def _sampled(table: ScoreTable, n_items: int, samples: int, generator: torch.Generator) -> ScoreTable:
    """The table against a sample of the catalogue, each item drawn at most once and shared by the rows."""
    if not table.is_full_catalogue:
        return table
    return table.restricted(torch.randperm(n_items, generator=generator)[:samples])


@dataclass(frozen=True)
class _Drawn:
    """Drawn negatives: their scores, −∞ at positives, and how many negatives of the row each stands for: ω·scale."""

    score_RN: Tensor
    weight_RN: Tensor | None
    scale_R: Tensor

    def enough(self, k: int) -> int:
        """So many of the highest are sure to stand for k."""
        present_R = self.scale_R[self.scale_R > 0]
        lightest = float(present_R.amin()) if len(present_R) else 1.0
        if self.weight_RN is not None:  # a draw of weight 0 stands for nothing
            lightest *= float(self.weight_RN[self.weight_RN > 0].amin()) if bool((self.weight_RN > 0).any()) else 1.0
        return min(self.score_RN.shape[1], math.ceil(min(k / lightest, self.score_RN.shape[1])) + 1)

    def stands_for(self, place_RE: Tensor) -> Tensor:
        """How many negatives the draws at some places stand for."""
        scale_RE = self.scale_R.unsqueeze(1).expand(place_RE.shape)
        return scale_RE if self.weight_RN is None else scale_RE * self.weight_RN.gather(1, place_RE)

    def reaching(self, value_R: Tensor) -> Tensor:
        """How many negatives are estimated to score at least so high."""
        above_RN = torch.empty_like(self.score_RN)  # of 0 and 1: numbers are summed faster than truths
        torch.ge(self.score_RN, value_R.unsqueeze(1), out=above_RN)
        return (above_RN if self.weight_RN is None else above_RN * self.weight_RN).sum(1) * self.scale_R


def _drawn_negatives(sample: ScoreTable, n_items: int) -> _Drawn:
    """The negatives of a sample, whose weights are scaled so that they stand for all negatives of the row.

    Where all that was drawn is positive, nothing stands for them.
    """
    is_positive_RN, log_weight = sample.is_positive(), sample.log_weights()
    score_RN = sample.matrix().masked_fill(is_positive_RN, -torch.inf)
    weight_RN = None if log_weight is None else log_weight.double().exp().expand(score_RN.shape)
    total_R = (~is_positive_RN if weight_RN is None else weight_RN.masked_fill(is_positive_RN, 0)).sum(1)
    n_represented_R = n_items - torch.bincount(sample.row_P, minlength=sample.n_rows)
    return _Drawn(score_RN, weight_RN, torch.where(total_R > 0, n_represented_R / total_R.double(), 0))


def _largest_reached(score_RN: Tensor, weight_RN: Tensor, k: int) -> Tensor:
    """The largest finite score that the weights of scores at least as high sum to k at; the lowest if none does."""
    score_RN, order_RN = score_RN.sort(1, descending=True)
    there_RN = score_RN.isfinite()
    short_RN = (weight_RN.gather(1, order_RN) * there_RN).cumsum(1) < k - _ROUNDING
    place_R = short_RN.sum(1).minimum(there_RN.sum(1) - 1)
    return score_RN.gather(1, place_R.clamp(min=0).unsqueeze(1)).squeeze(1)
