"""The model's encoding of a batch, and the score table computed from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from shortlist.errors import ShortlistError
from shortlist.negatives import RowLists, RowSample, Sample
from shortlist.scores.batch import Batch
from shortlist.scores.context import TableContext
from shortlist.scores.dense import DenseTable
from shortlist.scores.factored import FactoredTable, Workspace
from shortlist.scores.similarity import Similarity, item_vectors, look_up, row_vectors, similarity_bound
from shortlist.scores.table import ScoreTable


class Encoding(ABC):
    """The rows of a batch as a model encodes them; ``terms`` are added to the loss of the step, by name."""

    terms: Mapping[str, Tensor]

    @abstractmethod
    def table(
        self, batch: Batch, workspace: Workspace | None = None, generator: torch.Generator | None = None
    ) -> ScoreTable:
        """The scores of the batch."""


@dataclass(frozen=True, eq=False)
class VectorEncoding(Encoding):
    """A vector of each row and each item of the catalogue; scores are their similarities, plus an optional item bias.

    >>> encoding = VectorEncoding(torch.eye(2), torch.eye(2))
    >>> batch = Batch(None, 2, row_P=torch.tensor([0, 1]), item_P=torch.tensor([0, 1]))
    >>> encoding.table(batch).positives()
    tensor([1., 1.])
    """

    row_RD: Tensor
    item_ID: Tensor
    similarity: Similarity = "dot"
    bias_I: Tensor | None = None
    terms: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def bound(self) -> float | None:
        """The largest absolute value that a score can have; None if it is unbounded."""
        return None if self.bias_I is not None else similarity_bound(self.similarity)

    def table(
        self, batch: Batch, workspace: Workspace | None = None, generator: torch.Generator | None = None
    ) -> ScoreTable:
        """Products with the full catalogue or a shared sample in blocks; scores of drawn items one by one."""
        context = batch.context(len(self.item_ID), generator)
        row_RD = row_vectors(self.row_RD, self.similarity)
        if isinstance(batch.candidates, RowSample):
            return drawn_table(batch, self._drawn_scores(batch, batch.candidates, row_RD), context)
        if isinstance(batch.candidates, Sample):
            return self._shared_table(batch, batch.candidates, row_RD, context, workspace)
        if batch.candidates is not None:
            raise ShortlistError("encode: expected a model that scores each row's own list, received one of vectors")
        return FactoredTable(
            row_RD,
            item_vectors(self.item_ID, self.similarity),
            row_P=batch.row_P,
            column_P=batch.item_P,
            bias_C=self.bias_I,
            bound=self.bound,
            workspace=workspace,
            context=context,
        )

    def _shared_table(
        self, batch: Batch, sample: Sample, row_RD: Tensor, context: TableContext, workspace: Workspace | None
    ) -> FactoredTable:
        """Rows with a shared sample. The sample is sorted, so that a binary search finds the positives in it."""
        item_C = sample.item_C
        place_P = torch.searchsorted(item_C, batch.item_P).clamp_(max=len(item_C) - 1)
        column_P = torch.where(item_C[place_P] == batch.item_P, place_P, -1)
        n_represented_R = None
        if sample.log_weight_C is not None:  # weights make the sample represent the full catalogue
            count_R = torch.bincount(batch.row_P, minlength=len(row_RD))
            n_represented_R = (len(self.item_ID) - count_R).to(row_RD.dtype)
        bias_I = self.bias_I
        return FactoredTable(
            row_RD,
            item_vectors(look_up(self.item_ID, item_C), self.similarity),
            row_P=batch.row_P,
            column_P=column_P,
            positive_PD=item_vectors(look_up(self.item_ID, batch.item_P), self.similarity),
            bias_C=None if bias_I is None else bias_I.index_select(0, item_C),
            positive_bias_P=None if bias_I is None else bias_I.index_select(0, batch.item_P),
            log_weight_C=sample.log_weight_C,
            n_represented_R=n_represented_R,
            bound=self.bound,
            workspace=workspace,
            context=context,
        )

    def _drawn_scores(self, batch: Batch, sample: RowSample, row_RD: Tensor) -> Tensor:
        """The scores of each row's positive, which comes first, and of the items drawn for it."""
        item_RM = positive_and_drawn(batch, sample)
        if item_RM.numel() < len(self.item_ID):
            item_ND = item_vectors(look_up(self.item_ID, item_RM.flatten()), self.similarity)
        else:  # normalising every item once is cheaper than normalising each draw
            item_ND = F.embedding(item_RM.flatten(), item_vectors(self.item_ID, self.similarity))
        score_RM = torch.bmm(item_ND.view(*item_RM.shape, -1), row_RD.unsqueeze(2)).squeeze(2)
        return score_RM if self.bias_I is None else score_RM + self.bias_I[item_RM]


@dataclass(frozen=True, eq=False)
class ScoreEncoding(Encoding):
    """Scores of the rows' candidates, for models that score a row and an item together.

    The scores are those of the full catalogue [R, I]; of the row's own list [R, C]; or, where items are drawn for each
    row, of the positive and the drawn items, in this order [R, 1 + N].
    """

    score_RC: Tensor
    n_items: int | None = None
    terms: Mapping[str, Tensor] = field(default_factory=dict)

    def table(
        self, batch: Batch, workspace: Workspace | None = None, generator: torch.Generator | None = None
    ) -> ScoreTable:
        """A table of the given scores."""
        context = batch.context(self.n_items, generator)
        if isinstance(batch.candidates, RowSample):
            return drawn_table(batch, self.score_RC, context)
        if isinstance(batch.candidates, Sample):
            raise ShortlistError("encode: expected a model of vectors for a shared sample, received one of scores")
        positive_RC = torch.zeros_like(self.score_RC, dtype=torch.bool)
        positive_RC[batch.row_P, batch.item_P] = True
        return DenseTable(
            self.score_RC[batch.row_P, batch.item_P],
            batch.row_P,
            self.score_RC,
            positive_RC=positive_RC,
            present_RC=batch.candidates.present_RC if isinstance(batch.candidates, RowLists) else None,
            context=context,
        )


def positive_and_drawn(batch: Batch, sample: RowSample) -> Tensor:
    """The items of each row: its positive, then those drawn for it."""
    return torch.cat([batch.item_P.unsqueeze(1), sample.item_RN], 1)


def drawn_table(batch: Batch, score_RM: Tensor, context: TableContext) -> DenseTable:
    """The table of positives, which come first, and of the items drawn for them."""
    assert isinstance(batch.candidates, RowSample)
    weight_RN = batch.candidates.log_weight_RN
    return DenseTable(
        score_RM[:, 0],
        batch.row_P,
        score_RM[:, 1:],
        present_RC=None if weight_RN is None else weight_RN != -torch.inf,  # drawn for rows without negatives
        log_weight=weight_RN,
        n_represented_R=None if weight_RN is None else batch.candidates.n_negatives_R,
        context=context,
    )
