"""Random score tables in several forms, and a naive oracle that answers their questions with loops."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from shortlist.scores import DenseTable, FactoredTable, ScoreTable, Workspace

Table = TypeVar("Table", bound=ScoreTable)


@dataclass
class Case:
    """Vectors, positives and sampling weights from which every form of the same table is made."""

    row_RD: Tensor
    item_CD: Tensor
    row_P: Tensor
    column_P: Tensor
    bias_C: Tensor | None = None
    log_weight_C: Tensor | None = None
    max_elements: int = 1 << 20

    def vectors(self) -> list[Tensor]:
        """The tensors that gradients flow to."""
        return [t for t in (self.row_RD, self.item_CD, self.bias_C) if t is not None]

    def scores(self) -> Tensor:
        score_RC = self.row_RD @ self.item_CD.T
        return score_RC if self.bias_C is None else score_RC + self.bias_C

    def positive_mask(self) -> Tensor:
        """Which candidates are positives of each row, R × C."""
        positive_RC = torch.zeros(len(self.row_RD), len(self.item_CD), dtype=torch.bool)
        positive_RC[self.row_P, self.column_P] = True
        return positive_RC

    def dense(self) -> DenseTable:
        score_RC = self.scores()
        return DenseTable(
            score_RC[self.row_P, self.column_P],
            self.row_P,
            score_RC,
            positive_RC=self.positive_mask(),
            log_weight=self.log_weight_C,
        )

    def factored(self, bound: float | None = None) -> FactoredTable:
        return FactoredTable(
            self.row_RD,
            self.item_CD,
            row_P=self.row_P,
            column_P=self.column_P,
            bias_C=self.bias_C,
            log_weight_C=self.log_weight_C,
            bound=bound,
            workspace=Workspace(self.max_elements),
        )

    def factored_apart(self) -> FactoredTable:
        """The same table with positives given by vectors of their own, some of which are no candidates."""
        bias_P = None if self.bias_C is None else self.bias_C[self.column_P]
        return FactoredTable(
            self.row_RD,
            self.item_CD,
            row_P=self.row_P,
            column_P=self.column_P,
            positive_PD=self.item_CD[self.column_P],
            positive_bias_P=bias_P,
            bias_C=self.bias_C,
            log_weight_C=self.log_weight_C,
            workspace=Workspace(self.max_elements),
        )


def with_context(table: Table, **fields: Any) -> Table:
    """The same table with other values in some fields of its context."""
    changed = copy.copy(table)
    changed.context = replace(table.context, **fields)
    return changed


def random_case(
    seed: int,
    rows: int = 5,
    items: int = 9,
    dim: int = 3,
    *,
    bias: bool = False,
    weights: bool = False,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float64,
    max_elements: int = 1 << 20,
) -> Case:
    """A case whose rows have 0, 1, all but one, and random numbers of positives."""
    g = torch.Generator().manual_seed(seed)
    positive_RC = torch.rand(rows, items, generator=g) < 0.3
    positive_RC[0] = False
    if rows > 1:
        positive_RC[1] = False
        positive_RC[1, int(torch.randint(items, (1,), generator=g))] = True
    if rows > 2:
        positive_RC[2] = True
        positive_RC[2, int(torch.randint(items, (1,), generator=g))] = False
    row_P, column_P = positive_RC.nonzero(as_tuple=True)
    shuffle = torch.randperm(len(row_P), generator=g)

    def normal(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=g, dtype=torch.float64) * scale).to(dtype).requires_grad_()

    return Case(
        normal(rows, dim),
        normal(items, dim),
        row_P[shuffle],
        column_P[shuffle],
        normal(items) if bias else None,
        torch.randn(items, generator=g, dtype=torch.float64).to(dtype) if weights else None,
        max_elements,
    )


class Oracle:
    """Answers by loops over Python floats."""

    def __init__(self, case: Case) -> None:
        self.score = case.scores().tolist()
        self.items = range(len(case.item_CD))
        self.pairs = list(zip(case.row_P.tolist(), case.column_P.tolist(), strict=True))
        self.positives_of = [{c for row, c in self.pairs if row == r} for r in range(len(case.row_RD))]
        log_weights = [0.0] * len(case.item_CD) if case.log_weight_C is None else case.log_weight_C.tolist()
        self.weight = [math.exp(w) for w in log_weights]

    def negatives(self, row: int) -> list[int]:
        return [j for j in self.items if j not in self.positives_of[row]]

    def logsumexp(self, tau: float, over: str) -> list[float]:
        answer = []
        for row in range(len(self.score)):
            total = sum(self.weight[j] * math.exp(self.score[row][j] / tau) for j in self.negatives(row))
            if over == "all":
                total += sum(math.exp(self.score[row][j] / tau) for j in self.positives_of[row])
            answer.append(math.log(total) if total else -math.inf)
        return answer

    def row_sum(self, phi: Callable[[float], float], offsets: list[float] | None = None) -> list[float]:
        return [
            sum(self.weight[j] * phi(self.score[r][j] - (offsets[r] if offsets else 0.0)) for j in self.negatives(r))
            for r in range(len(self.score))
        ]

    def pair_sum(
        self,
        phi: Callable[[float], float],
        weight: Callable[[float, float], float] = lambda i, j: 1.0,
        counts: list[float] | list[list[float]] | None = None,
        own: float = 1.0,
    ) -> list[float]:
        """``weight`` of the ranks of both, where negatives of row r count for ``counts[r]``, a positive for ``own``.

        With a list of counts for a row, item j counts for ``counts[r][j]`` where it is a negative.
        """

        def count(row: int, item: int) -> float:
            if item in self.positives_of[row]:
                return own
            of_row = 1.0 if counts is None else counts[row]
            return of_row[item] if isinstance(of_row, list) else of_row

        @cache
        def rank(row: int, item: int) -> float:
            above = [j for j in self.items if self.score[row][j] >= self.score[row][item]]
            return sum(count(row, j) for j in above)

        return [
            sum(
                self.weight[j] * weight(rank(r, i), rank(r, j)) * phi(self.score[r][j] - self.score[r][i])
                for j in self.negatives(r)
            )
            for r, i in self.pairs
        ]

    def positive_pair_sum(
        self, phi: Callable[[float], float], weight: Callable[[int, int], float] = lambda p, q: 1.0
    ) -> list[float]:
        """``weight`` of the places of both among all positives."""
        return [
            sum(
                weight(p, q) * phi(self.score[r][j] - self.score[r][i])
                for q, (row, j) in enumerate(self.pairs)
                if row == r and p != q
            )
            for p, (r, i) in enumerate(self.pairs)
        ]

    def pair_logsumexp(self, log_phi: Callable[[float], float]) -> list[float]:
        sums = self.pair_sum(lambda x: math.exp(log_phi(x)))
        return [math.log(total) if total else -math.inf for total in sums]

    def ranks(self) -> list[int]:
        return [sum(self.score[r][j] >= self.score[r][i] for j in self.items) for r, i in self.pairs]

    def best_negatives(self, count: int) -> list[list[int]]:
        rows = range(len(self.score))
        return [sorted(sorted(self.negatives(r), key=lambda j: -self.score[r][j])[:count]) for r in rows]

    def scores_at(self, columns: list[list[int]]) -> list[list[float]]:
        rows = zip(self.score, columns, strict=True)
        return [[score[j] if j >= 0 else -math.inf for j in row] for score, row in rows]

    def kth_largest(self, k: int) -> list[float]:
        return [sorted(row, reverse=True)[min(k, len(row)) - 1] for row in self.score]
