"""Pairwise losses: a kernel of the score difference of a negative and a positive."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.scores import ScoreTable, Softplus


@registry.register("bpr")
class BPR(Loss):
    r"""Bayesian personalised ranking.

    .. math:: L_{ui} = \frac{1}{|N_u|} \sum_{j \in N_u} \ln\bigl(1 + e^{s_{uj}-s_{ui}}\bigr)

    Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit Feedback", UAI 2009.

    >>> import torch
    >>> BPR()(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))
    tensor(0.6931)
    """

    formula = "mean_j ln(1 + exp(s_j − s_i))"
    target = "AUC"
    citation = "Rendle et al., UAI 2009"
    sampled: ClassVar[int | None] = 1

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        population_P = table.per_positive(table.population_R.clamp(min=1))
        return mean_over_positives(table.pair_sum(Softplus()) / population_P)
