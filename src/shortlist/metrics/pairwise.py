"""AUC and its partial forms over the full catalogue.

The positives of a user are the items of the truth, the negatives all other items that are not excluded. An excluded
positive counts as ranked below every negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shortlist.data import FloatArray, IntArray
from shortlist.errors import InputError
from shortlist.ranking import RowItems, Selector


@dataclass(frozen=True, eq=False)
class PairCounts:
    """The numbers of the user's negatives above and equal to each positive; positives are sorted by user."""

    row_P: IntArray
    above_P: IntArray
    level_P: IntArray
    positives_R: IntArray
    negatives_R: IntArray


def auc(counts: PairCounts) -> FloatArray:
    """P(s_i > s_j) + ½ P(s_i = s_j) for a positive i and a negative j; NaN without negatives."""
    below_P = counts.negatives_R[counts.row_P] - counts.above_P - 0.5 * counts.level_P
    return _per_pair(counts, below_P)


def opauc(counts: PairCounts, beta: float) -> FloatArray:
    """One-way partial AUC: correctly ordered pairs with the top ⌈β n⁻⌉ negatives, divided by n⁺ n⁻; ties count 0.

    The largest value is about β (Dodd and Pepe, 2003).
    """
    return llpauc(counts, 1.0, beta)


def llpauc(counts: PairCounts, alpha: float, beta: float, *, normalised: bool = False) -> FloatArray:
    """Lower-left partial AUC: Σ 1[s_i > s_j] / (n⁺ n⁻) over the top ⌈α n⁺⌉ positives and ⌈β n⁻⌉ negatives.

    The largest value is ⌈α n⁺⌉⌈β n⁻⌉ / (n⁺ n⁻), which is αβ if the counts are integers; ``normalised`` divides by it
    (Shi et al., Lower-Left Partial AUC, WWW 2024).
    """
    check_shares(alpha, beta)
    top_positives_R = _ceil(alpha * counts.positives_R)
    top_negatives_R = _ceil(beta * counts.negatives_R)
    limit_P = top_negatives_R[counts.row_P]
    reach_P = counts.above_P + counts.level_P
    below_P = limit_P - np.minimum(limit_P, reach_P)
    best_first = np.lexsort((reach_P, counts.row_P))
    start_R = np.cumsum(counts.positives_R) - counts.positives_R
    place_P = np.arange(len(counts.row_P)) - start_R[counts.row_P]
    is_top_P = np.empty(len(counts.row_P), np.bool_)
    is_top_P[best_first] = place_P < top_positives_R[counts.row_P]
    value_R = _per_pair(counts, np.where(is_top_P, below_P, 0))
    if not normalised:
        return value_R
    with np.errstate(invalid="ignore", divide="ignore"):
        return value_R * counts.positives_R * counts.negatives_R / (top_positives_R * top_negatives_R)


def check_shares(alpha: float, beta: float) -> None:
    """Raise an error unless both fractions are above 0 and at most 1."""
    for name, share in (("alpha", alpha), ("beta", beta)):
        if not 0 < share <= 1:
            raise InputError(f"llpauc.{name}: expected a number above 0 and at most 1, received {share!r}")


def _ceil(share_R: FloatArray) -> IntArray:
    """Round up, with a tolerance for rounding errors: 0.07 · 100 is 7.000000000000001."""
    return np.ceil(share_R - 1e-9 * share_R).astype(np.int64)


def _per_pair(counts: PairCounts, below_P: FloatArray) -> FloatArray:
    pairs_R = counts.positives_R * counts.negatives_R
    total_R = np.bincount(counts.row_P, below_P, minlength=len(pairs_R))
    value_R: FloatArray = np.full(len(pairs_R), math.nan)
    np.divide(total_R, pairs_R, out=value_R, where=pairs_R > 0)
    return value_R


class PairCountsCollector:
    """Collect the counts of the truth's items during :func:`~shortlist.ranking.score_catalogue`, tile by tile."""

    def __init__(self, truth: RowItems) -> None:
        self._positives_R = truth.counts()
        self._row_P, self._item_P = truth.pairs_of(np.arange(len(truth)))
        self._start_R = np.concatenate([[0], np.cumsum(self._positives_R)])
        self._above_P, self._level_P = np.zeros((2, len(self._row_P)), np.int64)
        self._negatives_R = np.zeros(len(truth), np.int64)

    def keep(self, rows: slice, selector: Selector) -> None:
        """Count for a scored tile."""
        scores_TI = selector.scores[: rows.stop - rows.start].numpy()
        ascending_TI = np.sort(scores_TI, axis=1)
        for row, scores_I, ascending_I in zip(range(rows.start, rows.stop), scores_TI, ascending_TI, strict=True):
            span = slice(self._start_R[row], self._start_R[row + 1])
            score_p = scores_I[self._item_P[span]]
            positives_p = np.sort(score_p)
            may_p = score_p > -np.inf
            first = np.searchsorted(ascending_I, -np.inf, side="right")
            self._negatives_R[row] = len(ascending_I) - first - np.count_nonzero(may_p)
            above_p = _above(ascending_I, score_p) - _above(positives_p, score_p)
            reach_p = _above(ascending_I, score_p, "left") - _above(positives_p, score_p, "left")
            self._above_P[span] = np.where(may_p, above_p, self._negatives_R[row])
            self._level_P[span] = np.where(may_p, reach_p - above_p, 0)

    def counts(self) -> PairCounts:
        """The counts, after all tiles are scored."""
        return PairCounts(self._row_P, self._above_P, self._level_P, self._positives_R, self._negatives_R)


def _above(ascending: FloatArray, score: FloatArray, side: str = "right") -> IntArray:
    """The number of values above each score; with ``left``, of those that reach it."""
    return len(ascending) - np.searchsorted(ascending, score, side=side)  # type: ignore[call-overload,no-any-return]
