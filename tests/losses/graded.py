"""Lists with graded labels."""

from __future__ import annotations

import torch
from torch import Tensor

from shortlist.scores import DenseTable, TableContext


def separated(seed: int, rows: int = 6, items: int = 12) -> tuple[Tensor, Tensor]:
    """Scores that lie at least 1 apart, and labels of which every row has some above 0."""
    g = torch.Generator().manual_seed(seed)
    score_RC = torch.stack([torch.randperm(items, generator=g) for _ in range(rows)]).double()
    label_RC = torch.randint(0, 4, (rows, items), generator=g) * (torch.rand(rows, items, generator=g) < 0.4)
    label_RC[:, 0] = 2
    return score_RC + 0.2 * torch.rand(rows, items, generator=g), label_RC


def graded_table(score_RC: Tensor, label_RC: Tensor) -> DenseTable:
    return DenseTable.from_matrix(score_RC, label_RC > 0, context=TableContext(grade_P=label_RC[label_RC > 0]))
