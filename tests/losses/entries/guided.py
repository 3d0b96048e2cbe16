"""GuidedRec."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from losses.entries.surrogates import sigmoid
from losses.oracle import LN2, LN3, Hand, Row, Values, Variant, mean_over_positives, softplus
from shortlist.losses import GuidedRec


def layer(weights: list[float], inner: int, outer: int, x: list[float]) -> list[float]:
    """tanh(xW + b), whose weights are taken off the front of the list."""
    taken, bias = weights[: inner * outer], weights[inner * outer : inner * outer + outer]
    del weights[: inner * outer + outer]
    return [math.tanh(sum(x[i] * taken[i * outer + o] for i in range(inner)) + bias[o]) for o in range(outer)]


def estimate(network: list[float], hidden: int, slots: list[tuple[float, float]]) -> float:
    """The network on a list of chances and labels."""
    weights, flat = list(network), [number for slot in slots for number in slot]
    first = layer(weights, len(flat), hidden, flat)
    second = layer(weights, hidden, hidden, first)
    products = layer(weights, len(flat) ** 2, hidden, [a * b for a in flat for b in flat])
    both = [a * b for a, b in zip(second, products, strict=True)]
    (value,) = layer(weights, 8, 1, layer(weights, hidden, 8, both))
    return value


def naive_guidedrec(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    """With the network as it is at first, and the first negatives of a row."""
    network = GuidedRec(**settings).network.tolist()

    def term(positive: float, row: Row) -> float:
        drawn = row.negatives[: settings["negatives"]]
        entropy = len(drawn) * softplus(-positive) + sum(softplus(negative) for negative in drawn)
        slots = [(sigmoid(positive), 1.0), *((sigmoid(negative), 0.0) for negative in drawn)]
        slots += [(0.0, 0.0)] * (settings["negatives"] - len(drawn))
        return entropy / (1 + len(drawn)) - settings["weight"] * estimate(network, settings["hidden"], slots)

    return mean_over_positives(rows, term)


VALUES: dict[str, Values] = {
    "guidedrec": Values(
        by_hand=[
            # two negatives, so that the positive counts twice: (2·ln 2 + 2·ln 2)/3
            Hand({"weight": 0.0}, [0.0], [[0.0, 0.0]], 4 * LN2 / 3),
            # ln(1 + 1/3) and ln(1 + 3): (ln(4/3) + ln 4)/2
            Hand({"weight": 0.0}, [LN3], [[LN3]], math.log(16 / 3) / 2),
            # only the first of the two is taken
            Hand({"weight": 0.0, "negatives": 1}, [LN3], [[LN3, 5.0]], math.log(16 / 3) / 2),
        ],
        naive=naive_guidedrec,
        variants=[
            Variant({"hidden": 4}, order_matters=True, weights_repeat=False),
            Variant({"negatives": 3, "hidden": 5, "weight": 2.0}, order_matters=True, weights_repeat=False),
        ],
    ),
}
