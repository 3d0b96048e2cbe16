"""Pointwise losses: each score against what it should be, on its own."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.scores import ScoreTable, Softplus


@registry.register("bce")
class BCE(Loss):
    r"""Binary cross-entropy.

    .. math:: L_{ui} = \ln(1 + e^{-s_{ui}}) + \sum_{j \in N_u} \ln(1 + e^{s_{uj}})

    He et al., "Neural Collaborative Filtering", WWW 2017; Kang & McAuley, "Self-Attentive Sequential Recommendation",
    ICDM 2018.

    >>> import torch
    >>> BCE()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(2.0794)
    """

    formula = "ln(1 + exp(−s_i)) + Σ_j ln(1 + exp(s_j))"
    target = "accuracy; NDCG where s_i ≥ 0"
    citation = "He et al., WWW 2017; Kang & McAuley, ICDM 2018"
    sampled: ClassVar[int | None] = 1

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        return mean_over_positives(F.softplus(-table.positives()) + table.per_positive(table.row_sum(Softplus())))
