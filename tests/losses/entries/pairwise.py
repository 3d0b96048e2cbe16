"""Pairwise losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives, softplus


def naive_bpr(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        return sum(softplus(negative - positive) for negative in row.negatives) / max(1, len(row.negatives))

    return mean_over_positives(rows, term)


def naive_ranknet(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    """A positive against all items of its row with a lower label."""

    def term(positive: float, row: Row) -> float:
        own = row.grade(positive)
        below = [score for score, label in zip(row.scores, row.labels, strict=True) if label < own]
        return sum(softplus(score - positive) for score in below) / max(1, len(below))

    return mean_over_positives(rows, term)


def naive_hinge(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        leads = [max(0.0, negative - positive + settings["margin"]) for negative in row.negatives]
        return sum(leads) / max(1, len(leads))

    return mean_over_positives(rows, term)


def naive_warp(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def harmonic(rank: int) -> float:
        return sum(1 / k for k in range(1, rank + 1))

    def term(positive: float, row: Row) -> float:
        leads = [negative - positive + settings["margin"] for negative in row.negatives]
        violations = [lead for lead in leads if lead > 0]
        if not violations:
            return 0.0
        if settings["rank"] == "counted":
            return harmonic(len(violations)) * sum(violations) / len(violations)
        trials = leads.index(violations[0]) + 1
        return harmonic(len(leads) // trials) * violations[0]

    return mean_over_positives(rows, term)


VALUES: dict[str, Values] = {
    "bpr": Values(
        by_hand=[
            # ln(1 + e⁰)
            Hand({}, [1.0], [[1.0]], LN2),
            # (ln(1 + ½) + ln(1 + 1))/2 = ½·ln 3
            Hand({}, [LN2], [[0.0, LN2]], LN3 / 2),
        ],
        naive=naive_bpr,
        variants=[Variant(shift_invariant=True)],
    ),
    "hinge": Values(
        by_hand=[
            # (max(0, 0 − 1 + 1) + max(0, 3 − 1 + 1))/2
            Hand({}, [1.0], [[0.0, 3.0]], 1.5),
            # a mean over rows: (max(0, 2 − 0 + 5) + max(0, −7 − 1 + 5))/2
            Hand({"margin": 5.0}, [0.0, 1.0], [[2.0], [-7.0]], 3.5),
        ],
        naive=naive_hinge,
        variants=[Variant(shift_invariant=True), Variant({"margin": 0.3}, shift_invariant=True)],
    ),
    "ranknet": Values(
        by_hand=[
            # without grades it is BPR, as above
            Hand({}, [1.0], [[1.0]], LN2),
            Hand({}, [LN2], [[0.0, LN2]], LN3 / 2),
        ],
        naive=naive_ranknet,
        variants=[Variant(shift_invariant=True)],
        graded=True,
    ),
    "warp": Values(
        by_hand=[
            # the second of four is the first with s > 2 − 1: Φ(⌊4/2⌋)·(1 + 3 − 2) = ³⁄₂·2
            Hand({}, [2.0], [[1.0, 3.0, 5.0, 0.0]], 3.0),
            # two violators of four: Φ(2)·(2 + 4)/2
            Hand({"rank": "counted"}, [2.0], [[1.0, 3.0, 5.0, 0.0]], 4.5),
            # found at once: Φ(4)·(½ + 1 − 1) = ²⁵⁄₁₂·½; nobody is found for the second: a mean of two
            Hand({"margin": 0.5}, [1.0, 3.0], [[1.0, 3.0, 5.0, 0.0], [1.0, 2.0, 2.0, 2.0]], 25 / 48),
        ],
        naive=naive_warp,
        variants=[
            Variant(shift_invariant=True, order_matters=True, weights_repeat=False),
            Variant({"margin": 0.3}, shift_invariant=True, order_matters=True, weights_repeat=False),
            Variant({"rank": "counted"}, shift_invariant=True),
            Variant({"rank": "counted", "margin": 2.0}, shift_invariant=True),
        ],
    ),
}
