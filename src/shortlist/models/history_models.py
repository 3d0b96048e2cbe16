"""Models whose users are made, wholly or in part, from the items of their history: nobody is new to them for long."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from shortlist.data import Interactions
from shortlist.models.base import Factored, normal_users, registry
from shortlist.models.graph import Adjacency, InteractionGraph
from shortlist.models.history_lookup import FoldInUsers, mean_length, mean_vectors
from shortlist.parameters import Search, param
from shortlist.scores import Factors, Similarity


class HistoryModel(Factored):
    """Item vectors, a square map V of their mean over the history, and the histories.

    In training a share of each history is left out of the mean, drawn anew for each step: else a model learns first of
    all to find in the history the very item it is asked for. The papers cut histories to a length so that they can be
    padded; a sparse product takes them as long as they are.
    """

    dim: int = param(default=64, at_least=1, help="length of the vectors")
    similarity: Similarity = param(default="cosine", help="how a user's vector is compared with an item's")
    init: float = param(default=0.1, above=0, help="standard deviation of the vectors at the start")
    dropout: float = param(
        default=0.5, at_least=0, below=1, help="share of the history that a training step leaves out",
        search=Search(0.0, 0.8),
    )  # fmt: skip

    @abstractmethod
    def users_of(self, mean_UD: Tensor) -> Tensor:
        """The vectors of all users, from the mean of the item vectors of each one's history."""

    def start(self, train: Interactions, generator: torch.Generator) -> None:
        """Normally distributed vectors; the map is the identity."""
        item_ID = torch.randn(train.n_items, self.dim, generator=generator) * self.init
        self._take(item_ID, torch.eye(self.dim), InteractionGraph.of(train))

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over saved vectors and histories."""
        pairs = InteractionGraph(state["pairs.indptr"], state["pairs.indices"], len(state["item"]))
        self._take(state["item"], state["map"], pairs)
        self.eval()

    def _take(self, item_ID: Tensor, map_DD: Tensor, pairs: InteractionGraph) -> None:
        self.item, self.map = nn.Parameter(item_ID), nn.Parameter(map_DD)
        self.pairs, self._mean = pairs, pairs.link(1.0, 0.0)

    def _factors(self, mean: Adjacency) -> Factors:
        return Factors(self.users_of(mean.times(self.item)), self.item, self.similarity)

    def factors(self) -> Factors:
        """Users from their whole histories."""
        return self._factors(self._mean)

    def step(self, user_R: Tensor, item_P: Tensor, generator: torch.Generator) -> tuple[Factors, dict[str, Tensor]]:
        """Users from histories of which a share is left out."""
        mean = self.pairs.thinned_mean(self.dropout, generator) if self.dropout else self._mean
        return self._factors(mean), {}


@registry.register("pooled")
class Pooled(HistoryModel):
    r"""A user is nothing but a history.

    .. math:: x_u = V \cdot \frac{1}{|H_u|} \sum_{i \in H_u} e_i,\qquad s_{ui} = \mathrm{sim}(x_u, e_i)

    There is no vector of the user's own, so that a new user needs no training.

    After Kabbur et al., "FISM: Factored Item Similarity Models for Top-N Recommender Systems", KDD 2013.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = Pooled(dim=8)
    >>> model.start(train, torch.Generator().manual_seed(0))
    >>> model.score_all(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "A user is the mapped mean of the item vectors of the history: new users need no training."
    formula = "sim(V·mean_h e_h, e_i) over the items h of the history"
    citation = "after Kabbur et al., FISM, KDD 2013"
    cost = "a step takes the means of all histories, a sparse product, and back again"
    use = "Where new users arrive all the time: their history is enough, and nothing is fitted for them."

    def users_of(self, mean_UD: Tensor) -> Tensor:
        """The mapped mean."""
        return mean_UD @ self.map.T

    @torch.no_grad()
    def arrival(self, row_P: Tensor, item_P: Tensor, n_rows: int) -> FoldInUsers:
        """The mapped means of the histories: nothing is learned."""
        mean_ND = mean_vectors(self.item, row_P, item_P, n_rows)
        return FoldInUsers(self.users_of(mean_ND), 0.0, 0.0, self.similarity)


@registry.register("simplex")
class SimpleX(HistoryModel):
    r"""SimpleX: a vector of the user's own, and the mapped mean of the history beside it.

    .. math:: x_u = g\,e_u + (1-g)\,V \cdot \frac{1}{|H_u|} \sum_{i \in H_u} e_i

    The paper trains it with CCL, here SL@K does unless a loss is named; vectors start with the deviation ``init``, in
    the authors' code with 0.0001.

    Mao et al., "SimpleX: A Simple and Strong Baseline for Collaborative Filtering", CIKM 2021.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = SimpleX(dim=8)
    >>> model.start(train, torch.Generator().manual_seed(0))
    >>> model.score_all(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "SimpleX: a free vector of the user, and the mapped mean of the item vectors of the history."
    formula = "sim(g·e_u + (1−g)·V·mean_h e_h, e_i) over the items h of the history"
    citation = "Mao et al., CIKM 2021"
    cost = "a step takes the means of all histories, a sparse product, and back again"
    use = "Where a history tells much of a user but not all: between MF and `pooled`."

    own: float = param(
        default=0.5, at_least=0, at_most=1, help="weight g of the user's own vector", search=Search(0.0, 1.0)
    )
    dropout: float = param(
        default=0.1, at_least=0, below=1, help="share of the history that a training step leaves out",
        search=Search(0.0, 0.8),
    )  # fmt: skip

    def start(self, train: Interactions, generator: torch.Generator) -> None:
        """Normally distributed vectors; the map is the identity."""
        super().start(train, generator)
        self.user = nn.Parameter(normal_users(train, self.dim, self.init, generator))

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over saved vectors and histories."""
        self.user = nn.Parameter(state["user"])
        super().load_state(state)

    def users_of(self, mean_UD: Tensor) -> Tensor:
        """Both together."""
        return self.own * self.user + (1 - self.own) * (mean_UD @ self.map.T)

    @torch.no_grad()
    def arrival(self, row_P: Tensor, item_P: Tensor, n_rows: int) -> FoldInUsers:
        """The mapped means of the histories, and vectors of the users' own."""
        mapped_ND = mean_vectors(self.item, row_P, item_P, n_rows) @ self.map.T
        return FoldInUsers((1 - self.own) * mapped_ND, self.own, mean_length(self.user), self.similarity)
