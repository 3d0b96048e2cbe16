"""What an entry of the loss suite is made of: values worked by hand, an oracle in loops, and what a loss promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LN2, LN3 = math.log(2), math.log(3)


@dataclass(frozen=True)
class Row:
    """A row as the oracles see it: scores of the candidates, their labels (graded or not), the Top-K threshold.

    ``weights`` are those of the candidates; only the positives' count. None: all are 1.
    """

    scores: list[float]
    labels: Sequence[float]
    threshold: float
    weights: Sequence[float] | None = None

    @property
    def positives(self) -> list[float]:
        return [score for score, label in zip(self.scores, self.labels, strict=True) if label]

    @property
    def grades(self) -> list[float]:
        """The label of each positive."""
        return [float(label) for label in self.labels if label]

    @property
    def positive_weights(self) -> list[float]:
        """The weight of each positive."""
        weights = [1.0] * len(self.scores) if self.weights is None else self.weights
        return [weight for weight, label in zip(weights, self.labels, strict=True) if label]

    @property
    def weight(self) -> float:
        """The weight of the row: the mean weight of its positives."""
        return sum(self.positive_weights) / max(1, len(self.positive_weights))

    @property
    def relative_weights(self) -> list[float]:
        """The weight of each positive over that of the row."""
        return [weight / (self.weight or 1.0) for weight in self.positive_weights]

    def grade(self, positive: float) -> float:
        """The label of the positive with this score."""
        return self.grades[self.positives.index(positive)]

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
    order_matters: bool = False
    """Negatives are looked at one after the other, so that their order changes the value."""
    weights_repeat: bool = True
    """A negative of sampling weight w counts as w of them: not where what is at hand is listed, sorted or counted."""

    saturates: bool = False
    """A score of infinity has a finite loss."""

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
    on_its_own: bool = True
    """What a positive adds does not depend on its row's other positives."""
    graded: bool = False
    """Graded labels change the value; where they do not, every positive counts as a 1."""


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def mean_over_positives(rows: Sequence[Row], term: Callable[[float, Row], float]) -> float:
    """The mean by the positives' weights, each of which counts its own term; the row stays as it is."""
    weights = [weight for row in rows for weight in row.positive_weights]
    terms = [term(positive, row) for row in rows for positive in row.positives]
    return sum(w * t for w, t in zip(weights, terms, strict=True)) / (sum(weights) or 1.0)
