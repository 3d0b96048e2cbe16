"""NDCG of relaxed sorts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.entries.lambdas import discount
from losses.entries.surrogates import ideal, mean_over_rows, weighted_gains
from losses.oracle import LN2, Hand, Row, Values, Variant

Matrix = list[list[float]]


def softmax(values: list[float]) -> list[float]:
    top = max(values)
    parts = [math.exp(value - top) for value in values]
    return [part / sum(parts) for part in parts]


def ndcg_of(share: Matrix, row: Row, k: int | None) -> float:
    """−NDCG where place k is held by the items in these shares."""
    gain = weighted_gains(row)
    shares = [[s for s, label in zip(place, row.labels, strict=True) if label] for place in share[:k]]
    held = [sum(g * s for g, s in zip(gain, place, strict=True)) for place in shares]
    return -sum(h * discount(place) for place, h in enumerate(held, 1)) / ideal(gain, k)


def naive_smooth_ndcg(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(row: Row) -> float:
        at = sorted(row.scores, reverse=True)
        share = [softmax([-((s - a) ** 2) / settings["sigma"] for s in row.scores]) for a in at]
        return ndcg_of(share, row, settings["k"])

    return mean_over_rows(rows, term)


def scaled(share: Matrix, iterations: int, tolerance: float) -> Matrix:
    for _ in range(iterations):
        columns = [sum(place[i] for place in share) for i in range(len(share))]
        if max(abs(column - 1) for column in columns) <= tolerance:
            break
        share = [[s / column for s, column in zip(place, columns, strict=True)] for place in share]
        share = [[s / sum(place) for s in place] for place in share]
    return share


def naive_neural_ndcg(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(row: Row) -> float:
        n = len(row.scores)
        apart = [sum(abs(s - other) for other in row.scores) for s in row.scores]
        share = [
            softmax([((n + 1 - 2 * k) * s - a) / settings["tau"] for s, a in zip(row.scores, apart, strict=True)])
            for k in range(1, n + 1)
        ]
        return ndcg_of(scaled(share, settings["iterations"], settings["tolerance"]), row, settings["k"])

    return mean_over_rows(rows, term)


TIED = -(1 + 1 / math.log2(3)) / 2
"""Two items of equal score, one of them a positive: half of it at either place."""

VALUES: dict[str, Values] = {
    "smooth_ndcg": Values(
        by_hand=[
            Hand({}, [3.0], [[3.0]], TIED),
            # one place, held by the positive with e⁰ and by the negative with e^{−ln 2}: 1/(1 + ½)
            Hand({"k": 1, "sigma": 1 / LN2}, [1.0], [[0.0]], -2 / 3),
            # the other way round: ½/(1 + ½)
            Hand({"k": 1, "sigma": 1 / LN2}, [0.0], [[1.0]], -1 / 3),
        ],
        naive=naive_smooth_ndcg,
        variants=[
            Variant(shift_invariant=True, weights_repeat=False),
            Variant({"sigma": 0.3}, shift_invariant=True, weights_repeat=False),
            Variant({"k": 3}, shift_invariant=True, weights_repeat=False),
        ],
        on_its_own=False,
        graded=True,
    ),
    "neural_ndcg": Values(
        by_hand=[
            Hand({}, [3.0], [[3.0]], TIED),
            # places weigh scores by +1 and −1, A1 is ln 2 for both: (2/3, 1/3) and (1/3, 2/3), columns sum to 1
            Hand({}, [LN2], [[0.0]], -(2 / 3 + 1 / 3 / math.log2(3))),
            Hand({"k": 1}, [LN2], [[0.0]], -2 / 3),
            # τ = ½ squares them: 4/5
            Hand({"k": 1, "tau": 0.5}, [LN2], [[0.0]], -4 / 5),
        ],
        naive=naive_neural_ndcg,
        variants=[
            Variant(shift_invariant=True, weights_repeat=False),
            Variant({"k": 2, "tau": 3.0}, shift_invariant=True, weights_repeat=False),
            Variant({"iterations": 0}, shift_invariant=True, weights_repeat=False),
        ],
        learns_with={"iterations": 5},
        on_its_own=False,
        graded=True,
    ),
}
