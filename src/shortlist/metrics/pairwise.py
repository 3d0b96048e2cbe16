"""AUC and its partial forms over the whole catalogue: how positives stand against negatives.

The positives of a user are the items of the truth, the negatives all other items that may be recommended. A positive
that is excluded cannot be recommended: it counts as one that stands below every negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shortlist.data import FloatArray, IntArray, Interactions
from shortlist.errors import InputError
from shortlist.ranking import Selector


@dataclass(frozen=True, eq=False)
class Standing:
    """How many of the user's negatives score above each positive and how many the same, positives grouped by user."""

    row_P: IntArray
    above_P: IntArray
    level_P: IntArray
    positives_R: IntArray
    negatives_R: IntArray


def auc(standing: Standing) -> FloatArray:
    """P(s_i > s_j) + ½ P(s_i = s_j) for a positive i and a negative j; no value (NaN) without negatives."""
    below_P = standing.negatives_R[standing.row_P] - standing.above_P - 0.5 * standing.level_P
    return _per_pair(standing, below_P)


def opauc(standing: Standing, beta: float) -> FloatArray:
    """One-way partial AUC: only the top ⌈β n⁻⌉ negatives are asked, out of all n⁺ n⁻ pairs; ties count 0.

    The largest value is about β (Dodd and Pepe, 2003).
    """
    return llpauc(standing, 1.0, beta)


def llpauc(standing: Standing, alpha: float, beta: float, *, normalised: bool = False) -> FloatArray:
    """Lower-left partial AUC: Σ 1[s_i > s_j] / (n⁺ n⁻) over the top ⌈α n⁺⌉ positives and ⌈β n⁻⌉ negatives.

    The largest value is ⌈α n⁺⌉⌈β n⁻⌉ / (n⁺ n⁻), which is αβ where the counts are whole; ``normalised`` divides by it
    (Shi et al., Lower-Left Partial AUC, WWW 2024).
    """
    check_shares(alpha, beta)
    top_positives_R = _ceil(alpha * standing.positives_R)
    top_negatives_R = _ceil(beta * standing.negatives_R)
    limit_P = top_negatives_R[standing.row_P]
    reach_P = standing.above_P + standing.level_P
    below_P = limit_P - np.minimum(limit_P, reach_P)
    best_first = np.lexsort((reach_P, standing.row_P))
    start_R = np.cumsum(standing.positives_R) - standing.positives_R
    place_P = np.arange(len(standing.row_P)) - start_R[standing.row_P]
    is_top_P = np.empty(len(standing.row_P), np.bool_)
    is_top_P[best_first] = place_P < top_positives_R[standing.row_P]
    value_R = _per_pair(standing, np.where(is_top_P, below_P, 0))
    if not normalised:
        return value_R
    with np.errstate(invalid="ignore", divide="ignore"):
        return value_R * standing.positives_R * standing.negatives_R / (top_positives_R * top_negatives_R)


def check_shares(alpha: float, beta: float) -> None:
    """A share of the positives and one of the negatives, neither of them empty."""
    for name, share in (("alpha", alpha), ("beta", beta)):
        if not 0 < share <= 1:
            raise InputError(f"llpauc.{name}: expected a number above 0 and at most 1, received {share!r}")


def _ceil(share_R: FloatArray) -> IntArray:
    """Round up, but not for the last bit of a product: 0.07 · 100 is 7.000000000000001."""
    return np.ceil(share_R - 1e-9 * share_R).astype(np.int64)


def _per_pair(standing: Standing, below_P: FloatArray) -> FloatArray:
    pairs_R = standing.positives_R * standing.negatives_R
    total_R = np.bincount(standing.row_P, below_P, minlength=len(pairs_R))
    value_R: FloatArray = np.full(len(pairs_R), math.nan)
    np.divide(total_R, pairs_R, out=value_R, where=pairs_R > 0)
    return value_R


class Standings:
    """Gathers the standing of the truth's items in a :func:`~shortlist.ranking.score_catalogue`, tile by tile."""

    def __init__(self, users_R: IntArray, truth: Interactions) -> None:
        self._users_R, self._truth = users_R, truth
        self._positives_R = truth.user_counts()[users_R]
        self._row_P, self._item_P = truth.pairs_of(users_R)
        self._start_R = np.concatenate([[0], np.cumsum(self._positives_R)])
        self._above_P, self._level_P = np.zeros((2, len(self._row_P)), np.int64)
        self._negatives_R = np.zeros(len(users_R), np.int64)

    def keep(self, rows: slice, selector: Selector) -> None:
        """Count for a tile that has been scored."""
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

    def standing(self) -> Standing:
        """The counts, once scoring is over."""
        return Standing(self._row_P, self._above_P, self._level_P, self._positives_R, self._negatives_R)


def _above(ascending: FloatArray, score: FloatArray, side: str = "right") -> IntArray:
    """How many stand above each score; with ``left``, how many reach it."""
    return len(ascending) - np.searchsorted(ascending, score, side=side)  # type: ignore[call-overload,no-any-return]
