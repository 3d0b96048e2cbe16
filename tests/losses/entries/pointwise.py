"""Pointwise losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives, softplus


def naive_bce(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        return softplus(-positive) + sum(softplus(negative) for negative in row.negatives)

    return mean_over_positives(rows, term)


def naive_mse(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        return (
            (positive - row.grade(positive)) ** 2 + settings["weight"] * sum(negative**2 for negative in row.negatives)
        ) / 2

    return mean_over_positives(rows, term)


def naive_ccl(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        above = sum(max(0.0, negative - settings["margin"]) for negative in row.negatives)
        return max(0.0, 1 - positive) + settings["weight"] * above / max(1, len(row.negatives))

    return mean_over_positives(rows, term)


def naive_tce(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    """At the first step: the whole share is left out at once, or none; of whole weights, a whole number."""
    pairs = [pair for row in rows for pair in zip(row.positives, row.positive_weights, strict=True)]
    size = sum(weight for _, weight in pairs)
    left = 0.0 if settings["gradual"] else settings["drop"] * size
    if all(weight == int(weight) for _, weight in pairs):
        left = math.floor(left + 1e-9)
    total = sum(
        weight * softplus(negative) for row in rows for weight in row.positive_weights for negative in row.negatives
    )
    for positive, weight in sorted(pairs):
        dropped = min(weight, left)
        total, left = total + (weight - dropped) * softplus(-positive), left - dropped
    return total / (size or 1.0)


def naive_rce(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def trusted(x: float) -> float:
        return (1 - 1 / (1 + math.exp(-x))) ** settings["alpha"] * softplus(x)

    def term(positive: float, row: Row) -> float:
        return trusted(-positive) + sum(trusted(negative) for negative in row.negatives)

    return mean_over_positives(rows, term)


VALUES: dict[str, Values] = {
    "bce": Values(
        by_hand=[
            # ln(1 + 1) + ln(1 + 1)
            Hand({}, [0.0], [[0.0]], 2 * LN2),
            # ln(1 + ½) + ln(1 + 1) + ln(1 + 2) = ln(3/2 · 2 · 3)
            Hand({}, [LN2], [[0.0, LN2]], math.log(9)),
        ],
        naive=naive_bce,
        variants=[Variant()],
    ),
    "gbce": Values(
        by_hand=[
            # nothing is said of a larger catalogue, so that no negative is missing: BCE, as above
            Hand({}, [0.0], [[0.0]], 2 * LN2),
            Hand({"t": 1.0}, [LN2], [[0.0, LN2]], math.log(9)),
        ],
        naive=naive_bce,
        variants=[Variant(), Variant({"t": 0.0}), Variant({"t": 1.0})],
    ),
    "mse": Values(
        by_hand=[
            # ½·(3 − 1)² + ½·(1 + 9)
            Hand({}, [3.0], [[1.0, -3.0]], 7.0),
            # two rows, negatives at a tenth: (½·0 + ¹⁄₂₀·4 + ½·1 + ¹⁄₂₀·16)/2
            Hand({"weight": 0.1}, [1.0, 2.0], [[2.0], [4.0]], 0.75),
        ],
        naive=naive_mse,
        variants=[Variant(), Variant({"weight": 0.05})],
        learns_with={"weight": 0.2},
        graded=True,
    ),
    "ccl": Values(
        by_hand=[
            # max(0, 1 − ¼) + 10/2·(max(0, 0 − ½) + max(0, 1 − ½)) = ¾ + 5·½
            Hand({}, [0.25], [[0.0, 1.0]], 3.25),
            # a positive at its place and a margin that keeps every negative in play: 0 + 2/2·(0.5 + 2)
            Hand({"margin": -1.0, "weight": 2.0}, [1.0], [[-0.5, 1.0]], 2.5),
        ],
        naive=naive_ccl,
        variants=[Variant(), Variant({"margin": -0.5, "weight": 50.0}), Variant({"margin": -1.0, "weight": 1.0})],
    ),
    "tce": Values(
        by_hand=[
            # at first nothing is left out: (ln 2 + ln 2 + ln(1 + 2) + ln(1 + 2))/2
            Hand({}, [0.0, -LN2], [[0.0], [LN2]], LN2 + LN3),
            # of two positives the worse, −ln 2, is left out, its negative is not: (ln 2 + ln 2 + ln(1 + 2))/2
            Hand({"drop": 0.5, "gradual": 0}, [0.0, -LN2], [[0.0], [LN2]], LN2 + LN3 / 2),
            # less than one of two positives is none
            Hand({"drop": 0.4, "gradual": 0}, [0.0, -LN2], [[0.0], [LN2]], LN2 + LN3),
        ],
        naive=naive_tce,
        variants=[Variant(), Variant({"drop": 0.3, "gradual": 0}), Variant({"drop": 0.0, "gradual": 10})],
        learns_with={"drop": 0.1, "gradual": 30},
    ),
    "rce": Values(
        by_hand=[
            # σ(ln 3) = ¾ and σ(−ln 3) = ¼: ¾·ln(1 + ⅓) + ¼·ln(1 + 3)
            Hand({"alpha": 1.0}, [LN3], [[LN3]], math.log(4 / 3) * 0.75 + math.log(4) * 0.25),
            # α = ½ takes the roots: ½·ln 4 + √¾·ln(1 + ⅓)
            Hand({"alpha": 0.5}, [-LN3], [[-LN3]], LN2 + math.sqrt(0.75) * math.log(4 / 3)),
            # α = 0 is BCE
            Hand({"alpha": 0.0}, [LN2], [[0.0, LN2]], math.log(9)),
        ],
        naive=naive_rce,
        variants=[
            Variant(gradient_of_value=False),
            Variant({"alpha": 1.5}, gradient_of_value=False),
            Variant({"alpha": 0.0}),
        ],
        learns_with={"alpha": 0.05},
    ),
}
