"""Losses of hard negatives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives, softplus


def naive_dns(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        count = settings["m"] if settings["n"] is None else settings["m"] / settings["n"] * len(row.negatives)
        total, left = 0.0, min(count, len(row.negatives))
        for negative in sorted(row.negatives, reverse=True):
            part = min(1.0, max(0.0, left))
            total, left = total + part * softplus(negative - positive), left - part
        return total / min(count, len(row.negatives)) if row.negatives else 0.0

    return mean_over_positives(rows, term)


def naive_softmax_v(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        losses = [softplus(negative - positive) for negative in row.negatives]
        if not losses:
            return 0.0
        mean = sum(losses) / len(losses)
        tau = math.sqrt(sum((loss - mean) ** 2 for loss in losses) / len(losses) / (2 * settings["rho"])) or 1.0
        shares = [math.exp((loss - max(losses)) / tau) for loss in losses]
        return sum(share * loss for share, loss in zip(shares, losses, strict=True)) / sum(shares)

    return mean_over_positives(rows, term)


HARDER = 1 / (1 + math.exp(-2 * math.sqrt(2)))

VALUES: dict[str, Values] = {
    "dns": Values(
        by_hand=[
            # the two highest of four, ln 2 and 0, against 0: (ln(1 + 2) + ln(1 + 1))/2
            Hand({}, [0.0], [[-1.0, LN2, 0.0, -7.0]], (LN3 + LN2) / 2),
            # the highest alone: ln(1 + 2)
            Hand({"m": 1}, [0.0], [[-1.0, LN2, 0.0, -7.0]], LN3),
            # one of two is two of four
            Hand({"m": 1, "n": 2}, [0.0], [[-1.0, LN2, 0.0, -7.0]], (LN3 + LN2) / 2),
            # three of eight is one and a half of four: (ln 3 + ½·ln 2)/1.5
            Hand({"m": 3, "n": 8}, [0.0], [[-1.0, LN2, 0.0, -7.0]], (LN3 + LN2 / 2) / 1.5),
            # more than there are: all
            Hand({"m": 9}, [0.0], [[LN2, 0.0]], (LN3 + LN2) / 2),
        ],
        naive=naive_dns,
        variants=[
            Variant(shift_invariant=True),
            Variant({"m": 1}, shift_invariant=True),
            Variant({"m": 30}, shift_invariant=True),
            Variant({"m": 2, "n": 7}, shift_invariant=True),
        ],
    ),
    "softmax_v": Values(
        by_hand=[
            # equal losses have equal shares
            Hand({}, [1.0], [[1.0, 1.0, 1.0]], LN2),
            # losses ln 3 and ln(3/2): deviation ½·ln 2, τ = ½·ln 2/√2, so that the harder one's share is σ(2√2)
            Hand({}, [0.0], [[LN2, -LN2]], HARDER * LN3 + (1 - HARDER) * math.log(1.5)),
            # with ρ = ½ the temperature is the deviation: σ(2)
            Hand(
                {"rho": 0.5},
                [0.0],
                [[LN2, -LN2]],
                LN3 / (1 + math.exp(-2)) + math.log(1.5) / (1 + math.exp(2)),
            ),
        ],
        naive=naive_softmax_v,
        variants=[
            Variant(shift_invariant=True, gradient_of_value=False, weights_repeat=False),
            Variant({"rho": 0.05}, shift_invariant=True, gradient_of_value=False, weights_repeat=False),
            Variant({"rho": 20.0}, shift_invariant=True, gradient_of_value=False, weights_repeat=False),
        ],
    ),
}
