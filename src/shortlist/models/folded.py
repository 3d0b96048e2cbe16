"""Users who were not in training: the model's encoding of their histories, and embeddings that must be learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from shortlist.data import IntArray
from shortlist.errors import InputError
from shortlist.scores import Similarity, row_vectors
from shortlist.scores.similarity import with_length


class FoldedQueries(Protocol):
    """Queries made from histories."""

    @property
    def learned(self) -> FoldInUsers | None:
        """The users whose free embeddings must be learned; None if the queries are complete."""

    def queries(self) -> Any:
        """The input of :meth:`shortlist.models.Model.score`, if the queries are complete."""


@dataclass(frozen=True, eq=False)
class FoldInUsers:
    """N users with the embeddings ``x = f + g·e``, scaled to the length that the similarity requires.

    f is the model's encoding of a history, and g the weight of a free user embedding e. ``length`` is the mean length
    of e over the training users.
    """

    fixed_ND: Tensor
    own: float
    length: float
    similarity: Similarity

    @property
    def learned(self) -> FoldInUsers | None:
        """These users, where g is not 0."""
        return self if self.own else None

    def part(self, rows: slice) -> FoldInUsers:
        """Some of the users."""
        return replace(self, fixed_ND=self.fixed_ND[rows])

    def queries(self) -> Tensor:
        """The embeddings, for models without free user embeddings."""
        return self.vectors()

    def vectors(self, direction_ND: Tensor | None = None) -> Tensor:
        """The users' embeddings, whose inner products with items are the scores; e has the given directions.

        >>> FoldInUsers(torch.tensor([[3.0, 0.0]]), 0.5, 8.0, "dot").vectors(torch.tensor([[0.0, 2.0]]))
        tensor([[3., 4.]])
        """
        if direction_ND is None:
            return row_vectors(self.fixed_ND, self.similarity)
        return row_vectors(self.fixed_ND + self.own * with_length(direction_ND, self.length), self.similarity)


def rows_of(histories: Sequence[IntArray], n_items: int) -> tuple[Tensor, Tensor]:
    """The row and the item of each entry of the histories, unique and sorted within rows."""
    rows = [np.unique(np.asarray(history, np.int64)) for history in histories]
    for history in rows:
        if not len(history) or history[0] < 0 or history[-1] >= n_items:
            received = f"items {history[0]} to {history[-1]}" if len(history) else "an empty one"
            raise InputError(f"fold_in: expected histories of items below {n_items}, received {received}")
    counts = [len(history) for history in rows]
    return (
        torch.from_numpy(np.repeat(np.arange(len(rows)), counts)),
        torch.from_numpy(np.concatenate([*rows, np.empty(0, np.int64)])),
    )


def mean_vectors(item_ID: Tensor, row_P: Tensor, item_P: Tensor, n_rows: int) -> Tensor:
    """The mean of the item embeddings of each row, on their device; 0 for a row without items."""
    row_P, item_P = row_P.to(item_ID.device), item_P.to(item_ID.device)
    total_RD = item_ID.new_zeros(n_rows, item_ID.shape[1]).index_add_(0, row_P, item_ID.index_select(0, item_P))
    return total_RD / torch.bincount(row_P, minlength=n_rows).clamp_(min=1).unsqueeze(1)


def mean_length(vector_ND: Tensor) -> float:
    """The mean of the lengths of embeddings, without those of users without interactions, which are 0.

    >>> mean_length(torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 1.0]]))
    3.0
    """
    length_N = vector_ND.detach().norm(dim=1)
    return float(length_N.sum() / length_N.count_nonzero().clamp(min=1))
