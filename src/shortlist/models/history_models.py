"""Models that encode users, fully or partly, by the items of their histories; they support unseen users."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from shortlist.data import IntArray, Interactions
from shortlist.models.base import Factored, normal_users, registry
from shortlist.models.folded import FoldInUsers, mean_length, mean_vectors, rows_of
from shortlist.models.graph import Adjacency, InteractionGraph
from shortlist.models.state import get_csr, get_tensor
from shortlist.parameters import Search, param
from shortlist.scores import Batch, Embeddings, Similarity


class HistoryModel(Factored):
    """Item embeddings, a square matrix V applied to their mean over the history, and the histories.

    In training, a random fraction of each history is dropped from the mean in each step; otherwise a model learns
    mainly to find the target item in the history. The papers truncate histories to a fixed length for padding; a sparse
    product takes histories of any length.
    """

    dim: int = param(default=64, at_least=1, help="dimension of the embeddings")
    similarity: Similarity = param(default="cosine", help="similarity of a user's and an item's embedding")
    init: float = param(default=0.1, above=0, help="standard deviation of the initial embeddings")
    dropout: float = param(
        default=0.5, at_least=0, below=1, help="fraction of the history that a training step drops",
        search=Search(0.0, 0.8),
    )  # fmt: skip

    def n_parameters(self, n_users: int, n_items: int) -> int:
        """Those of the vectors of items, and of the map."""
        return (n_items + self.dim) * self.dim

    @property
    def n_users(self) -> int:
        """Number of users whose histories are known."""
        return len(self.pairs.count_U)

    @abstractmethod
    def users_of(self, mean_UD: Tensor) -> Tensor:
        """The embeddings of all users, from the mean of the item embeddings of each history."""

    def initialize(self, train: Interactions, generator: torch.Generator) -> None:
        """Normally distributed embeddings; V is the identity."""
        item_ID = torch.randn(train.n_items, self.dim, generator=generator) * self.init
        self._take(item_ID, torch.eye(self.dim), InteractionGraph.of(train))

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load saved embeddings and histories."""
        item_ID, map_DD = get_tensor(state, "item", None, self.dim), get_tensor(state, "map", self.dim, self.dim)
        pairs = InteractionGraph(*get_csr(state, "pairs", len(item_ID)), len(item_ID))
        self._take(item_ID, map_DD, pairs)
        self.eval()

    def _take(self, item_ID: Tensor, map_DD: Tensor, pairs: InteractionGraph) -> None:
        self.item, self.map = nn.Parameter(item_ID), nn.Parameter(map_DD)
        self.pairs, self._mean = pairs, pairs.adjacency(1.0, 0.0)

    def _moved(self) -> None:
        """The matrix of the pairs, where these are now."""
        self._mean = self.pairs.adjacency(1.0, 0.0)

    def _embeddings(self, mean: Adjacency) -> Embeddings:
        return Embeddings(self.users_of(mean.times(self.item)), self.item, self.similarity)

    def embeddings(self) -> Embeddings:
        """Users from their full histories."""
        return self._embeddings(self._mean)

    def training_embeddings(self, batch: Batch, generator: torch.Generator) -> tuple[Embeddings, dict[str, Tensor]]:
        """Users from histories with a random fraction dropped."""
        mean = self.pairs.thinned_mean(self.dropout, generator) if self.dropout else self._mean
        return self._embeddings(mean), {}


@registry.register("pooled")
class Pooled(HistoryModel):
    r"""A user is represented by the history alone.

    .. math:: x_u = V \cdot \frac{1}{|H_u|} \sum_{i \in H_u} e_i,\qquad s_{ui} = \mathrm{sim}(x_u, e_i)

    There are no free user embeddings, so a new user needs no training.

    After Kabbur et al., "FISM: Factored Item Similarity Models for Top-N Recommender Systems", KDD 2013.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = Pooled(dim=8)
    >>> model.initialize(train, torch.Generator().manual_seed(0))
    >>> model.score(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "A user is the transformed mean of the item embeddings of the history: new users need no training."
    formula = "sim(V·mean_h e_h, e_i) over the items h of the history"
    citation = "after Kabbur et al., FISM, KDD 2013"
    cost = "each step computes the means of all histories, a sparse product, and its backward pass"
    use = "Where new users arrive all the time: nothing is fitted for them."

    def users_of(self, mean_UD: Tensor) -> Tensor:
        """The transformed mean."""
        return mean_UD @ self.map.T

    @torch.no_grad()
    def fold_in(self, histories: Sequence[IntArray]) -> FoldInUsers:
        """The transformed means of the histories; nothing is learned."""
        mean_ND = mean_vectors(self.item, *rows_of(histories, len(self.item)), len(histories))
        return FoldInUsers(self.users_of(mean_ND), 0.0, 0.0, self.similarity)


@registry.register("simplex")
class SimpleX(HistoryModel):
    r"""SimpleX: a weighted sum of a free user embedding and the transformed mean of the history.

    .. math:: x_u = g\,e_u + (1-g)\,V \cdot \frac{1}{|H_u|} \sum_{i \in H_u} e_i

    The paper trains it with CCL; the default here is SL@K. The initial embeddings have the standard deviation ``init``;
    in the authors' code it is 0.0001.

    Mao et al., "SimpleX: A Simple and Strong Baseline for Collaborative Filtering", CIKM 2021.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = SimpleX(dim=8)
    >>> model.initialize(train, torch.Generator().manual_seed(0))
    >>> model.score(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "SimpleX: a free user embedding plus the transformed mean of the item embeddings of the history."
    formula = "sim(g·e_u + (1−g)·V·mean_h e_h, e_i) over the items h of the history"
    citation = "Mao et al., CIKM 2021"
    cost = "each step computes the means of all histories, a sparse product, and its backward pass"
    use = "Where a history describes a user well but not completely: between MF and `pooled`."

    own: float = param(
        default=0.5, at_least=0, at_most=1, help="weight g of the free user embedding", search=Search(0.0, 1.0)
    )
    dropout: float = param(
        default=0.1, at_least=0, below=1, help="fraction of the history that a training step drops",
        search=Search(0.0, 0.8),
    )  # fmt: skip

    def initialize(self, train: Interactions, generator: torch.Generator) -> None:
        """Normally distributed embeddings; V is the identity."""
        super().initialize(train, generator)
        self.user = nn.Parameter(normal_users(train, self.dim, self.init, generator))

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load saved embeddings and histories."""
        n_users = max(0, state["pairs.indptr"].numel() - 1)
        self.user = nn.Parameter(get_tensor(state, "user", n_users, self.dim))
        super().load_state(state)

    def users_of(self, mean_UD: Tensor) -> Tensor:
        """The weighted sum of both."""
        return self.own * self.user + (1 - self.own) * (mean_UD @ self.map.T)

    @torch.no_grad()
    def fold_in(self, histories: Sequence[IntArray]) -> FoldInUsers:
        """The transformed means of the histories; the free embeddings are to be learned."""
        mapped_ND = mean_vectors(self.item, *rows_of(histories, len(self.item)), len(histories)) @ self.map.T
        return FoldInUsers((1 - self.own) * mapped_ND, self.own, mean_length(self.user), self.similarity)
