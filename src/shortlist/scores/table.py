"""The score table: everything that a loss may ask about scores.

Legend of the shape suffixes: R rows (users, queries, positions), P positives of all rows, C candidates, D dimensions.

A row has *positives* and *negatives*. The negatives are the row's candidates less those that are positives of the row.
A loss asks questions and never learns how they are answered: from a tensor at hand
(:class:`~shortlist.scores.dense.DenseTable`) or from vectors, in blocks of matrix products
(:class:`~shortlist.scores.factored.FactoredTable`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from shortlist.scores.kernels import Kernel

Over = Literal["all", "negatives"]

RankWeight = Callable[[Tensor, Tensor], Tensor]
"""Weights of pairs [M, C] from the ranks of their positives [M, 1] and of their candidates [M, C]."""


class ScoreTable(ABC):
    """Questions about R rows, their P positives and their candidates.

    ``row_P`` is the row of each positive, ``n_negatives_R`` the number of each row's negatives. ``n_represented_R``
    says how many items these stand for: their number, or the size of the catalogue less the positives when the
    candidates are a sample whose weights correct for it. ``threshold_R`` is the Top-K threshold of each row, present
    when a loss has said that it needs one.

    Losses that remember something from step to step are told who is before them: ``user_R`` the users of the rows,
    ``pair_P`` the number of each positive among all pairs of training, ``item_C`` the items that the candidates are
    (of shape C, or R × C where each row has its own). Where labels are graded, ``grade_P`` holds those of positives.
    ``n_items`` is the size of the catalogue, ``negatives_R`` how many of it are negatives of a row whose user has more
    positives than those of the row, and ``generator`` decides what is random in a loss. All may be missing.
    """

    row_P: Tensor
    n_negatives_R: Tensor
    n_represented_R: Tensor
    is_full_catalogue: bool
    """Whether every positive is among the candidates, as it is where these are the whole catalogue."""
    threshold_R: Tensor | None = None
    user_R: Tensor | None = None
    pair_P: Tensor | None = None
    item_C: Tensor | None = None
    grade_P: Tensor | None = None
    n_items: int | None = None
    negatives_R: Tensor | None = None
    generator: torch.Generator | None = None

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
        """``Σ_j ω_j·φ(s_rj − θ_r)`` of each row, over its negatives; offsets θ are held constant, 0 if not given."""

    @abstractmethod
    def pair_sum(self, kernel: Kernel, weight: RankWeight | None = None, count_R: Tensor | None = None) -> Tensor:
        """``Σ_j ω_j·Δ_pj·φ(s_rj − s_p)`` of each positive, over the negatives of its row.

        The weights Δ come from the ranks of both, as :meth:`ranks` counts them, and are held constant; 1 if not given.
        ``count_R`` says for how many items each negative of a row counts in these ranks, if not for one. With
        more columns the last is for positives; those before it are for negatives, one for all or one for each.
        """

    @abstractmethod
    def pair_logsumexp(self, log_kernel: Kernel) -> Tensor:
        """``ln Σ_j ω_j·exp(g(s_rj − s_p))`` of each positive, over the negatives of its row.

        Of a log-kernel g the value at −∞ is −∞, and the slope there any finite number: its share of the sum is 0.
        """

    @abstractmethod
    def ranks(self) -> Tensor:
        """``#{j : s_rj ≥ s_p}`` of each positive over its row's positives and negatives, itself counted; detached."""

    @abstractmethod
    def hardest(self, count_R: Tensor) -> ScoreTable:
        """The same rows and positives against the highest of each row's negatives, with gradients.

        They are as many as stand for ``count_R`` items, or all where there are fewer; the last may count in part.
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
        """``ln ω`` of the candidates, of shape C or R × C; none where each counts for one."""

    @abstractmethod
    def matrix(self) -> Tensor:
        """The scores of the candidates, R × C."""

    @abstractmethod
    def is_positive(self) -> Tensor:
        """Which of the candidates are positives of their row, R × C."""

    @abstractmethod
    def restricted(self, column_N: Tensor) -> ScoreTable:
        """The same rows and positives against some of the candidates only; detached."""

    def per_positive(self, value_R: Tensor) -> Tensor:
        """A value of the row, repeated for each of its positives."""
        return value_R.index_select(0, self.row_P)

    def catalogue_R(self) -> Tensor:
        """How many items there are to choose from in each row: the catalogue, or positives and negatives at hand."""
        if self.n_items is not None:
            return torch.full_like(self.n_represented_R, float(self.n_items))
        return self.n_represented_R + torch.bincount(self.row_P, minlength=self.n_rows)

    def catalogue_negatives_R(self) -> Tensor:
        """How many negatives each row has in the catalogue, of which those at hand may be a sample."""
        if self.negatives_R is not None:
            return self.negatives_R
        return (self.catalogue_R() - torch.bincount(self.row_P, minlength=self.n_rows)).clamp_(min=0)

    def sampling_scale_R(self) -> Tensor:
        """By how much a sum over a row's negatives falls short of the catalogue's: 1 where weights make up for it."""
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
    end_S = tie_end_S[torch.searchsorted(tie_end_S, torch.arange(len(row_S)))]
    start_S = torch.searchsorted(row_S, row_S)
    return torch.empty_like(row_P).scatter_(0, order_P, end_S - start_S + 1)
