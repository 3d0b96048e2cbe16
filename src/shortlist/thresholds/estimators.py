"""Estimators of the Top-K threshold: the k-th largest score of a row.

Each estimator is a function of a score table whose rows are users with all their positives, and of the previous
estimates of these rows. Estimators that are not exact use a sample of the catalogue: that of the table, or one that
they draw if the table has the full catalogue. If the table's sample has weights, draws are weighted.
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

_ROUNDING = 1e-6  # tolerance for sums of weights that should be integers

STEPS = 5
"""Steps of the regression estimator per sample."""

WINDOW = 5
"""Window of the incremental estimator's moving mean over sampled estimates."""


@dataclass(frozen=True)
class Previous:
    """Previous state of the rows: β, the number of its updates, and negatives that were near the top.

    ``near_RM`` holds columns, −1 for none; None unless the last estimate used the full catalogue.
    """

    value_R: Tensor
    updates_R: Tensor
    near_RM: Tensor | None = None


Estimate = Callable[[ScoreTable, int, int, int, torch.Generator, Previous | None], Tensor]
"""β of each row, from the table, k, the number of items, the sample size, a generator, and the previous state."""


def exact(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """The k-th largest score of the row."""
    if not table.is_full_catalogue:
        raise InputError("thresholds: expected the full catalogue for 'exact', received sampled candidates")
    return table.kth_largest(k)


def monte_carlo(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """The ⌈N·k/n⌉-th largest of N draws from all n items, with replacement (SL@K, Theorem 3.1).

    With sampling weights ω it is the largest t with ``Σ_{s_j ≥ t} ω_j / Σ_j ω_j ≥ k/n``. Not usable where N·k/n < 1:
    the largest of the draws then estimates a rank deeper than k.
    """
    if table.is_full_catalogue:
        drawn_N = torch.randint(n_items, (samples,), generator=generator, device=generator.device)
        table = table.restricted(drawn_N.to(table.row_P.device))
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

    It is biased downwards, since negatives that were not drawn are not counted above the threshold. By definition each
    draw counts as one, regardless of its weight.
    """
    return _sampled(table, n_items, samples, generator).kth_largest(k)


def stratified(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """The largest t with ``#{p : s_p ≥ t} + Σ_{j drawn : s_j ≥ t} v_j ≥ k``: draws are weighted.

    ``v_j = |N|·ω_j / Σ_{j' drawn} ω_j'`` is the number of negatives that a draw represents: |N|/N̂ for uniform draws.
    If fewer than k reach the lowest score, it is the lowest score.
    """
    sample = _sampled(table, n_items, samples, generator)
    drawn = _drawn_negatives(sample, n_items)
    drawn_RE, place_RE = drawn.score_RN.topk(drawn.enough(k), 1, sorted=False)
    positive_RM = side_by_side(sample.positives(), table.row_P, table.n_rows)
    weight_RE = drawn.counts_at(place_RE)
    weight_RN = torch.cat([weight_RE, weight_RE.new_ones(positive_RM.shape)], 1)
    return _largest_reached(torch.cat([drawn_RE, positive_RM], 1), weight_RN, k)


def regression(
    table: ScoreTable, k: int, n_items: int, samples: int, generator: torch.Generator, last: Previous | None = None
) -> Tensor:
    """Quantile regression: a few subgradient steps on the pinball loss of a sample, starting from the previous β.

    The loss ``E[p·(s − β)₊ + (1 − p)·(β − s)₊]`` with p = 1 − k/n has the derivative F(β) − p: β increases if more than
    k items are estimated to reach it, and decreases if fewer do. Steps are scaled by σ, the standard deviation of the
    row's drawn scores, and by 1/k, since the fraction k/n above β is small:

        β ← β + η·σ·min(1, ĉ(β)/k − 1),   η = 1/√(1 + steps taken so far)

    where ĉ counts positives as one and draws by their weight v, as in :func:`stratified`. Nothing is sorted. The first
    estimate starts from the mean of the drawn scores.

    Each step uses N̂ draws, of which about N̂·k/n lie above β: with 1000 of 8000 items and k = 20 that is 2 or 3, and
    one draw more or less changes β by a fifth of η·σ or more. The variance is therefore high until η has decreased, and
    then β follows a changing model only slowly. SL@K's authors report no gain from it.
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
    """The k-th largest among the row's positives and the few negatives that were near the top at the last full scan.

    Between two full scans only these are scored: a few times k inner products instead of those of the catalogue. The
    estimate is never above the exact threshold, since it is the k-th largest of fewer items. It is exact as long as
    every negative now in the Top-K was near the top at the last scan. :class:`~shortlist.thresholds.Thresholds` selects
    these negatives and schedules the scans. Without them it is the exact threshold.

    If candidates are a sample, most negatives near the top are not in it. Then the estimate is a moving mean of
    stratified ones, ``β ← β + (β̂ − β)/min(t, 5)`` at the t-th: less noise, with a lag of a few refreshes.
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
    """Exact if the row has the full catalogue, stratified if it has a sample."""
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
    """The table with a sample of the catalogue as candidates, drawn without replacement and shared by the rows."""
    if not table.is_full_catalogue:
        return table
    drawn_N = torch.randperm(n_items, generator=generator, device=generator.device)[:samples]
    return table.restricted(drawn_N.to(table.row_P.device))


@dataclass(frozen=True)
class _Drawn:
    """Drawn negatives: their scores, −∞ at positives, and the number of negatives that each represents, ω·scale."""

    score_RN: Tensor
    weight_RN: Tensor | None
    scale_R: Tensor

    def enough(self, k: int) -> int:
        """A number of highest draws that is certain to represent k negatives."""
        present_R = self.scale_R[self.scale_R > 0]
        lightest = float(present_R.amin()) if len(present_R) else 1.0
        if self.weight_RN is not None:  # a draw of weight 0 represents nothing
            lightest *= float(self.weight_RN[self.weight_RN > 0].amin()) if bool((self.weight_RN > 0).any()) else 1.0
        return min(self.score_RN.shape[1], math.ceil(min(k / lightest, self.score_RN.shape[1])) + 1)

    def counts_at(self, place_RE: Tensor) -> Tensor:
        """The number of negatives that the draws at the given positions represent."""
        scale_RE = self.scale_R.unsqueeze(1).expand(place_RE.shape)
        return scale_RE if self.weight_RN is None else scale_RE * self.weight_RN.gather(1, place_RE)

    def reaching(self, value_R: Tensor) -> Tensor:
        """The estimated number of negatives that score at least ``value_R``."""
        above_RN = torch.empty_like(self.score_RN)  # 0 and 1: floats are summed faster than booleans
        torch.ge(self.score_RN, value_R.unsqueeze(1), out=above_RN)
        return (above_RN if self.weight_RN is None else above_RN * self.weight_RN).sum(1) * self.scale_R


def _drawn_negatives(sample: ScoreTable, n_items: int) -> _Drawn:
    """The negatives of a sample, with weights scaled so that they represent all negatives of the row.

    If all draws are positives, the scale is 0.
    """
    is_negative_RN, log_weight = sample.is_negative(), sample.log_weights()
    score_RN = sample.matrix().masked_fill(~is_negative_RN, -torch.inf)
    weight_RN = None if log_weight is None else log_weight.double().exp().expand(score_RN.shape)
    total_R = (is_negative_RN if weight_RN is None else weight_RN.masked_fill(~is_negative_RN, 0)).sum(1)
    n_represented_R = n_items - torch.bincount(sample.row_P, minlength=sample.n_rows)
    return _Drawn(score_RN, weight_RN, torch.where(total_R > 0, n_represented_R / total_R.double(), 0))


def _largest_reached(score_RN: Tensor, weight_RN: Tensor, k: int) -> Tensor:
    """The largest finite score t for which the weights of scores ≥ t sum to at least k; the lowest if there is none."""
    score_RN, order_RN = score_RN.sort(1, descending=True)
    finite_RN = score_RN.isfinite()
    is_below_k_RN = (weight_RN.gather(1, order_RN) * finite_RN).cumsum(1) < k - _ROUNDING
    place_R = is_below_k_RN.sum(1).minimum(finite_RN.sum(1) - 1)
    return score_RN.gather(1, place_R.clamp(min=0).unsqueeze(1)).squeeze(1)
