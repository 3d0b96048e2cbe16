"""The score table: the interface through which a loss reads scores.

Legend of the shape suffixes: R rows (users, queries, positions), P positives of all rows, C candidates, D dimensions.

A row has *positives* and *negatives*. The negatives are the row's candidates without the positives of the row.
A loss is independent of how the table is computed: from a given tensor
(:class:`~shortlist.scores.dense.DenseTable`) or from vectors, in blocks of matrix products
(:class:`~shortlist.scores.factored.FactoredTable`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Self

import torch
from torch import Tensor

from shortlist.scores.context import TableContext
from shortlist.scores.kernels import Kernel

Over = Literal["all", "negatives"]

RankWeight = Callable[[Tensor, Tensor], Tensor]
"""Weights of pairs [M, C] from the ranks of their positives [M, 1] and of their candidates [M, C]."""


class ScoreTable(ABC):
    """The scores of R rows: of their P positives and of their candidates.

    ``row_P`` is the row of each positive, ``n_negatives_R`` the number of each row's negatives. ``n_represented_R`` is
    the number of items that these represent: the number of negatives itself or, for a weighted sample, the size of the
    catalogue minus the number of positives. ``context`` holds what is known besides the scores.
    """

    row_P: Tensor
    n_negatives_R: Tensor
    n_represented_R: Tensor
    is_full_catalogue: bool
    """Whether every positive is among the candidates, as it is where these are the full catalogue."""
    context: TableContext

    def with_threshold(self, threshold_R: Tensor | None) -> Self:
        """The same table with the Top-K threshold of each row."""
        table = copy.copy(self)
        table.context = replace(self.context, threshold_R=threshold_R)
        return table

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.n_represented_R)

    @property
    def n_positives(self) -> int:
        """Number of positives of all rows."""
        return len(self.row_P)

    @abstractmethod
    def positives(self) -> Tensor:
        """The score of each positive: s_P."""

    @abstractmethod
    def logsumexp(self, tau: float, over: Over = "all") -> Tensor:
        """``ln Σ_j ω_j·exp(s_rj/τ)`` of each row, over all its items or its negatives; ω are sampling weights."""

    @abstractmethod
    def tilted_logsumexp(self, tau: float, left_RE: Tensor, right: Tensor) -> Tensor:
        """``ln Σ_j ω_j·exp(s_rj/τ + a_r·b_j)`` of each row, over its negatives; of a·b alone where τ is infinite.

        The vectors a (R × E) belong to rows; b to candidates, C × E, or R × C × E where each row has its own.
        """

    @abstractmethod
    def row_sum(self, kernel: Kernel, offset_R: Tensor | None = None) -> Tensor:
        """``Σ_j ω_j·φ(s_rj − θ_r)`` of each row, over its negatives; offsets θ are constant, 0 if not given."""

    @abstractmethod
    def pair_sum(self, kernel: Kernel, weight: RankWeight | None = None, count_R: Tensor | None = None) -> Tensor:
        """``Σ_j ω_j·Δ_pj·φ(s_rj − s_p)`` of each positive, over the negatives of its row.

        The weights Δ are functions of the ranks of both, as defined by :meth:`ranks`, and are constant; 1 if not given.
        ``count_R`` is the number of items that each negative of a row counts as in these ranks; 1 if not given. With
        several columns the last is for positives and the others are for negatives, one for all or one for each.
        """

    @abstractmethod
    def pair_logsumexp(self, log_kernel: Kernel) -> Tensor:
        """``ln Σ_j ω_j·exp(g(s_rj − s_p))`` of each positive, over the negatives of its row.

        A log-kernel g has the value −∞ at −∞, and any finite slope there: the term contributes 0 to the sum.
        """

    @abstractmethod
    def ranks(self) -> Tensor:
        """``#{j : s_rj ≥ s_p}`` of each positive over its row's positives and negatives, itself counted; detached."""

    @abstractmethod
    def hardest(self, count_R: Tensor) -> ScoreTable:
        """The same rows and positives with the highest negatives of each row only, with gradients.

        As many negatives are taken as represent ``count_R`` items, or all where there are fewer; the last may count in
        part.
        """

    @abstractmethod
    def kth_largest(self, k: int) -> Tensor:
        """The k-th largest score among each row's positives and negatives (the lowest if there are fewer); detached."""

    @abstractmethod
    def best_negatives(self, count: int) -> Tensor:
        """Columns of each row's ``count`` highest negatives, in no order; −1 where it has fewer; detached."""

    @abstractmethod
    def scores_at(self, column_RM: Tensor) -> Tensor:
        """The scores of some candidates of each row, −∞ at column −1; detached."""

    @abstractmethod
    def log_weights(self) -> Tensor | None:
        """``ln ω`` of the candidates, of shape C or R × C; None where all weights are 1."""

    @abstractmethod
    def matrix(self) -> Tensor:
        """The scores of the candidates, R × C."""

    @abstractmethod
    def is_negative(self) -> Tensor:
        """Which of the candidates are negatives of their row, R × C: neither its positives nor padding."""

    @abstractmethod
    def restricted(self, column_N: Tensor) -> ScoreTable:
        """The same rows and positives with a subset of the candidates; detached."""

    def per_positive(self, value_R: Tensor) -> Tensor:
        """A value of the row, repeated for each of its positives."""
        return value_R.index_select(0, self.row_P)

    def catalogue_R(self) -> Tensor:
        """The number of items that a row ranks: the catalogue, or its own positives and negatives."""
        if self.context.n_items is not None:
            return torch.full_like(self.n_represented_R, float(self.context.n_items))
        return self.n_represented_R + torch.bincount(self.row_P, minlength=self.n_rows)

    def catalogue_negatives_R(self) -> Tensor:
        """How many negatives each row has in the catalogue, of which those of the table may be a sample."""
        if self.context.n_negatives_R is not None:
            return self.context.n_negatives_R
        return (self.catalogue_R() - torch.bincount(self.row_P, minlength=self.n_rows)).clamp_(min=0)

    def sampling_scale_R(self) -> Tensor:
        """The factor that scales a sum over a row's negatives to the catalogue: 1 where weights do so already."""
        return self.catalogue_negatives_R() / self.n_represented_R.clamp(min=1)

    def row_total(self, value_P: Tensor) -> Tensor:
        """The sum over each row's positives."""
        return value_P.new_zeros(self.n_rows).index_add(0, self.row_P, value_P)


def logsumexp_of_positives(pos_P: Tensor, row_P: Tensor, n_rows: int) -> Tensor:
    """``ln Σ_{p ∈ r} exp(x_p)`` of each row; −∞ where a row has no positive."""
    top_R = pos_P.new_full((n_rows,), -torch.inf).scatter_reduce(0, row_P, pos_P.detach(), "amax")
    shift_R = torch.where(top_R.isfinite(), top_R, torch.zeros_like(top_R))
    sum_R = pos_P.new_zeros(n_rows).index_add(0, row_P, (pos_P - shift_R.index_select(0, row_P)).exp())
    return sum_R.log() + shift_R


def ranks_among_positives(pos_P: Tensor, row_P: Tensor) -> Tensor:
    """How many positives of its row score at least as high as each positive, itself counted.

    >>> ranks_among_positives(torch.tensor([1.0, 2.0, 2.0, 0.0]), torch.tensor([0, 0, 0, 1]))
    tensor([3, 2, 2, 1])
    """
    by_score = torch.argsort(pos_P, descending=True, stable=True)
    order_P = by_score[torch.argsort(row_P[by_score], stable=True)]
    row_S, pos_S = row_P[order_P], pos_P[order_P]
    last_of_tie_S = torch.ones_like(row_S, dtype=torch.bool)
    last_of_tie_S[:-1] = (row_S[1:] != row_S[:-1]) | (pos_S[1:] != pos_S[:-1])
    tie_end_S = last_of_tie_S.nonzero().squeeze(1)
    end_S = tie_end_S[torch.searchsorted(tie_end_S, torch.arange(len(row_S), device=row_P.device))]
    start_S = torch.searchsorted(row_S, row_S)
    return torch.empty_like(row_P).scatter_(0, order_P, end_S - start_S + 1)
