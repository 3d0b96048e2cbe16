"""Pointwise losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.oracle import LN2, Hand, Row, Values, Variant, mean_over_positives, softplus


def naive_bce(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        return softplus(-positive) + sum(softplus(negative) for negative in row.negatives)

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
}
