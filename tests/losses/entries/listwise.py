"""Listwise losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.entries.surrogates import mean_over_rows
from losses.oracle import LN2, LN3, Hand, Row, Values, Variant


def logsumexp(values: Sequence[float]) -> float:
    return math.log(sum(math.exp(value) for value in values))


def naive_listnet(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(row: Row) -> float:
        weight = iter(row.relative_weights)
        softmax = settings["target_distribution"] == "softmax"
        asked = [
            (math.exp(label) if softmax else float(label)) * (next(weight) if label else 1.0) for label in row.labels
        ]
        scaled = [score / settings["tau"] for score in row.scores]
        likelihood = [score - logsumexp(scaled) for score in scaled]
        return -sum(a / sum(asked) * log for a, log in zip(asked, likelihood, strict=True))

    return mean_over_rows(rows, term)


def naive_listmle(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    """Positives count by their weights, the places of negatives by that of the row."""
    total = 0.0
    for row in rows:
        best_first = sorted(zip(row.grades, row.positives, row.positive_weights, strict=True), reverse=True)
        ordered = [score for _, score, _ in best_first] + sorted(row.negatives, reverse=True)
        weights = [weight for _, _, weight in best_first]
        if settings["places"] == "all" and weights:
            weights += [row.weight] * len(row.negatives)
        scaled = [score / settings["tau"] for score in ordered]
        total += sum(weight * (logsumexp(scaled[k:]) - scaled[k]) for k, weight in enumerate(weights))
    return total / (sum(sum(row.positive_weights) for row in rows) or 1.0)


VALUES: dict[str, Values] = {
    "listnet": Values(
        by_hand=[
            # softmax over all: ln(1 + 2 + 3) − ln 3
            Hand({}, [LN3], [[0.0, LN2]], LN2),
            # τ = ½: ln(1 + 4 + 9) − 2·ln 3
            Hand({"tau": 0.5}, [LN3], [[0.0, LN2]], math.log(14 / 9)),
            # t = (e, 1)/(e + 1): ln 3 − t₁·ln 2
            Hand({"target_distribution": "softmax"}, [LN2], [[0.0]], LN3 - math.e / (math.e + 1) * LN2),
        ],
        naive=naive_listnet,
        variants=[
            Variant(shift_invariant=True),
            Variant({"tau": 0.3}, shift_invariant=True),
            Variant({"target_distribution": "softmax", "tau": 0.8}, shift_invariant=True),
        ],
        on_its_own=False,
        graded=True,
    ),
    "listmle": Values(
        by_hand=[
            # the positive is drawn first: ln(1 + 2 + 3) − ln 3
            Hand({}, [LN3], [[0.0, LN2]], LN2),
            # then the negatives, the higher first: ln(2 + 1) − ln 2, and the last for certain
            Hand({"places": "all"}, [LN3], [[0.0, LN2]], LN2 + math.log(3 / 2)),
            # τ = ½: ln(1 + 4 + 9) − 2·ln 3
            Hand({"tau": 0.5}, [LN3], [[0.0, LN2]], math.log(14 / 9)),
        ],
        naive=naive_listmle,
        variants=[
            Variant(shift_invariant=True),
            Variant({"places": "all"}, shift_invariant=True, weights_repeat=False),
            Variant({"places": "all", "tau": 0.4}, shift_invariant=True, weights_repeat=False),
        ],
        on_its_own=False,
        graded=True,
    ),
}
