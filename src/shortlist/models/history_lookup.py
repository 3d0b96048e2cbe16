"""Users who arrive after training: what a model makes of their histories, and what is left to be learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.data import IntArray
from shortlist.errors import InputError
from shortlist.scores import Similarity, row_vectors
from shortlist.scores.similarity import with_length


@dataclass(frozen=True, eq=False)
class FoldInUsers:
    """N users whose vectors are ``x = f + g·e``, brought to the length that the similarity asks for.

    f is what the model makes of a history, g the weight of a vector e of the user's own. Where g is 0 nothing is left
    to be learned. ``length`` is that of e, on average, for the users who were there in training.
    """

    fixed_ND: Tensor
    own: float
    length: float
    similarity: Similarity

    def vectors(self, direction_ND: Tensor | None = None) -> Tensor:
        """The users' vectors, of which a product with an item's is the score; e has the given directions.

        >>> FoldInUsers(torch.tensor([[3.0, 0.0]]), 0.5, 8.0, "dot").vectors(torch.tensor([[0.0, 2.0]]))
        tensor([[3., 4.]])
        """
        if direction_ND is None:
            return row_vectors(self.fixed_ND, self.similarity)
        return row_vectors(self.fixed_ND + self.own * with_length(direction_ND, self.length), self.similarity)


def rows_of(histories: Sequence[IntArray], n_items: int) -> tuple[Tensor, Tensor]:
    """The row and the item of everything in the histories, each item once and in order."""
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
    """The mean of the item vectors of each row; 0 for a row without items."""
    total_RD = item_ID.new_zeros(n_rows, item_ID.shape[1]).index_add_(0, row_P, item_ID.index_select(0, item_P))
    return total_RD / torch.bincount(row_P, minlength=n_rows).clamp_(min=1).unsqueeze(1)


def mean_length(vector_ND: Tensor) -> float:
    """The mean of the lengths of vectors, but for those of users who have met nothing: they are 0.

    >>> mean_length(torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 1.0]]))
    3.0
    """
    length_N = vector_ND.detach().norm(dim=1)
    return float(length_N.sum() / length_N.count_nonzero().clamp(min=1))
