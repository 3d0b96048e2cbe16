"""Item-based nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import IntArray, Interactions, Split, training_part
from shortlist.models.base import Baseline, registry
from shortlist.models.baselines.history_scorer import History, ones
from shortlist.models.state import get_csr, get_tensor
from shortlist.parameters import Search, param

BLOCK = 1024
"""Items per block of similarities."""


@registry.register("item_knn")
class ItemKNN(Baseline):
    """The score of an item is the sum of its similarities to its neighbours in the user's history.

    ``s(u, j) = Σ_{i ∈ history(u) ∩ N(j)} c_ij / (√(c_i·c_j) + shrinkage)``, where ``c_ij`` is the number of users with
    both items, ``c_i`` that with item i, and ``N(j)`` are the items most similar to j; ties are broken by the smaller
    id.

    >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 0], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = ItemKNN(shrinkage=0.0)
    >>> _ = model.fit(train)
    >>> [[round(score, 3) for score in row] for row in model.score(np.array([1, 0])).tolist()]
    [[0.0, 0.707, 0.0], [0.707, 0.707, 0.0]]
    """

    summary = "Item-based nearest neighbours: shrunk cosines of items by their users."
    formula = "Σ_h c_hi/(√(c_h·c_i) + shrinkage) over the items h of the history that are neighbours of i"
    citation = "Sarwar et al., Item-Based Collaborative Filtering Recommendation Algorithms, WWW 2001"
    cost = "one sparse product of items × items; a list of neighbours for each item"
    use = "Where fitting must take seconds, and recommendations must be explained by the user's items."

    neighbours: int = param(
        default=100, at_least=1, help="number of neighbours per item", search=Search(5, 1000, log=True)
    )
    shrinkage: float = param(
        default=100.0,
        at_least=0,
        help="shrinks similarities that are based on few users towards 0",
        search=Search(0.1, 1000, log=True),
    )

    similarity_II: sparse.csr_array

    @property
    def n_users(self) -> int:
        """Number of users whose histories are known."""
        return len(self.history)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return int(self.similarity_II.shape[0])

    def fit(self, data: Interactions | Split, *, seed: int = 0) -> Self:
        """Compute the neighbours of each item, block by block."""
        train = training_part(data)
        train_UI = ones(train.indptr, train.indices, train.n_items)
        train_IU = train_UI.T.tocsr()
        length_I = np.sqrt(train.item_counts()).astype(np.float32)
        blocks = [
            self._nearest((train_IU[first : first + BLOCK] @ train_UI).tocoo(), first, length_I)
            for first in range(0, train.n_items, BLOCK)
        ]
        target_E, source_E, value_E = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        shape = (train.n_items, train.n_items)
        self.similarity_II = sparse.csr_array((value_E, (source_E, target_E)), shape=shape)
        self.history = History.of(train)
        return self

    def _nearest(
        self, both: sparse.coo_array, first: int, length_I: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Item, neighbour and similarity, from the number of users with both."""
        target_E, source_E = both.row + first, both.col
        other_E = target_E != source_E
        target_E, source_E, both_E = target_E[other_E], source_E[other_E], both.data[other_E]
        value_E = both_E / (length_I[target_E] * length_I[source_E] + np.float32(self.shrinkage))
        order = np.lexsort((source_E, -value_E, target_E))
        target_E = target_E[order]
        place_E = np.arange(len(order)) - np.searchsorted(target_E, target_E)
        near = place_E < self.neighbours
        return target_E[near], source_E[order][near], value_E[order][near]

    def fold_in(self, histories: Sequence[IntArray]) -> History:
        """The histories, which are complete queries."""
        return History.from_lists(histories, self.n_items)

    def score(self, queries: IntArray | History, out: Tensor | None = None) -> Tensor:
        """Sums of the similarities' rows over the users' histories."""
        history_RI = self.history.of_queries(queries).matrix(self.n_items)
        scores_RI = torch.from_numpy((history_RI @ self.similarity_II).toarray())
        return scores_RI if out is None else out.copy_(scores_RI)

    def item_similarity(self, items: IntArray) -> Tensor:
        """The shrunk cosines of neighbours; 0 for all other items."""
        return torch.from_numpy(self.similarity_II[items].toarray())

    def state(self) -> dict[str, Tensor]:
        """The neighbours and the histories."""
        arrays = {name: torch.from_numpy(getattr(self.similarity_II, name)) for name in ("indptr", "indices", "data")}
        return {f"similarity.{name}": part for name, part in arrays.items()} | self.history.state()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load the neighbours and the histories."""
        n_items = max(0, state["similarity.indptr"].numel() - 1)
        indptr, indices = (part.numpy() for part in get_csr(state, "similarity", n_items))
        data = get_tensor(state, "similarity.data", len(indices)).numpy()
        self.similarity_II = sparse.csr_array((data, indices, indptr), shape=(n_items, n_items))
        self.history = History.from_state(state, n_items)
