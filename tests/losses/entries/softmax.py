"""The softmax family."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives, softplus

REACH = 1e-6  # what an activation of PSL counts with where it is 0 or below


def softmax_term(settings: Mapping[str, Any], positive: float, row: Row) -> float:
    rivals = row.scores if settings["denominator"] == "all" else row.negatives
    if not rivals:
        return 0.0
    total = sum(math.exp(rival / settings["tau"]) for rival in rivals)
    if "negatives" in settings and settings["denominator"] == "negatives":
        total *= settings["negatives"] / len(rivals)
    return math.log(total) - settings["positive_weight"] * positive / settings["tau"]


def naive_sl(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    return mean_over_positives(rows, lambda positive, row: softmax_term(settings, positive, row))


def naive_slatk(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        tau_w = settings["tau_w"] or settings["tau"] * settings["tau_w_ratio"]
        return softmax_term(settings, positive, row) / (1 + math.exp((row.threshold - positive) / tau_w))

    return mean_over_positives(rows, term)


def naive_talos(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def power(score: float, row: Row) -> float:
        return (1 + math.exp(row.threshold - score)) ** (-1 / settings["tau"])

    def term(positive: float, row: Row) -> float:
        others = row.negatives + (row.positives if settings["denominator"] == "all" else [])
        total = sum(power(other, row) for other in others)
        return math.log(total / power(positive, row)) if others else 0.0

    return mean_over_positives(rows, term)


def log_mean_exp(scores: Sequence[float], tau: float, weights: Sequence[float] | None = None) -> float:
    """ln mean exp(s/τ), by weights if there are any, in the range of floats also for sharp temperatures."""
    weights = [1.0] * len(scores) if weights is None else weights
    top = max(score for score, weight in zip(scores, weights, strict=True) if weight)
    total = sum(weight * math.exp((score - top) / tau) for score, weight in zip(scores, weights, strict=True) if weight)
    return top / tau + math.log(total / sum(weights))


def naive_bsl(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    tau1, tau2 = settings["tau1"], settings["tau2"]

    def term(positive: float, row: Row) -> float:
        if not row.negatives or not row.weight:
            return 0.0
        pushed = log_mean_exp(row.negatives, tau2)
        if settings["form"] == "batch":
            return -positive / tau1 + tau2 / tau1 * (pushed + math.log(len(row.negatives)))
        return tau2 * pushed - tau1 * log_mean_exp(row.positives, tau1, row.positive_weights)

    return mean_over_positives(rows, term)


def naive_sogclr(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    """Of rows that are seen for the first time, where g = ĝ."""

    def term(positive: float, row: Row) -> float:
        return log_mean_exp(row.negatives, settings["tau"]) - positive / settings["tau"] if row.negatives else 0.0

    return mean_over_positives(rows, term)


def naive_sogslatk(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    """Of rows that are seen for the first time, where g = ĝ."""

    def weight(positive: float, row: Row) -> float:
        return 1 / (1 + math.exp((row.threshold - positive) / settings["tau_w"]))

    mean = mean_over_positives([row for row in rows if row.negatives], weight)

    def term(positive: float, row: Row) -> float:
        if not row.negatives:
            return 0.0
        pull, push = weight(positive, row) * positive / settings["tau"], log_mean_exp(row.negatives, settings["tau"])
        if settings["form"] == "published":
            return push - pull / mean
        return weight(positive, row) * push - pull

    return mean_over_positives(rows, term)


def naive_advinfonce(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    """Without keys and items p is uniform."""

    def term(positive: float, row: Row) -> float:
        if not row.negatives:
            return 0.0
        size = len(row.negatives) if settings["negatives"] is None else settings["negatives"]
        rival = log_mean_exp(row.negatives, settings["tau"]) + math.log(settings["weight"] * size)
        return softplus(rival - positive / settings["tau"])

    return mean_over_positives(rows, term)


ACTIVATIONS = {
    "tanh": lambda d: 2 / (1 + math.exp(-2 * d)),
    "atan": lambda d: max(REACH, 1 + math.atan(d)),
    "relu": lambda d: max(REACH, 1 + d),
}


def naive_psl(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        activation = ACTIVATIONS[settings["activation"]]
        logs = [math.log(activation(negative - positive)) for negative in row.negatives]
        return log_mean_exp(logs, settings["tau"]) + math.log(len(logs)) if logs else 0.0

    return mean_over_positives(rows, term)


PUBLISHED = {"weight": "published", "positive_weight": 1.0, "tau_w": 1.0}
"""SL@K as its authors train it."""


VALUES: dict[str, Values] = {
    "sl": Values(
        by_hand=[
            # ln(e⁰ + e^{ln 2}) − ln 3 = ln 3 − ln 3
            Hand({"tau": 1.0}, [LN3], [[0.0, LN2]], 0.0),
            # the positive joins the sum: ln(1 + 2 + 3) − ln 3 = ln 2
            Hand({"tau": 1.0, "denominator": "all"}, [LN3], [[0.0, LN2]], LN2),
            # τ = ½ squares the exponentials: ln(1 + 4) − ½·2·ln 3 = ln(5/3)
            Hand({"tau": 0.5, "positive_weight": 0.5}, [LN3], [[0.0, LN2]], math.log(5 / 3)),
            # a mean over rows: (ln 2 − 0 + ln 4 − ln 2)/2 = ln 2
            Hand({"tau": 1.0}, [0.0, LN2], [[0.0, 0.0], [LN2, LN2]], LN2),
        ],
        naive=naive_sl,
        variants=[
            Variant(shift_invariant=True),
            Variant({"denominator": "all", "tau": 0.7}, shift_invariant=True),
            Variant({"positive_weight": 0.8, "tau": 1.3}),
            Variant({"positive_weight": 0.7, "denominator": "all"}),
        ],
    ),
    "slatk": Values(
        by_hand=[
            # at its threshold the weight is ½; two negatives scaled to two: ½·(ln 3 − 0)
            Hand({**PUBLISHED, "tau": 1.0, "negatives": 2.0}, [0.0], [[0.0, LN2]], LN3 / 2, [0.0]),
            # scaled to four the sum doubles: ½·(ln 6 − 0)
            Hand({**PUBLISHED, "tau": 1.0, "negatives": 4.0}, [0.0], [[0.0, LN2]], math.log(6) / 2, [0.0]),
            # w = σ(ln 3) = ¾, and the positive joins a sum that is not scaled: ¾·(ln 6 − ln 3)
            Hand({**PUBLISHED, "tau": 1.0, "denominator": "all"}, [LN3], [[0.0, LN2]], 0.75 * LN2, [0.0]),
            # τ_w = ½: w = σ(2·ln 3) = 9/10; ⁹⁄₁₀·(ln 3 − ½·ln 3)
            Hand(
                {"tau": 1.0, "tau_w": 0.5, "positive_weight": 0.5, "negatives": 2.0, "weight": "detached"},
                [LN3],
                [[0.0, LN2]],
                0.45 * LN3,
                [0.0],
            ),
        ],
        naive=naive_slatk,
        variants=[
            Variant(shift_invariant=True),
            Variant({"tau_w_ratio": 2.5, "tau": 0.5}, shift_invariant=True),
            Variant(PUBLISHED, shift_invariant=True),
            Variant({**PUBLISHED, "denominator": "all", "tau": 0.7, "tau_w": 0.5}, shift_invariant=True),
            Variant({"weight": "detached", "tau_w": 2.0}, shift_invariant=True, gradient_of_value=False),
            Variant({**PUBLISHED, "positive_weight": 0.8, "negatives": 7.0}),
        ],
        learns_with={"k": 5, "tau_w": 2.5, "negatives": 24.0},
    ),
    "slatk_detached": Values(
        by_hand=[
            # τ_w = ½·2: w = σ(ln 3) = ¾; ¾·(ln 3 − ½·ln 3)
            Hand(
                {"tau": 0.5, "tau_w": None, "tau_w_ratio": 2.0, "positive_weight": 0.25, "negatives": 2.0},
                [LN3],
                [[0.0, LN2 / 2]],
                0.375 * LN3,
                [0.0],
            ),
        ],
        naive=naive_slatk,
        variants=[
            Variant(gradient_of_value=False),
            Variant({"positive_weight": 1.0, "tau_w": 2.0}, shift_invariant=True, gradient_of_value=False),
            Variant({"denominator": "all", "tau_w_ratio": 1.0}, gradient_of_value=False),
        ],
        learns_with={"k": 5, "tau_w": 2.5, "negatives": 24.0},
    ),
    "talos": Values(
        by_hand=[
            # σ is ½ at the threshold and ¾ at ln 3 above it: ln((½ + ¾)/½)
            Hand({"tau": 1.0}, [0.0], [[0.0, LN3]], math.log(2.5), [0.0]),
            # τ = ½ squares: ln((¼ + 9/16)/¼)
            Hand({"tau": 0.5}, [0.0], [[0.0, LN3]], math.log(13 / 4), [0.0]),
            # the positive joins the sum: ln((½ + ¾ + ¾)/¾)
            Hand({"tau": 1.0, "denominator": "all"}, [LN3], [[0.0, LN3]], math.log(8 / 3), [0.0]),
        ],
        naive=naive_talos,
        variants=[
            Variant(shift_invariant=True, saturates=True),
            Variant({"tau": 0.7}, shift_invariant=True, saturates=True),
            Variant({"tau": 0.3, "denominator": "all"}, shift_invariant=True, saturates=True),
        ],
        learns_with={"k": 5},
    ),
    "bsl": Values(
        by_hand=[
            # τ₂/τ₁ = 2 times SL at 1: 2·(ln(1 + 2) − ln 3)
            Hand({"tau1": 0.5, "tau2": 1.0}, [LN3], [[0.0, LN2]], 0.0),
            # ½·(ln(1 + 4)/1 − 2·ln 3), since τ₂ = ½ squares the exponentials: ½·ln 5 − ln 3
            Hand({"tau1": 1.0, "tau2": 0.5}, [LN3], [[0.0, LN2]], math.log(5) / 2 - LN3),
            # a user's only positive: −ln 3 + ½·ln((1 + 4)/2)
            Hand({"tau1": 0.7, "tau2": 0.5, "form": "user"}, [LN3], [[0.0, LN2]], math.log(2.5) / 2 - LN3),
        ],
        naive=naive_bsl,
        variants=[
            Variant(shift_invariant=True),
            Variant({"tau1": 0.5, "tau2": 0.9}, shift_invariant=True),
            Variant({"form": "user"}, shift_invariant=True),
            Variant({"form": "user", "tau1": 0.8, "tau2": 0.3}, shift_invariant=True),
        ],
    ),
    "psl": Values(
        by_hand=[
            # level with both rivals, each activation is 1: ln(1 + 1)
            Hand({"activation": "tanh"}, [0.3], [[0.3, 0.3]], LN2),
            # 1 + tanh(−½·ln 3) = 2·σ(−ln 3) = ½, and with τ = ½ its square: ln ¼
            Hand({"activation": "tanh", "tau": 0.5}, [LN3 / 2], [[0.0]], -2 * LN2),
            # 1 + arctan 1 = 1 + π/4
            Hand({"activation": "atan", "tau": 1.0}, [0.0], [[1.0]], math.log(1 + math.pi / 4)),
            # ½² + (5/4)² = 29/16
            Hand({"activation": "relu", "tau": 0.5}, [0.25], [[-0.25, 0.5]], math.log(29 / 16)),
            # out of reach: ln(10⁻⁶)/½
            Hand({"activation": "relu", "tau": 0.5}, [2.0], [[0.0]], 2 * math.log(1e-6)),
        ],
        naive=naive_psl,
        variants=[
            Variant(shift_invariant=True),
            Variant({"activation": "tanh", "tau": 0.7}, shift_invariant=True),
            Variant({"activation": "atan"}, shift_invariant=True),
            Variant({"activation": "atan", "tau": 0.5}, shift_invariant=True),
            Variant({"activation": "relu"}, shift_invariant=True),
            Variant({"activation": "relu", "tau": 0.5}, shift_invariant=True),
        ],
    ),
    "sogclr": Values(
        by_hand=[
            # a first visit: ln((1 + 2)/2) − ln 3 = −ln 2
            Hand({"tau": 1.0}, [LN3], [[0.0, LN2]], -LN2),
            # τ = ½ squares the exponentials: ln((1 + 4)/2) − 2·ln 3
            Hand({"tau": 0.5, "gamma": 0.1}, [LN3], [[0.0, LN2]], math.log(2.5) - 2 * LN3),
        ],
        naive=naive_sogclr,
        variants=[
            Variant(shift_invariant=True),
            Variant({"tau": 0.7, "gamma": 0.1}, shift_invariant=True),
            Variant({"gamma": 1.0}, shift_invariant=True),
        ],
    ),
    "sogslatk": Values(
        by_hand=[
            # w = σ(ln 3) = ¾, and a first visit: ¾·(ln(3/2) − ln 3)
            Hand({"tau": 1.0, "tau_w": 1.0}, [LN3], [[0.0, LN2]], -0.75 * LN2, [0.0]),
            # weights ¾ and ¼ are 3/2 and ½ of their mean: ½·(ln(3/2) − 3/2·ln 3 + ln(3/2) − ½·0)
            Hand(
                {"tau": 1.0, "tau_w": 1.0, "form": "published"},
                [LN3, 0.0],
                [[0.0, LN2], [0.0, LN2]],
                math.log(1.5) - 0.75 * LN3,
                [0.0, LN3],
            ),
        ],
        naive=naive_sogslatk,
        variants=[
            Variant(shift_invariant=True, gradient_of_value=False),
            Variant({"tau": 0.7, "tau_w": 0.5, "gamma": 0.3}, shift_invariant=True, gradient_of_value=False),
            Variant({"form": "published"}, shift_invariant=True, gradient_of_value=False),
            Variant({"form": "published", "tau_w": 0.5}, shift_invariant=True, gradient_of_value=False),
        ],
        learns_with={"k": 5},
    ),
    "advinfonce": Values(
        by_hand=[
            # ln(1 + 2·(1 + 2)/3) = ln 3
            Hand({"tau": 1.0, "weight": 2.0, "negatives": None}, [LN3], [[0.0, LN2]], LN3),
            # scaled from two negatives to four the sum doubles: ln(1 + 2·(1 + 2)/3)
            Hand({"tau": 1.0, "weight": 1.0, "negatives": 4.0}, [LN3], [[0.0, LN2]], LN3),
            # τ = ½ squares the exponentials: ln(1 + (1 + 4)/9)
            Hand({"tau": 0.5, "weight": 1.0, "negatives": 2.0}, [LN3], [[0.0, LN2]], math.log(14 / 9)),
        ],
        naive=naive_advinfonce,
        variants=[
            Variant(shift_invariant=True),
            Variant({"tau": 0.7, "weight": 1.0, "negatives": None}, shift_invariant=True),
            Variant({"tau": 1.5, "weight": 3.0, "negatives": 5.0}, shift_invariant=True),
        ],
    ),
}
