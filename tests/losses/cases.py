"""The losses, variants and tables that the suite goes through."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from losses.oracle import Row, Variant
from losses.values import VALUES, registered
from scores.tables import Case
from shortlist.losses import Loss, registry
from shortlist.scores import ScoreTable

NAMES = registered()
FORMS = ["dense", "factored", "factored_apart"]
ENTRIES = [(name, VALUES[name]) for name in NAMES if name in VALUES]  # a test of its own fails for those without
VARIANTS = [pytest.param(name, v, id=f"{name}-{v}") for name, values in ENTRIES for v in values.variants]
DIFFERENTIABLE = [variant for variant in VARIANTS if variant.values[1].gradient_of_value]


def made(name: str, variant: Variant) -> Loss:
    return registry[name](**variant.settings)


def thresholds_for(case: Case, seed: int = 0) -> Tensor:
    """Some number a row, in the range of the scores: any will do, since estimation is tested elsewhere."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(len(case.row_RD), generator=g, dtype=torch.float64).to(case.row_RD.dtype)


def table_of(case: Case, form: str) -> ScoreTable:
    table: ScoreTable = getattr(case, form)()
    return table.with_threshold(thresholds_for(case))


def rows_of(
    score_RC: Tensor,
    label_RC: Tensor,
    threshold_R: Tensor,
    weight_RC: Tensor | None = None,
    present_RC: Tensor | None = None,
) -> list[Row]:
    """The rows as oracles see them; candidates that are not present are left out."""
    there_RC = torch.ones_like(score_RC, dtype=torch.bool) if present_RC is None else present_RC
    return [
        Row(
            score_RC[r][there_RC[r]].tolist(),
            label_RC[r][there_RC[r]].tolist(),
            threshold_R[r].item(),
            None if weight_RC is None else weight_RC[r][there_RC[r]].tolist(),
        )
        for r in range(len(score_RC))
    ]


def value_and_gradient(loss: Loss, table: ScoreTable, leaves: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    value = loss(table)
    return value, list(torch.autograd.grad(value, leaves))
