"""The recall family."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives, softplus

STEEPEST = 60.0  # the exponent from which on an exponential goes on as its tangent


def excess(settings: Mapping[str, Any], kernel: str, positive: float, row: Row) -> float:
    """R − 1: the positive itself is left out once."""
    rivals = list(row.negatives)
    if settings["over"] == "all":
        rivals += row.positives
        rivals.remove(positive)
    phi = {
        "hinge": lambda x: max(0.0, x + settings["margin"]),
        "sigmoid": lambda x: 0.5 * (1 + math.tanh(x / 2)),
        "exponential": math.exp,
        "softplus": softplus,
        "step": lambda x: float(x >= 0),
    }[kernel]
    return sum(phi(settings["scale"] * (rival - positive)) for rival in rivals)


def antiderivative(rank: float, alpha: float) -> float:
    if alpha == 1:
        return math.log(rank)
    exponent = (1 - alpha) * math.log(rank)
    if exponent > STEEPEST:
        return (math.exp(STEEPEST) * (1 + exponent - STEEPEST) - 1) / (1 - alpha)
    return (rank ** (1 - alpha) - 1) / (1 - alpha)


def naive_croloss(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        rank = 1 + excess(settings, settings["kernel"], positive, row)
        whole = antiderivative(len(row.scores) + 1, settings["alpha"])
        return antiderivative(rank, settings["alpha"]) / whole

    return mean_over_positives(rows, term)


def naive_croloss_lambda(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        weighing = (1 + excess(settings, settings["phi1"], positive, row)) ** -settings["alpha"]
        pushed = excess(settings, settings["phi2"], positive, row)
        return weighing * pushed / antiderivative(len(row.scores) + 1, settings["alpha"])

    return mean_over_positives(rows, term)


def kept(**settings: Any) -> Variant:
    return Variant(settings, shift_invariant=True)


def lock(**settings: Any) -> Variant:
    return Variant(settings, shift_invariant=True, gradient_of_value=False)


VALUES: dict[str, Values] = {
    "croloss": Values(
        by_hand=[
            # R = 1 + 1/3 + 2/3 = 2, and n = 3: ln 2/ln 4
            Hand({"kernel": "exponential", "alpha": 1.0, "scale": 1.0}, [LN3], [[0.0, LN2]], 0.5),
            # 2·(−¼) + 1 = ½, and −2 + 1 is below 0: ½/3
            Hand({"kernel": "hinge", "alpha": 0.0, "scale": 2.0, "margin": 1.0}, [1.0], [[0.75, 0.0]], 1 / 6),
            # R = 1 + ¼ + ½ = 7/4: (1 − 4/7)/(1 − ¼)
            Hand({"kernel": "sigmoid", "alpha": 2.0, "scale": 1.0}, [LN3], [[0.0, LN3]], 4 / 7),
            # R = 1 + ln 2, and n = 2
            Hand({"kernel": "softplus", "alpha": 0.0}, [0.3], [[0.3]], LN2 / 2),
        ],
        naive=naive_croloss,
        variants=[
            kept(),
            *(kept(kernel=kernel, scale=2.0, margin=1.0) for kernel in ("hinge", "sigmoid", "exponential")),
            *(kept(kernel=kernel, scale=1.5, over="all") for kernel in ("hinge", "sigmoid", "exponential", "softplus")),
            *(kept(kernel=kernel, alpha=0.0, scale=1.0) for kernel in ("hinge", "sigmoid", "exponential", "softplus")),
            *(kept(kernel=kernel, alpha=1.4, scale=2.0) for kernel in ("hinge", "sigmoid", "exponential", "softplus")),
            kept(kernel="exponential", alpha=0.6, scale=1.0, over="all"),
        ],
        on_its_own=False,  # the size of the catalogue scales it
    ),
    "croloss_lambda": Values(
        by_hand=[
            # the step counts one rival: R₁ = 2; the hinge 3/2 + ½: ½·2/ln 4
            Hand({"phi1": "step", "phi2": "hinge", "scale": 1.0, "margin": 1.0}, [0.0], [[0.5, -0.5]], 1 / math.log(4)),
            # R₁ = 1 + ½ + ½ = 2, R₂ − 1 = 2·ln 2, and ∫₁⁴ t^−½ dt = 2: 2^−½·2·ln 2/2
            Hand({"phi1": "sigmoid", "phi2": "softplus", "alpha": 0.5}, [0.0], [[0.0, 0.0]], LN2 / math.sqrt(2)),
            # both by the exponential: R = 2: ½·1/ln 4
            Hand({"phi1": "exponential", "phi2": "exponential", "scale": 1.0}, [LN3], [[0.0, LN2]], 1 / (4 * LN2)),
        ],
        naive=naive_croloss_lambda,
        variants=[
            lock(),
            lock(phi1="step", scale=2.0),
            lock(phi1="step", phi2="hinge", alpha=0.6, scale=1.0, over="all"),
            lock(phi1="sigmoid", phi2="exponential", alpha=1.4, scale=1.0),
            lock(phi1="exponential", phi2="exponential", alpha=0.8, scale=1.0, over="all"),
            lock(phi1="hinge", phi2="sigmoid", alpha=1.2, scale=3.0),
            kept(phi1="softplus", phi2="hinge", alpha=0.0, scale=2.0),
        ],
        on_its_own=False,
    ),
}
