"""The items of each user's history: the state of models that score from histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import IntArray, Interactions
from shortlist.models.folded import rows_of
from shortlist.models.state import get_csr


@dataclass(frozen=True, eq=False)
class History:
    """The pairs of the training set in CSR form, without ids.

    >>> train =  Interactions.from_pairs([0, 0, 1], [2, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> items_P, start_R = History.of(train)[np.array([1, 0])].bags()
    >>> items_P.tolist(), start_R.tolist()
    ([1, 0, 2], [0, 1])
    """

    indptr: IntArray
    indices: IntArray

    learned: ClassVar[None] = None
    """Histories are complete queries: nothing must be learned."""

    @classmethod
    def from_lists(cls, histories: Sequence[IntArray], n_items: int) -> History:
        """Histories of users who were not in training, each item once."""
        row_P, item_P = rows_of(histories, n_items)
        counts_R = np.bincount(row_P.numpy(), minlength=len(histories))
        return cls(np.concatenate([[0], np.cumsum(counts_R)]), item_P.numpy())

    @classmethod
    def of(cls, train: Interactions) -> History:
        """The histories of the interactions."""
        return cls(train.indptr, train.indices)

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], n_items: int) -> History:
        """Load what :meth:`state` returned."""
        indptr, indices = get_csr(state, "history", n_items)
        return cls(indptr.numpy(), indices.numpy())

    def state(self) -> dict[str, Tensor]:
        """The two arrays by name."""
        return {"history.indptr": _tensor(self.indptr), "history.indices": _tensor(self.indices)}

    def __len__(self) -> int:
        """Number of users."""
        return len(self.indptr) - 1

    def __getitem__(self, rows: IntArray) -> History:
        """The histories of the given rows."""
        counts_R = self.indptr[rows + 1] - self.indptr[rows]
        end_R = np.cumsum(counts_R)
        items_P = self.indices[np.repeat(self.indptr[rows] - (end_R - counts_R), counts_R) + np.arange(counts_R.sum())]
        return History(np.concatenate([[0], end_R]).astype(items_P.dtype), items_P)

    def queries(self) -> History:
        """The histories, unchanged."""
        return self

    def of_queries(self, queries: IntArray | History) -> History:
        """The histories of queries, which are indices of training users, or already histories."""
        return queries if isinstance(queries, History) else self[queries]

    def bags(self) -> tuple[Tensor, Tensor]:
        """The concatenated items of all rows, and the offset of each row."""
        return torch.from_numpy(self.indices), torch.from_numpy(self.indptr[:-1])

    def matrix(self, n_items: int) -> sparse.csr_array:
        """A row of ones and zeros for each history."""
        return ones(self.indptr, self.indices, n_items)


def ones(indptr: IntArray, indices: IntArray, n_items: int) -> sparse.csr_array:
    """The binary matrix of a CSR structure, in single precision."""
    data = np.ones(len(indices), np.float32)
    return sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_items))


def _tensor(array: IntArray) -> Tensor:
    # Interactions are read-only arrays, which tensors do not support: copy.
    return torch.from_numpy(np.array(array))
