"""What the suite has to be told about each loss. A new loss needs an entry in ``VALUES`` and nothing else.

An entry holds values worked by hand, an oracle in plain loops over Python floats, and the settings that the suite runs
with, each with what the loss promises under them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from shortlist.losses import registry


@dataclass(frozen=True)
class Row:
    """A row as the oracles see it: scores of the candidates, which of them are positives, the Top-K threshold."""

    scores: list[float]
    labels: list[bool]
    threshold: float

    @property
    def positives(self) -> list[float]:
        return [score for score, label in zip(self.scores, self.labels, strict=True) if label]

    @property
    def negatives(self) -> list[float]:
        return [score for score, label in zip(self.scores, self.labels, strict=True) if not label]


Oracle = Callable[[Mapping[str, Any], Sequence[Row]], float]
"""The loss under all its settings, defaults included, of some rows."""


@dataclass(frozen=True)
class Hand:
    """A value worked by hand: positives [B], negatives [B, N], thresholds [B], and what comes out."""

    settings: dict[str, Any]
    positives: list[float]
    negatives: list[list[float]]
    value: float
    threshold: list[float] | None = None


@dataclass(frozen=True)
class Variant:
    """Settings that the suite runs with, and what holds under them."""

    settings: dict[str, Any] = field(default_factory=dict)
    shift_invariant: bool = False
    """The same constant added to all scores, and to thresholds, changes nothing."""
    gradient_of_value: bool = True
    """The gradient is that of the value: no part of the formula is held constant."""

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.settings.items()) or "defaults"


@dataclass(frozen=True)
class Values:
    """The entry of one loss."""

    by_hand: list[Hand]
    naive: Oracle
    variants: list[Variant]
    learns_with: dict[str, Any] = field(default_factory=dict)
    """Settings under which thirty small users and items are learnt; the defaults are made for large catalogues."""


def values_of(name: str) -> Values:
    """The entry of a loss, or a failed test that says what to add."""
    if name not in VALUES:
        pytest.fail(f"the loss {name!r} is registered but has no entry in VALUES of tests/losses/values.py: add one")
    return VALUES[name]


def registered() -> list[str]:
    """Every loss of this library; what other installed packages register is theirs to test."""
    return sorted(name for name in registry if registry[name].__module__.startswith("shortlist."))


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def mean_over_positives(rows: Sequence[Row], term: Callable[[float, Row], float]) -> float:
    terms = [term(positive, row) for row in rows for positive in row.positives]
    return sum(terms) / max(1, len(terms))


def softmax_term(settings: Mapping[str, Any], positive: float, row: Row) -> float:
    rivals = row.scores if settings["denominator"] == "all" else row.negatives
    if not rivals:
        return 0.0
    total = sum(math.exp(rival / settings["tau"]) for rival in rivals)
    if "negatives" in settings and settings["denominator"] == "negatives":
        total *= settings["negatives"] / len(rivals)
    return math.log(total) - settings["pull"] * positive / settings["tau"]


def naive_sl(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    return mean_over_positives(rows, lambda positive, row: softmax_term(settings, positive, row))


def naive_slatk(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        weight = 1 / (1 + math.exp((row.threshold - positive) / settings["tau_w"]))
        return weight * softmax_term(settings, positive, row)

    return mean_over_positives(rows, term)


def naive_bpr(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        return sum(softplus(negative - positive) for negative in row.negatives) / max(1, len(row.negatives))

    return mean_over_positives(rows, term)


def naive_bce(settings: Mapping[str, Any], rows: Sequence[Row]) -> float:
    def term(positive: float, row: Row) -> float:
        return softplus(-positive) + sum(softplus(negative) for negative in row.negatives)

    return mean_over_positives(rows, term)


LN2, LN3 = math.log(2), math.log(3)
PUBLISHED = {"weight": "published", "pull": 1.0, "tau_w": 1.0}
"""SL@K as its authors train it."""

VALUES: dict[str, Values] = {
    "sl": Values(
        by_hand=[
            # ln(e⁰ + e^{ln 2}) − ln 3 = ln 3 − ln 3
            Hand({"tau": 1.0}, [LN3], [[0.0, LN2]], 0.0),
            # the positive joins the sum: ln(1 + 2 + 3) − ln 3 = ln 2
            Hand({"tau": 1.0, "denominator": "all"}, [LN3], [[0.0, LN2]], LN2),
            # τ = ½ squares the exponentials: ln(1 + 4) − ½·2·ln 3 = ln(5/3)
            Hand({"tau": 0.5, "pull": 0.5}, [LN3], [[0.0, LN2]], math.log(5 / 3)),
            # a mean over rows: (ln 2 − 0 + ln 4 − ln 2)/2 = ln 2
            Hand({"tau": 1.0}, [0.0, LN2], [[0.0, 0.0], [LN2, LN2]], LN2),
        ],
        naive=naive_sl,
        variants=[
            Variant(shift_invariant=True),
            Variant({"denominator": "all", "tau": 0.7}, shift_invariant=True),
            Variant({"pull": 0.8, "tau": 1.3}),
            Variant({"pull": 0.7, "denominator": "all"}),
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
                {"tau": 1.0, "tau_w": 0.5, "pull": 0.5, "negatives": 2.0, "weight": "detached"},
                [LN3],
                [[0.0, LN2]],
                0.45 * LN3,
                [0.0],
            ),
        ],
        naive=naive_slatk,
        variants=[
            Variant(gradient_of_value=False),
            Variant(PUBLISHED, shift_invariant=True),
            Variant({**PUBLISHED, "denominator": "all", "tau": 0.7, "tau_w": 0.5}, shift_invariant=True),
            Variant({"pull": 1.0, "tau_w": 2.0}, shift_invariant=True, gradient_of_value=False),
            Variant({**PUBLISHED, "pull": 0.8, "negatives": 7.0}),
        ],
        learns_with={"k": 5, "tau_w": 2.5, "negatives": 24.0},
    ),
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
