"""The score table of a factored model: rows and candidates as vectors, scores as blocks of matrix products.

:mod:`shortlist.scores.gemm_autograd` contains the operations and their backward passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from shortlist.errors import ShortlistError
from shortlist.scores.chebyshev import Expansion, MomentSum, RowMoments
from shortlist.scores.column_topk import best_columns, gathered, kth_largest, largest
from shortlist.scores.context import TableContext
from shortlist.scores.dense import DenseTable, against_hardest, n_hardest
from shortlist.scores.gemm_autograd import SAFE_EXPONENT, Hardest, LogSumExp, PairLogSumExp, PairSum, RowSum, apply
from shortlist.scores.kernels import Kernel
from shortlist.scores.similarity import inner_products
from shortlist.scores.table import Over, RankWeight, ScoreTable, logsumexp_of_positives, ranks_among_positives

_PART = 1 << 18  # elements per part, which stay in the cache between operations


_TERMS_A_POSITIVE = 16  # passes over a row's moments that cost as much as one over the pairs of a positive


class Workspace:
    """One buffer, reused in every step: allocating it each time would cost more than the arithmetic.

    ``stamp`` changes whenever the buffer is handed out, so that a table can check whether its content is still there.
    """

    def __init__(self, max_elements: int = 1 << 26) -> None:
        self.max_elements = max_elements
        self.stamp = 0
        self._flat = torch.empty(0)

    def matrix(self, rows: int, columns: int, like: Tensor) -> Tensor:
        """A matrix of the given shape; its content is undefined."""
        self.stamp += 1
        if self._flat.numel() < rows * columns or self._flat.dtype != like.dtype or self._flat.device != like.device:
            self._flat = torch.empty(rows * columns, dtype=like.dtype, device=like.device)
        return self._flat[: rows * columns].view(rows, columns)


class FactoredTable(ScoreTable):
    """A score table of vectors whose inner products are the scores.

    ``row_RD`` and ``candidate_CD`` are those vectors, ``bias_C`` is added to every row. ``column_P`` is the column of
    each positive among the candidates, or −1. If some are not, ``positive_PD`` (and ``positive_bias_P``) give the
    vectors of the positives. ``bound`` is the largest absolute score, or None.

    >>> x, y = torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> table = FactoredTable(x, y, row_P=torch.tensor([0, 1]), column_P=torch.tensor([0, 2]))
    >>> table.positives(), table.ranks()
    (tensor([1.0000, 0.5000]), tensor([1, 2]))
    """

    def __init__(
        self,
        row_RD: Tensor,
        candidate_CD: Tensor,
        *,
        row_P: Tensor,
        column_P: Tensor,
        positive_PD: Tensor | None = None,
        bias_C: Tensor | None = None,
        positive_bias_P: Tensor | None = None,
        log_weight_C: Tensor | None = None,
        n_represented_R: Tensor | None = None,
        bound: float | None = None,
        workspace: Workspace | None = None,
        context: TableContext | None = None,
    ) -> None:
        self.row_RD, self.candidate_CD = row_RD, candidate_CD
        self.row_P, self.column_P = row_P, column_P
        self.positive_PD, self.positive_bias_P = positive_PD, positive_bias_P
        self.bias_C, self.log_weight_C = bias_C, log_weight_C
        self.bound, self.context = bound, context or TableContext()
        self.workspace = workspace or Workspace()
        among_P = column_P >= 0
        self.is_full_catalogue = positive_PD is None
        if self.is_full_catalogue and not bool(among_P.all()):
            raise ShortlistError("FactoredTable: expected the vectors of positives that are not candidates")
        self.positive_row, self.positive_column = (
            (row_P, column_P) if self.is_full_catalogue else (row_P[among_P], column_P[among_P])
        )
        self.n_negatives_R = row_RD.new_full((len(row_RD),), float(len(candidate_CD)))
        self.n_negatives_R -= torch.bincount(self.positive_row, minlength=len(row_RD))
        self.n_represented_R = self.n_negatives_R if n_represented_R is None else n_represented_R
        self._kept_positives: Tensor | None = None
        self._scores_stamp = -1  # the stamp while the buffer holds unmodified scores of all rows

    def positives(self) -> Tensor:
        """An inner product for each positive, computed once."""
        if not torch.is_grad_enabled():
            return self._positives()
        if self._kept_positives is None:
            self._kept_positives = self._positives()
        return self._kept_positives

    def _positives(self) -> Tensor:
        item_PD, bias_P = self._positive_items()
        pos_P: Tensor = torch.linalg.vecdot(self.row_RD.index_select(0, self.row_P), item_PD)
        return pos_P if bias_P is None else pos_P + bias_P

    def _positive_items(self) -> tuple[Tensor, Tensor | None]:
        """The vectors and biases of the positives, as given or as those of candidates."""
        item_PD, bias_P = self.positive_PD, self.positive_bias_P
        if item_PD is None:
            item_PD = self.candidate_CD.index_select(0, self.column_P)
        if bias_P is None and self.bias_C is not None:
            bias_P = self.bias_C.index_select(0, self.column_P)
        return item_PD, bias_P

    def logsumexp(self, tau: float, over: Over = "all") -> Tensor:
        """By products in the reused buffer; the backward pass reads the exponentials from it."""
        with_positives = over == "all" and self.is_full_catalogue and self.log_weight_C is None
        vectors = self.row_RD, self.candidate_CD, self.bias_C
        sum_R: Tensor
        sum_R, pos_P = apply(LogSumExp, *vectors, self, 1.0 / tau, with_positives)
        if self.is_full_catalogue and self._kept_positives is None and torch.is_grad_enabled():
            self._kept_positives = pos_P
        if over == "negatives" or with_positives:
            return sum_R
        return torch.logaddexp(sum_R, logsumexp_of_positives(self.positives() / tau, self.row_P, self.n_rows))

    def tilted_logsumexp(self, tau: float, left_RE: Tensor, right: Tensor) -> Tensor:
        """Scores and tilt are one inner product of concatenated vectors."""
        row_RF, cand_CF, bias_C = left_RE, right, None
        if math.isfinite(tau):
            row_RF = torch.cat([self.row_RD / tau, left_RE], 1)
            cand_CF = torch.cat([self.candidate_CD, right], 1)
            bias_C = None if self.bias_C is None else self.bias_C / tau
        tilted = FactoredTable(
            row_RF,
            cand_CF,
            row_P=self.positive_row,
            column_P=self.positive_column,
            bias_C=bias_C,
            log_weight_C=self.log_weight_C,
            workspace=self.workspace,
        )
        return tilted.logsumexp(1.0, "negatives")

    def row_sum(self, kernel: Kernel, offset_R: Tensor | None = None) -> Tensor:
        """Summed block by block; the backward pass recomputes the products."""
        vectors = self.row_RD, self.candidate_CD, self.bias_C
        sum_R: Tensor = apply(RowSum, *vectors, self, kernel, offset_R, *kernel.parameters)
        return sum_R

    def pair_sum(self, kernel: Kernel, weight: RankWeight | None = None, count_R: Tensor | None = None) -> Tensor:
        """From a few moments of each row where possible, else over blocks of positives.

        The backward pass recomputes the products, but not the ranks.
        """
        vectors = self.row_RD, self.candidate_CD, self.bias_C
        moments = self._by_moments(kernel) if weight is None else None
        sum_P: Tensor
        if moments is not None:
            sum_P = apply(MomentSum, *vectors, self.positives(), self, moments)
        else:
            sum_P = apply(PairSum, *vectors, self.positives(), self, kernel, weight, count_R)
        return sum_P

    def pair_logsumexp(self, log_kernel: Kernel) -> Tensor:
        """From a few moments of each row where possible, else over blocks of positives.

        The backward pass recomputes the products.
        """
        vectors = self.row_RD, self.candidate_CD, self.bias_C
        moments = self._by_moments(log_kernel, by_logarithm=True)
        sum_P: Tensor
        if moments is not None:
            sum_P = apply(MomentSum, *vectors, self.positives(), self, moments)
        else:
            sum_P = apply(PairLogSumExp, *vectors, self.positives(), self, log_kernel)
        return sum_P

    @torch.no_grad()
    def _by_moments(self, kernel: Kernel, by_logarithm: bool = False) -> RowMoments | None:
        """The moments of the rows if they are accurate for all positives and cheaper than enumerating the pairs."""
        if self.bound is None or self.row_RD.dtype != torch.float32:
            return None
        if self.log_weight_C is not None and bool((self.log_weight_C.abs() > SAFE_EXPONENT).any()):
            return None
        expansion = Expansion.of(kernel, self.bound, by_logarithm)
        if expansion is None or self.n_positives * _TERMS_A_POSITIVE < self.n_rows * expansion.terms:
            return None
        moments = RowMoments(expansion, self, self.positives())
        return moments if moments.is_accurate else None

    @torch.no_grad()
    def ranks(self) -> Tensor:
        """Counted block by block."""
        pos_P, rank_P = self.positives().detach(), torch.zeros_like(self.row_P)
        for rows, score_BC in self.score_blocks():
            in_block_P = self.positives_of(rows)
            if self.is_full_catalogue:  # read from the product, so that ties are bit-exact
                pos_P[in_block_P] = score_BC[self.row_P[in_block_P] - rows.start, self.column_P[in_block_P]]
            self.mask_positives(score_BC, rows)
            for part_P in self.parts(in_block_P):
                above = score_BC[self.row_P[part_P] - rows.start] >= pos_P[part_P].unsqueeze(1)
                rank_P[part_P] = above.sum(1)
        return rank_P + ranks_among_positives(pos_P, self.row_P)

    def hardest(self, count_R: Tensor) -> DenseTable:
        """Selected block by block; the backward pass touches only the selected candidates if they are few."""
        k = n_hardest(count_R, len(self.candidate_CD), self.log_weight_C)
        score_RK, column_RK = apply(Hardest, self.row_RD, self.candidate_CD, self.bias_C, self, k)
        return against_hardest(self, score_RK, column_RK, self.log_weight_C, count_R)

    @torch.no_grad()
    def kth_largest(self, k: int) -> Tensor:
        """By a two-step selection on blocks of scores."""
        result_R = self.row_RD.new_empty(self.n_rows)
        for rows, score_BC in self.score_blocks():
            if self.is_full_catalogue and k <= score_BC.shape[1]:
                result_R[rows] = largest(score_BC, k)[:, -1]
                if len(score_BC) == self.n_rows:
                    self._scores_stamp = self.workspace.stamp
            else:
                self.mask_positives(score_BC, rows)
                mine_P = self.positives_of(rows)
                result_R[rows] = kth_largest(score_BC, self.positives()[mine_P], self.row_P[mine_P] - rows.start, k)
        return result_R

    @torch.no_grad()
    def best_negatives(self, count: int) -> Tensor:
        """By a two-step selection on blocks of scores, with the rows' positives masked and restored."""
        found = []
        for rows, score_BC in self.score_blocks():
            row_Q, column_Q = self.positive_places(rows)
            positive_Q = score_BC[row_Q, column_Q]
            score_BC[row_Q, column_Q] = -torch.inf
            found.append(best_columns(score_BC, count))
            score_BC[row_Q, column_Q] = positive_Q
            if len(score_BC) == self.n_rows:
                self._scores_stamp = self.workspace.stamp
        return torch.cat(found) if found else self.row_P.new_empty(0, count)

    @torch.no_grad()
    def scores_at(self, column_RM: Tensor) -> Tensor:
        """Gathered from the buffer if it holds the scores, else inner products, in parts that fit in the cache."""
        if self._scores_stamp == self.workspace.stamp:
            score_RC = self.workspace.matrix(self.n_rows, len(self.candidate_CD), self.row_RD)
            self._scores_stamp = self.workspace.stamp  # read, not modified
            return gathered(score_RC, column_RM)
        score_RM = self.row_RD.new_empty(column_RM.shape)
        step = max(1, _PART // max(1, column_RM.shape[1] * self.row_RD.shape[1]))
        parts = (column_RM, self.row_RD.detach(), score_RM)
        for column_BM, row_BD, score_BM in zip(*(part.split(step) for part in parts), strict=True):
            item_BMD = self.candidate_CD.detach()[column_BM.clamp(min=0)]
            torch.bmm(item_BMD, row_BD.unsqueeze(2), out=score_BM.unsqueeze(2))
            if self.bias_C is not None:
                score_BM += self.bias_C.detach()[column_BM.clamp(min=0)]
        return score_RM.masked_fill_(column_RM < 0, -torch.inf)

    def log_weights(self) -> Tensor | None:
        """As given, one for each candidate."""
        return self.log_weight_C

    def matrix(self) -> Tensor:
        """A new tensor with every score, for losses that need all of them."""
        return inner_products(self.row_RD, self.candidate_CD, self.bias_C)

    def is_negative(self) -> Tensor:
        """A new mask, false at the positives."""
        mask_RC = self.row_RD.new_ones((self.n_rows, len(self.candidate_CD)), dtype=torch.bool)
        mask_RC[self.positive_row, self.positive_column] = False
        return mask_RC

    @torch.no_grad()
    def restricted(self, column_N: Tensor) -> FactoredTable:
        """The same rows and positives with a subset of the candidates; detached."""
        place_C = self.row_P.new_full((len(self.candidate_CD),), -1)
        place_C[column_N] = torch.arange(len(column_N), device=column_N.device)
        column_P = torch.where(self.column_P >= 0, place_C[self.column_P.clamp(min=0)], -1)
        item_PD, bias_P = self._positive_items()
        return FactoredTable(
            self.row_RD.detach(),
            self.candidate_CD.detach().index_select(0, column_N),
            row_P=self.row_P,
            column_P=column_P,
            positive_PD=item_PD.detach(),
            bias_C=None if self.bias_C is None else self.bias_C.detach().index_select(0, column_N),
            positive_bias_P=None if bias_P is None else bias_P.detach(),
            log_weight_C=None if self.log_weight_C is None else self.log_weight_C.index_select(0, column_N),
            bound=self.bound,
            context=self.context,
        )

    def score_blocks(self, scale: float = 1.0) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of rows with their scores times ``scale`` in the reused buffer, which the next block overwrites."""
        if self._scores_stamp == self.workspace.stamp:
            buffer_RC = self.workspace.matrix(self.n_rows, len(self.candidate_CD), self.row_RD)
            yield slice(0, self.n_rows), buffer_RC if scale == 1.0 else buffer_RC.mul_(scale)
            return
        bias_C = None if self.bias_C is None else self.bias_C.detach() * scale
        for rows in self.row_blocks():
            row_BD = self.row_RD.detach()[rows]
            buffer_BC = self.workspace.matrix(len(row_BD), len(self.candidate_CD), row_BD)
            scaled_BD = row_BD if scale == 1.0 else row_BD * scale
            yield rows, inner_products(scaled_BD, self.candidate_CD.detach(), bias_C, out=buffer_BC)

    def row_blocks(self) -> Iterator[slice]:
        """All rows, as many at a time as fit in the buffer."""
        step = max(1, self.workspace.max_elements // max(1, len(self.candidate_CD)))
        return (slice(start, min(start + step, self.n_rows)) for start in range(0, self.n_rows, step))

    def mask_positives(self, score_BC: Tensor, rows: slice) -> None:
        """Set the rows' positives in a block of candidates to −∞, where every kernel and exponential is 0."""
        score_BC[self.positive_places(rows)] = -torch.inf

    def positive_places(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Positions in a block of rows, and columns, of the positives that are candidates."""
        row_Q, column_Q = self.positive_row, self.positive_column
        if rows.stop - rows.start < self.n_rows:
            mine_Q = (row_Q >= rows.start) & (row_Q < rows.stop)
            row_Q, column_Q = row_Q[mine_Q] - rows.start, column_Q[mine_Q]
        return row_Q, column_Q

    def positives_of(self, rows: slice) -> Tensor:
        """The positives of a block of rows."""
        mine_P: Tensor = (self.row_P >= rows.start) & (self.row_P < rows.stop)
        return mine_P.nonzero().squeeze(1)

    def parts(self, index_P: Tensor) -> tuple[Tensor, ...]:
        """Positives in parts whose differences to all candidates fit in a block and in the cache."""
        most = min(self.workspace.max_elements // 4, _PART)
        return torch.split(index_P, max(1, most // max(1, len(self.candidate_CD))))
