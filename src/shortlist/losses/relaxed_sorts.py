"""NDCG of a relaxed sort: every rank has a probability distribution over the items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from shortlist.errors import InputError
from shortlist.losses.base import Loss, mean_over_rows, registry
from shortlist.losses.gains import dcg_discount, normalized_gains
from shortlist.parameters import Search, param
from shortlist.scores import ScoreTable
from shortlist.scores.column_topk import places
from shortlist.scores.gemm_autograd import apply

_BLOCK = 1 << 22  # numbers that a block of lists may store for its gradient


@dataclass(frozen=True)
class PaddedLists:
    """The items of each row, positives first, padded; scores and gains are 0 at padding.

    ``gain_RL`` is the contribution of an item to NDCG@K at rank 1: its gain divided by the row's ideal DCG.
    """

    score_RL: Tensor
    gain_RL: Tensor
    present_RL: Tensor

    @classmethod
    def of(cls, table: ScoreTable, k: int | None, longest: int, owner: str) -> PaddedLists:
        """The lists of a table; an error if one exceeds ``longest``."""
        count_R = torch.bincount(table.row_P, minlength=table.n_rows)
        length = int((table.n_negatives_R + count_R).max()) if table.n_rows else 0
        if length > longest:
            raise InputError(
                f"{owner}.longest: expected lists of at most {longest} items, received {length}; train against a "
                "sample (training.candidates=shared or pairs, with training.negatives), or allow longer lists"
            )
        matrix_RC, is_negative_RC = table.matrix(), table.is_negative()
        place_P, most = places(table.row_P, table.n_rows), int(count_R.max()) if table.n_rows else 0
        own_RM = matrix_RC.new_zeros(table.n_rows, most).index_put((table.row_P, place_P), table.positives())
        gain_P = normalized_gains(table, k)
        gain_RM = torch.zeros_like(own_RM).index_put((table.row_P, place_P), gain_P)
        present_RM = torch.arange(most, device=count_R.device) < count_R.unsqueeze(1)
        return cls(
            torch.cat([own_RM, matrix_RC.masked_fill(~is_negative_RC, 0)], 1),
            torch.cat([gain_RM, torch.zeros_like(matrix_RC)], 1),
            torch.cat([present_RM, is_negative_RC], 1),
        )

    def part(self, rows: slice) -> PaddedLists:
        """The given rows of the lists."""
        return PaddedLists(self.score_RL[rows], self.gain_RL[rows], self.present_RL[rows])


Formula = Callable[[PaddedLists], Tensor]
"""A function that gives one number per list."""


def in_blocks(lists: PaddedLists, formula: Formula, cost: int) -> Tensor:
    """The formula of each list, block by block; the gradient of a block is computed in the forward pass.

    What a block stores for its gradient, ``cost`` numbers per list, is freed before the next block.
    """
    value_R: Tensor = apply(_InBlocks, lists.score_RL, lists, formula, max(1, _BLOCK // max(1, cost)))
    return value_R


class _InBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, score_RL: Tensor, lists: PaddedLists, formula: Formula, step: int) -> Tensor:
        """The values, and the gradient of each with respect to its own list."""
        ctx.grad_RL = torch.zeros_like(score_RL) if ctx.needs_input_grad[0] else None
        value_R = score_RL.new_zeros(len(score_RL))
        for start in range(0, len(score_RL), step):
            rows = slice(start, start + step)
            part = lists.part(rows)
            score_BL = part.score_RL.detach()
            if ctx.grad_RL is None:
                value_R[rows] = formula(PaddedLists(score_BL, part.gain_RL, part.present_RL))
                continue
            with torch.enable_grad():
                value_B = formula(PaddedLists(score_BL.requires_grad_(), part.gain_RL, part.present_RL))
                (ctx.grad_RL[rows],) = torch.autograd.grad(value_B.sum(), score_BL)
            value_R[rows] = value_B.detach()
        return value_R

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_R: Tensor) -> tuple[Tensor | None, ...]:
        """The stored gradients, each multiplied by the incoming gradient of its list."""
        return ctx.grad_RL * grad_R.unsqueeze(1), None, None, None


def _expected_dcg(prob_RKL: Tensor, lists: PaddedLists) -> Tensor:
    """Σ_k (Σ_i G_i·h_ik)/D(k) of each list, over its ranks."""
    place_K = torch.arange(1, prob_RKL.shape[1] + 1, dtype=prob_RKL.dtype, device=prob_RKL.device)
    present_RK = place_K <= lists.present_RL.sum(1, keepdim=True)
    gain_RK = torch.einsum("rkl,rl->rk", prob_RKL, lists.gain_RL)
    return torch.where(present_RK, gain_RK * dcg_discount(place_K), 0).sum(1)


@registry.register("smooth_ndcg")
class SmoothNDCG(Loss):
    r"""SmoothNDCG: each rank has a distribution over the items whose scores are near that of the item at the rank.

    .. math:: L_u = -\frac{1}{Z_u} \sum_k \frac{1}{D(k)} \sum_i G_i\,h_{ik},\quad
              h_{ik} = \frac{e^{-(s_i - s_{[k]})^2/\varsigma}}{\sum_l e^{-(s_l - s_{[k]})^2/\varsigma}}

    for each user, where s_[k] is the k-th largest score; the value is the mean over users. As ς → 0 it becomes −NDCG,
    and its gradient vanishes; ``anneal`` multiplies ς after each epoch. With ``k`` only the first K ranks count, which
    also reduces the cost: ranks × items of each list. Sampling weights are not used.

    Chapelle & Wu, "Gradient Descent Optimization of Smoothed Information Retrieval Metrics", Information Retrieval
    2010.

    >>> SmoothNDCG(sigma=1.0)(torch.tensor([0.0]), torch.tensor([[0.0]]))
    tensor(-0.8155)
    """

    formula = "−Σ_k Σ_i G_i·h_ik/(Z·D(k)), h_ik = softmax_i(−(s_i − s_[k])²/ς), of a user"
    target = "NDCG"
    citation = "Chapelle & Wu, Information Retrieval 2010"
    cost = "every item with every rank of a short list"
    use = "Where lists are short and graded, with an annealed smoothing."
    collapse_hint = "a larger loss.sigma"
    sampled: ClassVar[int | None] = 100

    k: int | None = param(default=None, at_least=1, help="number K of ranks that count; none: all")
    sigma: float = param(default=1.0, above=0, help="width ς of the smoothing", search=Search(0.01, 10.0, log=True))
    anneal: float = param(default=1.0, above=0, at_most=1, help="factor that multiplies ς after each epoch")
    longest: int = param(default=2000, at_least=1, help="maximum length of a list, positives and negatives")

    def __post_init__(self) -> None:
        self._width = self.sigma

    def before_epoch(self, epoch: int) -> None:
        """ς of this epoch."""
        self._width = self.sigma * self.anneal ** (epoch - 1)

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over rows that have a positive."""
        lists = PaddedLists.of(table, self.k, self.longest, type(self).__name__)
        length = lists.score_RL.shape[1]
        return mean_over_rows(table, in_blocks(lists, self._of_lists, 4 * length * min(self.k or length, length)))

    def _of_lists(self, lists: PaddedLists) -> Tensor:
        score_RL, present_RL = lists.score_RL, lists.present_RL
        order_RL = score_RL.detach().masked_fill(~present_RL, -torch.inf).argsort(1, descending=True)
        at_RK = score_RL.gather(1, order_RL[:, : self.k])
        logit_RKL = -(score_RL.unsqueeze(1) - at_RK.unsqueeze(2)).square() / self._width
        prob_RKL = logit_RKL.masked_fill(~present_RL.unsqueeze(1), torch.finfo(score_RL.dtype).min).softmax(2)
        return -_expected_dcg(prob_RKL, lists)


_LEAST_SUM = 1e-10


@registry.register("neural_ndcg")
class NeuralNDCG(Loss):
    r"""NeuralNDCG: NDCG of the relaxed sort NeuralSort, made doubly stochastic.

    .. math:: L_u = -\frac{1}{Z_u} \sum_{k \le K} \frac{(\hat P G)_k}{D(k)},\quad
              \hat P_k = \mathrm{softmax}\Bigl(\bigl((L + 1 - 2k)\,s - A\mathbf 1\bigr)/\tau\Bigr),\quad
              A_{ij} = |s_i - s_j|

    for each user with L items; the value is the mean over users. The rows of P̂ sum to 1; Sinkhorn scaling makes its
    columns sum to 1 within ``tolerance``. As τ → 0 it becomes −NDCG@K. The cost is quadratic in the length of the list.
    Sampling weights are not used. The last bits may differ between numbers of threads.

    Pobrotyn & Białobrzeski, "NeuralNDCG: Direct Optimisation of a Ranking Metric via Differentiable Relaxation of
    Sorting", SIGIR eCom 2021.

    >>> NeuralNDCG()(torch.tensor([0.0]), torch.tensor([[0.0]]))
    tensor(-0.8155)
    """

    formula = "−Σ_{k≤K} (P̂G)_k/(Z·D(k)), P̂ a relaxed sort of all items, of a user"
    target = "NDCG@K"
    citation = "Pobrotyn & Białobrzeski, SIGIR eCom 2021"
    cost = "every item with every rank of a short list, several times"
    use = "Where lists are short and graded; relaxes the sort itself."
    collapse_hint = "a larger loss.tau"
    sampled: ClassVar[int | None] = 50

    k: int | None = param(default=None, at_least=1, help="number K of ranks that count; none: all")
    tau: float = param(default=1.0, above=0, help="temperature τ of the sort", search=Search(0.1, 10.0, log=True))
    iterations: int = param(default=50, at_least=0, help="maximum number of scalings of rows and columns")
    tolerance: float = param(default=1e-6, above=0, help="tolerance of the column sums around 1")
    longest: int = param(default=500, at_least=1, help="maximum length of a list, positives and negatives")

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over rows that have a positive."""
        lists = PaddedLists.of(table, self.k, self.longest, type(self).__name__)
        cost = (4 + 3 * self.iterations) * lists.score_RL.shape[1] ** 2
        return mean_over_rows(table, in_blocks(lists, self._of_lists, cost))

    def _of_lists(self, lists: PaddedLists) -> Tensor:
        score_RL, present_RL = lists.score_RL, lists.present_RL
        length_R1 = present_RL.sum(1, keepdim=True)
        place_L = torch.arange(1, score_RL.shape[1] + 1, dtype=score_RL.dtype, device=score_RL.device)
        distance_RLL = (score_RL.unsqueeze(2) - score_RL.unsqueeze(1)).abs()
        distance_RL = (distance_RLL * present_RL.unsqueeze(1)).sum(2)
        factor_RK = length_R1 + 1 - 2 * place_L
        logit_RKL = (factor_RK.unsqueeze(2) * score_RL.unsqueeze(1) - distance_RL.unsqueeze(1)) / self.tau
        prob_RKL = logit_RKL.masked_fill(~present_RL.unsqueeze(1), torch.finfo(score_RL.dtype).min).softmax(2)
        prob_RKL = prob_RKL * (place_L <= length_R1).unsqueeze(2)
        return -_expected_dcg(self._scaled(prob_RKL, present_RL)[:, : self.k], lists)

    def _scaled(self, prob_RKL: Tensor, present_RL: Tensor) -> Tensor:
        """Columns and rows scaled alternately; a list whose columns sum to 1 is unchanged."""
        for _ in range(self.iterations):
            column_RL = prob_RKL.sum(1)
            unscaled_R = ((column_RL.detach() - 1).abs() * present_RL).amax(1) > self.tolerance
            if not bool(unscaled_R.any()):
                break
            scaled_RKL = prob_RKL / _divisor(column_RL.unsqueeze(1))
            scaled_RKL = scaled_RKL / _divisor(scaled_RKL.sum(2, keepdim=True))
            prob_RKL = torch.where(unscaled_R.view(-1, 1, 1), scaled_RKL, prob_RKL)
        return prob_RKL


def _divisor(total: Tensor) -> Tensor:
    """A sum to divide by; 1 if the sum is (nearly) 0, as at padding."""
    return torch.where(total > _LEAST_SUM, total, 1)
