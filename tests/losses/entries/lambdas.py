"""The Lambda family."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from losses.oracle import LN2, LN3, Hand, Oracle, Row, Values, Variant, mean_over_positives, softplus

Weight = Callable[[Mapping[str, Any], int, int], float]
Gain = Callable[[float], float]


def discount(rank: float) -> float:
    return 1 / math.log2(1 + rank)


def rank(score: float, row: Row) -> int:
    return sum(other >= score for other in row.scores)


def between(settings: Mapping[str, Any], i: int, j: int) -> float:
    return abs(discount(i) - discount(j))


def apart(settings: Mapping[str, Any], i: int, j: int) -> float:
    if i == j:
        return 0.0
    return discount(abs(i - j)) - (discount(abs(i - j) + 1) if settings["delta"] == "step" else 0.0)


def both(settings: Mapping[str, Any], i: int, j: int) -> float:
    return between(settings, i, j) + settings["mu"] * apart(settings, i, j)


def at_k(settings: Mapping[str, Any], i: int, j: int) -> float:
    lower = max(i, j)
    return apart(settings, i, j) * (1 / (1 - discount(lower)) if lower > settings["k"] else 1.0)


def one(settings: Mapping[str, Any], i: int, j: int) -> float:
    return 1.0


def exponential(label: float) -> float:
    """G(y) = 2^y − 1."""
    return 2.0**label - 1


def ideal(settings: Mapping[str, Any], row: Row) -> float:
    if not settings.get("normalised", False):
        return 1.0
    best = sorted(map(exponential, row.grades), reverse=True)[: settings.get("k")]
    return sum(gain * discount(place) for place, gain in enumerate(best, 1))


def naive(weight: Weight, gain: Gain = exponential) -> Oracle:
    """Every positive against every item of a lower label."""

    def value(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
        def term(positive: float, row: Row) -> float:
            own = row.grade(positive)
            pairs = [
                weight(settings, rank(positive, row), rank(j, row)) * (gain(own) - gain(y)) * softplus(j - positive)
                for j, y in zip(row.scores, row.labels, strict=True)
                if y < own
            ]
            return sum(pairs) / LN2 / ideal(settings, row)

        return mean_over_positives(rows, term)

    return value


def naive_against_all(settings: Mapping[str, Any], rows: Sequence[Row], with_rank: bool) -> float:
    """Every positive against everything but itself: its own part of the sum over all is log₂ 2 = 1."""

    def term(positive: float, row: Row) -> float:
        total = sum(softplus(j - positive) / LN2 for j in row.scores) - 1
        grade = row.grade(positive)
        worth = exponential(grade) * discount(rank(positive, row)) if with_rank else grade
        return total * worth / ideal(settings, row)

    return mean_over_positives(rows, term)


STILL = {"shift_invariant": True, "gradient_of_value": False}
"""Weights of pairs come from ranks and are held constant."""

STEP = 1 - 1 / math.log2(3)
"""δ(1) = 1 − 1/log₂ 3, which is also ρ of the first two ranks."""

RANKED: list[Variant] = [
    Variant(**STILL),
    Variant({"normalised": True}, **STILL),
    Variant({"ranks": "table"}, **STILL, weights_repeat=False),
]
LIGHT = Variant({"delta": "light"}, **STILL)

VALUES: dict[str, Values] = {
    "lambdarank": Values(
        by_hand=[
            # the negative has rank 1, the positive 2: (1 − 1/log₂ 3)·log₂(1 + 3)
            Hand({}, [0.0], [[LN3]], 2 * STEP),
            # with another negative at rank 3: (1/log₂ 3 − 1/2)·log₂(1 + 1/3) more
            Hand({}, [0.0], [[LN3, -LN3]], 2 * STEP + (0.5 - STEP) * math.log2(4 / 3)),
            # a tie: both have rank 2, and nothing is won by a swap
            Hand({}, [1.0], [[1.0]], 0.0),
        ],
        naive=naive(between),
        variants=RANKED,
        on_its_own=False,
        graded=True,
    ),
    "ndcg_loss2": Values(
        by_hand=[
            # both negatives are one rank away: δ(1)·(log₂(1 + 3) + log₂(1 + 1/3)) = δ(1)·log₂(16/3)
            Hand({}, [0.0], [[LN3, -LN3]], STEP * math.log2(16 / 3)),
            # two ranks away: δ(2) = 1/log₂ 3 − 1/2
            Hand({}, [0.0], [[LN3, LN3 / 2]], (0.5 - STEP) * 2 + STEP * math.log2(1 + math.sqrt(3))),
            # 1/log₂ 2 for both that are one rank away
            Hand({"delta": "light"}, [0.0], [[LN3, -LN3]], math.log2(16 / 3)),
            Hand({}, [1.0], [[1.0]], 0.0),
        ],
        naive=naive(apart),
        variants=[*RANKED, LIGHT],
        on_its_own=False,
        graded=True,
    ),
    "ndcg_loss2pp": Values(
        by_hand=[
            # ρ and δ are both 1 − 1/log₂ 3: (1 + μ) times LambdaRank's
            Hand({"mu": 4.0}, [0.0], [[LN3]], 10 * STEP),
            Hand({}, [0.0], [[LN3]], 22 * STEP),
        ],
        naive=naive(both),
        variants=[*RANKED, Variant({"mu": 0.5, "delta": "light"}, **STILL)],
        on_its_own=False,
        graded=True,
    ),
    "lambdaloss_at_k": Values(
        by_hand=[
            # the lower rank is 2, above K = 1: m = 1/(1 − 1/log₂ 3), which δ(1) cancels: log₂ 4
            Hand({"k": 1}, [0.0], [[LN3]], 2.0),
            # at rank 3 m = 1/(1 − 1/2): 2·δ(1)·log₂(4/3) more
            Hand({"k": 1}, [0.0], [[LN3, -LN3]], 2 + 2 * STEP * math.log2(4 / 3)),
            # K = 2 leaves the first pair alone
            Hand({"k": 2}, [0.0], [[LN3, -LN3]], 2 * STEP + 2 * STEP * math.log2(4 / 3)),
        ],
        naive=naive(at_k),
        variants=[
            Variant({"k": 1}, **STILL),
            Variant({"k": 3, "normalised": True}, **STILL),
            Variant({"k": 1000}, **STILL),
            Variant({"k": 2, "delta": "light"}, **STILL),
        ],
        learns_with={"k": 5},
        on_its_own=False,
        graded=True,
    ),
    "ndcg_loss1": Values(
        by_hand=[
            # the positive is second: log₂(1 + 3)/log₂ 3
            Hand({}, [0.0], [[LN3]], 2 / math.log2(3)),
            # and third: (log₂ 4 + log₂ 4)/log₂ 4
            Hand({}, [0.0], [[LN3, LN3]], 2.0),
        ],
        naive=lambda settings, rows: naive_against_all(settings, rows, with_rank=True),
        variants=RANKED,
        on_its_own=False,
        graded=True,
    ),
    "arp_loss1": Values(
        by_hand=[Hand({}, [0.0], [[LN3, 0.0]], 3.0)],  # log₂ 4 + log₂ 2
        naive=lambda settings, rows: naive_against_all(settings, rows, with_rank=False),
        variants=[Variant(shift_invariant=True)],
        on_its_own=False,
        graded=True,
    ),
    "arp_loss2": Values(
        by_hand=[Hand({}, [0.0], [[LN3, 0.0]], 3.0)],  # log₂ 4 + log₂ 2
        naive=naive(one, gain=float),
        graded=True,
        variants=[Variant(shift_invariant=True)],
    ),
}
