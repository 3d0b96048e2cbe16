"""The score table of a given tensor: sampled negatives, lists of learning to rank, a matrix of scores."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.scores.column_topk import best_columns, gathered, kth_largest, ranks
from shortlist.scores.context import TableContext
from shortlist.scores.kernels import Kernel
from shortlist.scores.table import Over, RankWeight, ScoreTable, logsumexp_of_positives, ranks_among_positives


class DenseTable(ScoreTable):
    """A score table of given scores; gradients are torch's own.

    ``pos_P`` and ``row_P`` are the positives and their rows; ``cand_RC`` the candidates' scores. Where candidates may
    be positives of their row, ``positive_RC`` marks them. Where rows have fewer than C candidates, ``present_RC`` is
    false at padding. Neither positives nor padding are negatives. ``log_weight`` (of shape C or R × C) corrects for
    sampling.

    >>> table = DenseTable.from_pairs(torch.tensor([1.0]), torch.tensor([[0.0, 1.0]]))
    >>> table.logsumexp(1.0, "negatives"), table.ranks()
    (tensor([1.3133]), tensor([2]))
    """

    def __init__(
        self,
        pos_P: Tensor,
        row_P: Tensor,
        cand_RC: Tensor,
        *,
        positive_RC: Tensor | None = None,
        present_RC: Tensor | None = None,
        log_weight: Tensor | None = None,
        n_represented_R: Tensor | None = None,
        context: TableContext | None = None,
    ) -> None:
        self.pos_P, self.row_P, self.cand_RC = pos_P, row_P, cand_RC
        self.log_weight, self.context = log_weight, context or TableContext()
        self._excluded_RC = positive_RC  # candidates that are not negatives
        if present_RC is not None:
            self._excluded_RC = ~present_RC if positive_RC is None else positive_RC | ~present_RC
        self.n_negatives_R = cand_RC.new_full((len(cand_RC),), float(cand_RC.shape[1]))
        if self._excluded_RC is not None:
            self.n_negatives_R -= self._excluded_RC.sum(1)
        self.n_represented_R = self.n_negatives_R if n_represented_R is None else n_represented_R
        self.is_full_catalogue = positive_RC is not None and int(positive_RC.sum()) == len(pos_P)

    @classmethod
    def from_pairs(
        cls,
        pos_B: Tensor,
        neg_BN: Tensor,
        *,
        mask_BN: Tensor | None = None,
        log_q: Tensor | None = None,
        context: TableContext | None = None,
    ) -> DenseTable:
        """One positive per row, with N sampled negatives: the form of most training loops.

        ``mask_BN`` is true where a negative is present. ``log_q``, of shape N or B × N, is ln Q of each negative, the
        probability with which it was drawn; its weight is then ω = 1/(N·Q).
        """
        if pos_B.ndim != 1 or neg_BN.ndim != 2 or len(pos_B) != len(neg_BN):
            shapes = f"{list(pos_B.shape)} and {list(neg_BN.shape)}"
            raise InputError(f"loss: expected positive scores [B] and negative scores [B, N], received {shapes}")
        row_B = torch.arange(len(pos_B), device=pos_B.device)
        log_weight = represented_B = None
        if log_q is not None:
            if log_q.shape not in (neg_BN.shape, neg_BN.shape[1:]):
                shapes = f"{list(neg_BN.shape)} or {list(neg_BN.shape[1:])}"
                raise InputError(f"loss.log_q: expected shape {shapes}, received {list(log_q.shape)}")
            log_weight = -log_q.to(neg_BN.dtype) - math.log(max(1, neg_BN.shape[1]))
            if context is not None and context.n_items is not None:
                represented_B = neg_BN.new_full((len(pos_B),), float(context.n_items - 1))
        return cls(
            pos_B,
            row_B,
            neg_BN,
            present_RC=mask_BN,
            log_weight=log_weight,
            n_represented_R=represented_B,
            context=context,
        )

    @classmethod
    def from_matrix(cls, score_RC: Tensor, positive_RC: Tensor, *, context: TableContext | None = None) -> DenseTable:
        """The scores of every item, with a mask of the positives."""
        row_P, column_P = positive_RC.nonzero(as_tuple=True)
        return cls(score_RC[row_P, column_P], row_P, score_RC, positive_RC=positive_RC, context=context)

    @classmethod
    def from_labels(
        cls,
        score_BL: Tensor,
        label_BL: Tensor,
        *,
        mask_BL: Tensor | None = None,
        weight_BL: Tensor | None = None,
        pair_BL: Tensor | None = None,
        context: TableContext | None = None,
    ) -> DenseTable:
        """Lists of L items with graded labels: those above 0 are positives, those below 0 or masked are padding.

        >>> table = DenseTable.from_labels(torch.tensor([[0.3, 0.2, 0.1]]), torch.tensor([[2, 0, -1]]))
        >>> table.positives(), table.context.grade_P, table.n_negatives_R
        (tensor([0.3000]), tensor([2]), tensor([1.]))
        """
        present_BL = label_BL >= 0 if mask_BL is None else mask_BL & (label_BL >= 0)
        positive_BL = present_BL & (label_BL > 0)
        row_P, column_P = positive_BL.nonzero(as_tuple=True)
        known = replace(
            context or TableContext(),
            grade_P=label_BL[row_P, column_P],
            weight_P=None if weight_BL is None else weight_BL[row_P, column_P],
            pair_P=None if pair_BL is None else pair_BL[row_P, column_P],
        )
        return cls(
            score_BL[row_P, column_P],
            row_P,
            score_BL,
            positive_RC=positive_BL,
            present_RC=present_BL,
            context=known,
        )

    def positives(self) -> Tensor:
        """The scores of the positives, as given."""
        return self.pos_P

    def _negatives(self) -> Tensor:
        """The candidates' scores, −∞ at everything but negatives: every kernel and exponential is 0 there."""
        return self.cand_RC if self._excluded_RC is None else self.cand_RC.masked_fill(self._excluded_RC, -torch.inf)

    def _weighted(self, value_NC: Tensor, row_N: Tensor | None = None) -> Tensor:
        """Values of candidates, of all rows or of the given ones, times their sampling weights."""
        if self.log_weight is None:
            return value_NC
        weight = self.log_weight.exp()
        return value_NC * (weight if row_N is None or weight.ndim == 1 else weight.index_select(0, row_N))

    def logsumexp(self, tau: float, over: Over = "all") -> Tensor:
        """By ``torch.logsumexp``; the positives join through ``logaddexp``."""
        scaled_RC = self._negatives() / tau
        if self.log_weight is not None:
            scaled_RC = scaled_RC + self.log_weight
        negatives_R = torch.logsumexp(scaled_RC, 1)
        if over == "negatives":
            return negatives_R
        return torch.logaddexp(negatives_R, logsumexp_of_positives(self.pos_P / tau, self.row_P, self.n_rows))

    def tilted_logsumexp(self, tau: float, left_RE: Tensor, right: Tensor) -> Tensor:
        """A matrix of inner products on top of the scores."""
        tilt_RC = left_RE @ right.T if right.ndim == 2 else torch.bmm(right, left_RE.unsqueeze(2)).squeeze(2)
        if math.isfinite(tau):
            tilt_RC = self.cand_RC / tau + tilt_RC
        tilted = DenseTable(
            self.pos_P,
            self.row_P,
            tilt_RC,
            present_RC=None if self._excluded_RC is None else ~self._excluded_RC,
            log_weight=self.log_weight,
        )
        return tilted.logsumexp(1.0, "negatives")

    def row_sum(self, kernel: Kernel, offset_R: Tensor | None = None) -> Tensor:
        """The kernel of every candidate, weighted and summed."""
        score_RC = self._negatives() if offset_R is None else self._negatives() - offset_R.detach().unsqueeze(1)
        return self._weighted(kernel.value(score_RC)).sum(1)

    def _differences(self) -> Tensor:
        """The differences of candidates and positives, P × C."""
        return self._negatives().index_select(0, self.row_P) - self.pos_P.unsqueeze(1)

    def pair_sum(self, kernel: Kernel, weight: RankWeight | None = None, count_R: Tensor | None = None) -> Tensor:
        """The kernel of every difference, weighted and summed: P × C numbers."""
        value_PC = self._weighted(kernel.value(self._differences()), self.row_P)
        if weight is not None:
            rank_RC, rank_P = ranks(self._negatives().detach(), self.pos_P.detach(), self.row_P, count_R)
            value_PC = value_PC * weight(rank_P.unsqueeze(1), rank_RC.index_select(0, self.row_P))
        return value_PC.sum(1)

    def pair_logsumexp(self, log_kernel: Kernel) -> Tensor:
        """By ``torch.logsumexp`` of P × C numbers."""
        log_PC = log_kernel.value(self._differences())
        if self.log_weight is not None:
            weight = self.log_weight
            log_PC = log_PC + (weight if weight.ndim == 1 else weight.index_select(0, self.row_P))
        nothing_P = (log_PC == -torch.inf).all(1)  # torch's gradient would be NaN there
        sum_P = torch.logsumexp(log_PC.masked_fill(nothing_P.unsqueeze(1), 0), 1)
        return sum_P.masked_fill(nothing_P, -torch.inf)

    @torch.no_grad()
    def ranks(self) -> Tensor:
        """Counted against the negatives and the row's positives."""
        above_PC = self._negatives().index_select(0, self.row_P) >= self.pos_P.unsqueeze(1)
        return above_PC.sum(1) + ranks_among_positives(self.pos_P, self.row_P)

    def hardest(self, count_R: Tensor) -> DenseTable:
        """Selected by ``torch.topk``."""
        negative_RC = self._negatives()
        score_RK, column_RK = negative_RC.topk(n_hardest(count_R, negative_RC.shape[1], self.log_weight), 1)
        return against_hardest(self, score_RK, column_RK, self.log_weight, count_R)

    @torch.no_grad()
    def kth_largest(self, k: int) -> Tensor:
        """Selected from negatives and positives side by side."""
        return kth_largest(self._negatives(), self.pos_P, self.row_P, k)

    @torch.no_grad()
    def best_negatives(self, count: int) -> Tensor:
        """Selected from the negatives."""
        return best_columns(self._negatives(), count)

    @torch.no_grad()
    def scores_at(self, column_RM: Tensor) -> Tensor:
        """Gathered from the matrix."""
        return gathered(self.cand_RC, column_RM)

    def log_weights(self) -> Tensor | None:
        """As given."""
        return self.log_weight

    def matrix(self) -> Tensor:
        """The scores of the candidates, as given."""
        return self.cand_RC

    def is_negative(self) -> Tensor:
        """All candidates but positives and padding."""
        return torch.ones_like(self.cand_RC, dtype=torch.bool) if self._excluded_RC is None else ~self._excluded_RC

    @torch.no_grad()
    def restricted(self, column_N: Tensor) -> DenseTable:
        """Some columns of the matrix."""
        log_weight = self.log_weight
        return DenseTable(
            self.pos_P.detach(),
            self.row_P,
            self.cand_RC.detach().index_select(1, column_N),
            present_RC=None if self._excluded_RC is None else ~self._excluded_RC.index_select(1, column_N),
            log_weight=None if log_weight is None else log_weight.index_select(-1, column_N),
            context=self.context,
        )


def n_hardest(count_R: Tensor, n_candidates: int, log_weight: Tensor | None) -> int:
    """The largest number of candidates that any row needs to represent ``count_R`` items."""
    if not len(count_R) or not n_candidates:
        return 0
    most = float(count_R.max())
    if log_weight is not None:
        # −∞ marks draws for a user who has interacted with every item: they represent no items and are not negatives
        lightest = float(torch.where(log_weight == -torch.inf, torch.inf, log_weight).min().exp())
        most = min(most / lightest, n_candidates) if lightest > 0 else n_candidates
    return min(n_candidates, math.ceil(most))


def against_hardest(
    table: ScoreTable, score_RK: Tensor, column_RK: Tensor, log_weight: Tensor | None, count_R: Tensor
) -> DenseTable:
    """The rows and positives of a table with its highest negatives only, up to the given count."""
    weight_RK = torch.ones_like(score_RK)
    if log_weight is not None:
        weight_RK = log_weight.exp().expand(len(score_RK), -1).gather(1, column_RK)
    weight_RK = weight_RK.masked_fill(score_RK == -torch.inf, 0)
    before_RK = weight_RK.cumsum(1) - weight_RK
    weight_RK = torch.minimum(weight_RK, (count_R.unsqueeze(1) - before_RK).clamp(min=0)).detach()
    item_C = table.context.item_C
    return DenseTable(
        table.positives(),
        table.row_P,
        score_RK,
        log_weight=weight_RK.log(),
        n_represented_R=weight_RK.sum(1),
        context=replace(
            table.context,
            item_C=None if item_C is None else item_C.expand(len(score_RK), -1).gather(1, column_RK),
        ),
    )
