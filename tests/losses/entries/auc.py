"""AUC and its partial forms, with their scalars where they start: a = 1, b = γ = 0, s⁺ = s⁻ = ½."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives, softplus

START = {"a": 1.0, "b": 0.0, "gamma": 0.0, "s_pos": 0.5, "s_neg": 0.5}


def share(score: float) -> float:
    return 1 / (1 + math.exp(-score)) if score > 0 else math.exp(score) / (1 + math.exp(score))


def square_of_positive(f: float, at: Mapping[str, float]) -> float:
    return (f - at["a"]) ** 2 - 2 * (1 + at["gamma"]) * f


def square_of_negative(f: float, at: Mapping[str, float]) -> float:
    return (f - at["b"]) ** 2 + 2 * (1 + at["gamma"]) * f


def naive(settings: Mapping[str, Any], rows: Sequence[Row], at: Mapping[str, float] = START) -> float:
    """The three losses under their settings, with the scalars at given values."""

    def smooth(x: float) -> float:
        return softplus(settings["kappa"] * x) / settings["kappa"]

    def term(positive: float, row: Row) -> float:
        if not row.negatives:
            return 0.0
        plus = square_of_positive(share(positive), at)
        if "alpha" in settings:
            plus = -at["s_pos"] - smooth(-plus - at["s_pos"]) / settings["alpha"]
        minus = [square_of_negative(share(negative), at) for negative in row.negatives]
        if "beta" in settings:
            minus = [at["s_neg"] + smooth(value - at["s_neg"]) / settings["beta"] for value in minus]
        return 1 + plus + sum(minus) / len(minus) - (settings.get("w", 0.0) + 1) * at["gamma"] ** 2

    return mean_over_positives(rows, term)


VALUES: dict[str, Values] = {
    "auc": Values(
        by_hand=[
            # f = ½ against ½: 1 + (¼ − 1) + (¼ + 1)
            Hand({}, [0.0], [[0.0]], 1.5),
            # σ(ln 3) = ¾: 1 + (1/16 − 3/2) + (¼ + 1 + 9/16 + 3/2)/2 = 9/16 − 1 + 53/32
            Hand({}, [LN3], [[0.0, LN3]], 39 / 32),
        ],
        naive=naive,
        variants=[Variant(), Variant({"scalar_lr_ratio": 3.0})],
    ),
    "opauc": Values(
        by_hand=[
            # ℓ₋ = 5/4, s⁻ = ½, κ = 4·ln 2/3: e^{κ·¾} = 2, r = ln 3/κ; 1 − ¾ + ½ + 2·ln 3·3/(4·ln 2)
            Hand({"beta": 0.5, "kappa": 4 * LN2 / 3}, [0.0], [[0.0]], 0.75 + 1.5 * LN3 / LN2),
        ],
        naive=naive,
        variants=[Variant(), Variant({"beta": 1.0, "kappa": 2.0}), Variant({"beta": 0.01, "kappa": 50.0, "w": 2.0})],
    ),
    "llpauc": Values(
        by_hand=[
            # −ℓ₊ = ¾, s⁺ = ½, κ = 4·ln 2: e^{κ/4} = 2, so that r(¼) = ln 3/κ; e^{κ·¾} = 8, so that r(¾) = ln 9/κ;
            # 1 − ½ − 2·r(¼) + ½ + 4·r(¾) = 1 + (−2·ln 3 + 8·ln 3)/κ
            Hand({"alpha": 0.5, "beta": 0.25, "kappa": 4 * LN2}, [0.0], [[0.0]], 1 + 1.5 * LN3 / LN2),
        ],
        naive=naive,
        variants=[
            Variant(),
            Variant({"alpha": 1.0, "beta": 1.0, "kappa": 2.0}),
            Variant({"alpha": 0.1, "beta": 0.02, "w": 1.5}),
        ],
    ),
}
