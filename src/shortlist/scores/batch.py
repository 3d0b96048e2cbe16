"""A training batch: rows to encode, their positives, and the candidates they are ranked among."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from shortlist.negatives import Candidates, RowSample, Sample
from shortlist.scores.context import TableContext


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of a step, their positives and their candidates. Tasks make batches, models encode them.

    ``rows`` is what the model encodes (user indices, packed histories, document features, nodes). Only the task and its
    models interpret it. If it is a tensor, or has a method ``to``, it moves to a device with the batch.
    """

    rows: Any
    n_rows: int
    row_P: Tensor
    """The row of each positive."""

    item_P: Tensor
    """The item of each positive; its column where rows have their own lists of candidates."""

    key_R: Tensor | None = None
    """The key of each row, which indexes per-row state; None where rows have no keys."""

    pair_P: Tensor | None = None
    """The index of each positive among all training pairs."""

    grade_P: Tensor | None = None
    """Graded labels of the positives; None where they are binary."""

    weight_P: Tensor | None = None
    """The weight of each positive; None where all weights are equal."""

    candidates: Candidates = None
    """What the rows are ranked among; None: the full catalogue."""

    @property
    def drawn(self) -> RowSample | None:
        """The items drawn for each row; None for other kinds of candidates."""
        return self.candidates if isinstance(self.candidates, RowSample) else None

    def context(self, n_items: int | None, generator: torch.Generator | None) -> TableContext:
        """What the score table of this batch contains besides scores."""
        item_C = n_negatives_R = None
        if isinstance(self.candidates, Sample):
            item_C = self.candidates.item_C
        elif isinstance(self.candidates, RowSample):
            item_C, n_negatives_R = self.candidates.item_RN, self.candidates.n_negatives_R
        elif self.candidates is None and n_items is not None:
            item_C = torch.arange(n_items, device=self.row_P.device)
        return TableContext(
            key_R=self.key_R,
            pair_P=self.pair_P,
            item_C=item_C,
            grade_P=self.grade_P,
            weight_P=self.weight_P,
            n_items=n_items,
            n_negatives_R=n_negatives_R,
            generator=generator,
        )

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        if self.row_P.device == device:
            return self

        def moved(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device)

        return replace(
            self,
            rows=self.rows.to(device) if hasattr(self.rows, "to") else self.rows,
            row_P=self.row_P.to(device),
            item_P=self.item_P.to(device),
            key_R=moved(self.key_R),
            pair_P=moved(self.pair_P),
            grade_P=moved(self.grade_P),
            weight_P=moved(self.weight_P),
            candidates=None if self.candidates is None else self.candidates.to(device),
        )
