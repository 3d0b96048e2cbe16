"""Softmax losses that remember: averages of a user's sum over steps, or how hard each negative is taken to be."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.losses.softmax import log_mean_exp
from shortlist.parameters import Search, param
from shortlist.scores import ScoreTable, Similarity
from shortlist.scores.table import logsumexp_of_positives


class LogMeans(nn.Module):
    """A moving average g of a positive number for each user, kept as ln g: e^{1/τ} leaves the range of floats.

    >>> means = LogMeans(2)
    >>> means.moved(torch.tensor([0.0]), torch.tensor([1]), gamma=0.5, keep=True)  # a first visit sets g
    tensor([0.])
    >>> means.moved(torch.tensor([3.0]).log(), torch.tensor([1]), gamma=0.5, keep=True).exp()
    tensor([2.])
    """

    def __init__(self, n_users: int) -> None:
        super().__init__()
        self.log_mean_U: Tensor
        self.register_buffer("log_mean_U", torch.full((n_users,), -torch.inf))

    @torch.no_grad()
    def moved(self, log_value_R: Tensor, user_R: Tensor, gamma: float, keep: bool) -> Tensor:
        """``ln g`` of each row's user after ``g ← (1 − γ)·g + γ·ĝ``, which is kept or only looked at.

        Rows of the same user give one ĝ, their mean, and read the same g. Rows at −∞ hold no number and move nothing.
        """
        user_M, place_R = torch.unique(user_R, return_inverse=True)
        there_R = log_value_R != -torch.inf
        count_M = torch.bincount(place_R[there_R], minlength=len(user_M)).to(log_value_R.dtype)
        new_M = logsumexp_of_positives(log_value_R[there_R], place_R[there_R], len(user_M)) - count_M.log()
        old_M = self.log_mean_U[user_M].to(log_value_R.dtype)
        rest = math.log1p(-gamma) if gamma < 1 else -math.inf
        mean_M = torch.where(old_M == -torch.inf, new_M, torch.logaddexp(old_M + rest, new_M + math.log(gamma)))
        mean_M = torch.where(count_M == 0, old_M, mean_M)
        if keep:
            self.log_mean_U[user_M] = mean_M.to(self.log_mean_U.dtype)
        return mean_M[place_R]


def averaged_terms(table: ScoreTable, tau: float, gamma: float, means: LogMeans | None, keep: bool) -> Tensor:
    """``ln g + ĝ/g − 1`` of each positive's row, with ``ĝ = mean_j exp(s_j/τ)`` and g held constant.

    This is the tangent of ln ĝ at g, above it and equal to it where g = ĝ: its gradient is that of ĝ/g, its value a
    bound of the loss that is meant. −∞ where the row has no negatives.
    """
    log_now_R = log_mean_exp(table, tau)
    log_mean_R = log_now_R.detach()
    if table.user_R is not None:
        if means is None:
            raise InputError("loss.start: expected a call with the number of users before scores of known users")
        log_mean_R = means.moved(log_mean_R, table.user_R, gamma, keep)
    there_R = log_now_R != -torch.inf
    log_mean_R = torch.where(there_R, log_mean_R, 0)
    tangent_R = log_mean_R + (log_now_R - log_mean_R).exp() - 1
    return table.per_positive(torch.where(there_R, tangent_R, -torch.inf))


@registry.register("sogclr")
class SogCLR(Loss):
    r"""SogCLR: softmax loss whose sum over few negatives is averaged over the steps that a user appears in.

    .. math:: \hat g_u = \frac{1}{|N_u|} \sum_{j \in N_u} e^{s_{uj}/\tau},\quad
              g_u \leftarrow (1-\gamma)\,g_u + \gamma\,\hat g_u,\quad
              L_{ui} = -s_{ui}/\tau + \ln g_u + \hat g_u/g_u - 1

    with g held constant: the gradient is that of −s/τ + ĝ/g, as published, and the value, which the published form
    leaves without meaning, bounds SL's, by the tangent of the logarithm at g. The first visit of a user sets g = ĝ;
    there, and always with γ = 1, it is SL less ln|N|. A user that has several rows in a step counts with the mean of
    their ĝ, and all of them read the same g. In a loop of one's own call ``start`` once and give ``users`` along.

    Yuan et al., "Provable Stochastic Optimization for Global Contrastive Learning: Small Batch Does Not Harm
    Performance", ICML 2022.

    >>> SogCLR(tau=1.0)(torch.tensor([1.0]), torch.tensor([[0.0, 0.0]]))
    tensor(-1.)
    """

    formula = "−s_i/τ + ln g_u + ĝ_u/g_u − 1, with ĝ_u = mean_j exp(s_j/τ) and g_u its average over steps, constant"
    target = "NDCG, with few negatives"
    remedy = "a larger loss.tau"
    citation = "Yuan et al., ICML 2022"
    similarity: ClassVar[Similarity] = "cosine"

    tau: float = param(default=0.2, above=0, help="temperature τ of the scores", search=Search(0.02, 0.5, log=True))
    gamma: float = param(
        default=0.9,
        above=0,
        at_most=1,
        help="share γ of the step at hand in the average",
        search=Search(choices=(0.1, 0.3, 0.5, 0.7, 0.9)),
    )

    def __post_init__(self) -> None:
        self.means: LogMeans | None = None

    def start(self, n_users: int, n_items: int, n_pairs: int, generator: torch.Generator) -> None:
        """An average for each user, not yet set."""
        self.means = LogMeans(n_users)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        log_P = averaged_terms(table, self.tau, self.gamma, self.means, self.training)
        return mean_over_positives(torch.where(log_P == -torch.inf, 0, log_P - table.positives() / self.tau))
