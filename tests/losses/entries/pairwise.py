"""Pairwise losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives, softplus


def naive_bpr(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        return sum(softplus(negative - positive) for negative in row.negatives) / max(1, len(row.negatives))

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
}
