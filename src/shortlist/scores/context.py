"""What accompanies the scores of a table: keys of rows, labels, weights, and the sizes of the data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class TableContext:
    """What is known about the rows, positives and candidates of a score table besides their scores; all is optional.

    Losses that keep state between steps (moving averages, thresholds) index it by ``key_R`` and ``pair_P``. Labels are
    binary where ``grade_P`` is None, and positives have equal weights where ``weight_P`` is None.
    """

    key_R: Tensor | None = None
    """The key of each row, for example a user, which indexes per-row state; None where rows have no keys."""

    pair_P: Tensor | None = None
    """The index of each positive among all training pairs."""

    item_C: Tensor | None = None
    """The items of the candidates, of shape C, or R × C where each row has its own."""

    grade_P: Tensor | None = None
    """Graded labels of the positives."""

    weight_P: Tensor | None = None
    """The weight of each positive: an integer weight is equivalent to that many repetitions."""

    threshold_R: Tensor | None = None
    """The Top-K threshold of each row."""

    n_items: int | None = None
    """The size of the catalogue."""

    n_negatives_R: Tensor | None = None
    """How many negatives each row has in the catalogue, where it has more positives than those of the table."""

    generator: torch.Generator | None = None
    """The random generator of losses that draw."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of the training data, from which losses allocate state; None where a size is undefined."""

    n_keys: int | None = None
    """Number of keys: different rows that have state."""

    n_items: int | None = None
    """The size of the catalogue."""

    n_pairs: int | None = None
    """Number of training pairs."""
