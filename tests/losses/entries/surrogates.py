"""Smooth stand-ins for NDCG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from losses.entries.lambdas import discount
from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def mean_over_rows(rows: Sequence[Row], term: Callable[[Row], float]) -> float:
    """The mean by the weights of rows that have a positive."""
    rows = [row for row in rows if row.positives and row.weight]
    return sum(row.weight * term(row) for row in rows) / (sum(row.weight for row in rows) or 1.0)


def gains(row: Row) -> list[float]:
    """2^y − 1 of each positive."""
    return [2**grade - 1 for grade in row.grades]


def weighted_gains(row: Row) -> list[float]:
    """Gains times relative weights: what positives add to NDCG."""
    return [gain * weight for gain, weight in zip(gains(row), row.relative_weights, strict=True)]


def ideal(gain: Sequence[float], k: int | None = None) -> float:
    """The DCG of gains in the best order, among the first k places; 1 where it is 0."""
    best = sorted(gain, reverse=True)[:k]
    return sum(g * discount(place) for place, g in enumerate(best, 1)) or 1.0


def naive_approx_ndcg(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(row: Row) -> float:
        def rank(positive: float) -> float:  # itself adds σ(0) = ½ to the sum over all
            return 0.5 + sum(sigmoid(settings["sharpness"] * (other - positive)) for other in row.scores)

        gain = weighted_gains(row)
        return -sum(g * discount(rank(p)) for g, p in zip(gain, row.positives, strict=True)) / ideal(gain)

    return mean_over_rows(rows, term)


def song_term(settings: Mapping[str, Any], positive: float, row: Row) -> float:
    margin = settings["margin"]
    above = margin**2 + sum(max(0.0, other - positive + margin) ** 2 for other in row.negatives)
    gain = 2 ** row.grade(positive) - 1
    return -gain * discount(above) / (ideal(gains(row), settings.get("k")) if settings["normalised"] else 1.0)


def naive_song(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    return mean_over_positives(rows, lambda positive, row: song_term(settings, positive, row))


def naive_song_at_k(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    """Users that are seen for the first time have λ = 0."""
    return mean_over_positives(
        rows, lambda positive, row: sigmoid(settings["sharpness"] * positive) * song_term(settings, positive, row)
    )


HELD: dict[str, Any] = {"gradient_of_value": False}

VALUES: dict[str, Values] = {
    "approx_ndcg": Values(
        by_hand=[
            # two rivals at σ(0) = ½ each: rank 1 + 1, −1/log₂ 3
            Hand({}, [1.0], [[1.0, 1.0]], -1 / math.log2(3)),
            # σ(ln 3) = ¾ and σ(−ln 3) = ¼
            Hand({}, [0.0], [[LN3, -LN3]], -1 / math.log2(3)),
            # a = 2: σ(2·ln 3) = 9/10; rank 1.9
            Hand({"sharpness": 2.0}, [0.0], [[LN3]], -1 / math.log2(2.9)),
        ],
        naive=naive_approx_ndcg,
        variants=[Variant(shift_invariant=True), Variant({"sharpness": 5.0}, shift_invariant=True)],
        on_its_own=False,
        graded=True,
    ),
    "song": Values(
        by_hand=[
            # itself and both rivals add 1 each: −1/log₂(1 + 3)
            Hand({}, [0.0], [[0.0, 0.0]], -0.5),
            # (1 + 1)² = 4 and 0: −1/log₂(1 + 1 + 4)
            Hand({}, [0.0], [[1.0, -1.5]], -1 / math.log2(6)),
            # c = 2: 4 + (1 + 2)² + (−1.5 + 2)² = 13.25
            Hand({"margin": 2.0}, [0.0], [[1.0, -1.5]], -1 / math.log2(14.25)),
        ],
        naive=naive_song,
        variants=[
            Variant(shift_invariant=True),
            Variant({"gamma": 0.3, "margin": 0.5}, shift_invariant=True),
            Variant({"normalised": False}, shift_invariant=True),
        ],
        on_its_own=False,
        graded=True,
    ),
    "song_at_k": Values(
        by_hand=[
            # ψ = σ(0) = ½
            Hand({}, [0.0], [[0.0, 0.0]], -0.25),
            # ψ = σ(2·ln 2) = 4/5
            Hand({}, [LN2], [[LN2, LN2]], -0.4),
            # ψ = σ(ln 2) = 2/3
            Hand({"sharpness": 1.0, "gradient": "theo"}, [LN2], [[LN2, LN2]], -1 / 3),
        ],
        naive=naive_song_at_k,
        variants=[
            Variant(**HELD),
            Variant({"gradient": "theo", "k": 3, "tau1": 0.1}, **HELD),
            Variant({"gradient": "theo", "normalised": False, "sharpness": 0.7}, **HELD),
            Variant({"k": 1}, **HELD),
        ],
        on_its_own=False,
        graded=True,
        learns_with={"k": 5},
    ),
}
