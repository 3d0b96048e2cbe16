"""The items that each user met: what a model that scores from histories keeps in its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import IntArray, Interactions


@dataclass(frozen=True, eq=False)
class History:
    """The pairs of the training set in CSR form, without ids.

    >>> met = Interactions.from_pairs([0, 0, 1], [2, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> items_P, start_R = History.of(met).bags(np.array([1, 0]))
    >>> items_P.tolist(), start_R.tolist()
    ([1, 0, 2], [0, 1])
    """

    indptr: IntArray
    indices: IntArray

    @classmethod
    def of(cls, train: Interactions) -> History:
        """The history that the interactions tell."""
        return cls(train.indptr, train.indices)

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> History:
        """Take over what :meth:`state` gave."""
        return cls(state["history.indptr"].numpy(), state["history.indices"].numpy())

    def state(self) -> dict[str, Tensor]:
        """The two arrays by name."""
        return {"history.indptr": _tensor(self.indptr), "history.indices": _tensor(self.indices)}

    def bags(self, users: IntArray) -> tuple[Tensor, Tensor]:
        """The items of the given users one after another, and where each user's begin."""
        counts_R = self.indptr[users + 1] - self.indptr[users]
        start_R = np.cumsum(counts_R) - counts_R
        items_P = self.indices[np.repeat(self.indptr[users] - start_R, counts_R) + np.arange(counts_R.sum())]
        return torch.from_numpy(items_P), torch.from_numpy(start_R.astype(items_P.dtype))

    def matrix(self, users: IntArray, n_items: int) -> sparse.csr_array:
        """One row of ones and zeros for each of the given users."""
        items_P, start_R = self.bags(users)
        indptr = np.append(start_R.numpy(), len(items_P))
        return ones(indptr, items_P.numpy(), n_items)


def ones(indptr: IntArray, indices: IntArray, n_items: int) -> sparse.csr_array:
    """The binary matrix of a CSR structure, in single precision."""
    data = np.ones(len(indices), np.float32)
    return sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_items))


def _tensor(array: IntArray) -> Tensor:
    # Interactions are read-only and a tensor cannot be: it gets a copy.
    return torch.from_numpy(np.array(array))
