"""Models whose embeddings are propagated over the user–item graph: LightGCN and its variants.

They differ in their layers and in how layers are combined. Each propagates over the full graph in each step. Scores are
then inner products, as in matrix factorisation, so every loss and every optimised code path applies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from shortlist.data import IntArray, Interactions
from shortlist.errors import InputError
from shortlist.models.base import Factored, normal_users, registry
from shortlist.models.folded import FoldInUsers, mean_length, rows_of
from shortlist.models.graph import Adjacency, InteractionGraph, UserItem, layer_sums, noise
from shortlist.models.state import get_csr, get_tensor
from shortlist.parameters import Search, param
from shortlist.scores import Batch, Embeddings, FactoredTable, Similarity, Workspace, item_vectors


class GraphModel(Factored):
    """A free embedding for each user and item, and the graph they are propagated over.

    The state contains the free embeddings and the training pairs, which suffice for scoring and for further training.
    """

    dim: int = param(default=64, at_least=1, help="dimension of the embeddings")
    layers: int = param(default=2, at_least=1, help="number of propagation layers", search=Search(1, 4))
    similarity: Similarity = param(default="cosine", help="similarity of a user's and an item's embedding")
    init: float = param(default=0.1, above=0, help="standard deviation of the initial embeddings")

    def initialize(self, train: Interactions, generator: torch.Generator) -> None:
        """Normally distributed embeddings."""
        self._take(
            normal_users(train, self.dim, self.init, generator),
            torch.randn(train.n_items, self.dim, generator=generator).mul_(self.init),
            InteractionGraph.of(train),
        )

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load saved embeddings and pairs."""
        user_UD, item_ID = (get_tensor(state, name, None, self.dim) for name in ("user", "item"))
        pairs = InteractionGraph(*get_csr(state, "pairs", len(item_ID), len(user_UD)), len(item_ID))
        self._take(user_UD, item_ID, pairs)
        self.eval()

    def _take(self, user_UD: Tensor, item_ID: Tensor, pairs: InteractionGraph) -> None:
        self.user, self.item, self.pairs = nn.Parameter(user_UD), nn.Parameter(item_ID), pairs
        self._to_users, self._to_items = self._adjacencies(pairs)

    def _moved(self) -> None:
        """The matrices of the pairs, where these are now."""
        self._to_users, self._to_items = self._adjacencies(self.pairs)

    def _adjacencies(self, pairs: InteractionGraph) -> tuple[Adjacency, Adjacency]:
        """The matrices that compute users from items and items from users: the symmetrically normalised adjacency."""
        adjacency = pairs.adjacency(0.5, 0.5)
        return adjacency, adjacency.reversed()

    @abstractmethod
    def propagate(self) -> UserItem:
        """The propagated embeddings, which scores compare."""

    def embeddings(self) -> Embeddings:
        """The propagated embeddings."""
        return Embeddings(*self.propagate(), self.similarity)

    def _reached(
        self, below_ID: Tensor, histories: Sequence[IntArray], powers: tuple[float, float] = (0.5, 0.5)
    ) -> Tensor:
        """One propagation step from the items of histories to new user nodes, with the weights of ``_adjacencies``.

        The degrees of items do not include the new nodes.
        """
        row_P, item_P = (index.to(below_ID.device) for index in rows_of(histories, len(self.item)))
        degree_R = torch.bincount(row_P, minlength=len(histories)).float()
        degree_I = self.pairs.count_I.float().clamp(min=1)
        weight_P = degree_R[row_P] ** -powers[0] * degree_I[item_P] ** -powers[1]
        reached_ND = below_ID.new_zeros(len(histories), self.dim)
        return reached_ND.index_add_(0, row_P, below_ID[item_P] * weight_P.unsqueeze(1))


@registry.register("lightgcn")
class LightGCN(GraphModel):
    r"""LightGCN: the mean of all layers of a linear propagation.

    .. math:: E^{k+1} = D^{-1/2} A D^{-1/2} E^k,\qquad E = \frac{1}{L+1} \sum_{k=0}^{L} E^k

    A is the adjacency of the graph in which each training pair is an edge, D its degrees.

    He et al., "LightGCN: Simplifying and Powering Graph Convolution Network for Recommendation", SIGIR 2020.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = LightGCN(dim=8)
    >>> model.initialize(train, torch.Generator().manual_seed(0))
    >>> model.score(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "LightGCN: the mean of all layers of a linear propagation over the user–item graph."
    formula = "sim(x_u, x_i), x = mean_k Â^k e"
    citation = "He et al., SIGIR 2020"
    cost = "each step propagates all embeddings, two sparse products per layer, and back"
    use = "Where users have few items: neighbours' embeddings help, and it needs fewer epochs than MF."

    def propagate(self) -> UserItem:
        """The mean of the layers, including the free embeddings."""
        weights = [1 / (self.layers + 1)] * (self.layers + 1)
        return layer_sums(self.user, self.item, self._to_users, [weights])[0]

    @torch.no_grad()
    def fold_in(self, histories: Sequence[IntArray]) -> FoldInUsers:
        """A new node of the graph: its layers, except the free one, are computed from those of its items."""
        own = 1 / (self.layers + 1)
        _, below_ID = layer_sums(self.user, self.item, self._to_users, [[own] * self.layers])[0]
        reached_ND = self._reached(below_ID, histories)
        return FoldInUsers(reached_ND, own, mean_length(self.user), self.similarity)


@registry.register("lightgcn_pp")
class LightGCNpp(GraphModel):
    r"""LightGCN++: embeddings are normalised to unit length before each layer, with separate exponents of both degrees.

    .. math:: E^{k+1} = D^{-\alpha} A D^{-\beta}\,\mathrm{norm}(E^k),\qquad
              E = \gamma E^0 + \frac{1-\gamma}{L} \sum_{k=1}^{L} E^k

    Lee et al., "Revisiting LightGCN: Unexpected Inflexibility, Inconsistency, and A Remedy Towards Improved
    Recommendation", RecSys 2024.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = LightGCNpp(dim=8, alpha=0.5, beta=0.0)
    >>> model.initialize(train, torch.Generator().manual_seed(0))
    >>> model.score(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "LightGCN++: LightGCN with unit-length embeddings in each layer and exponents for both sides' degrees."
    formula = "sim(x_u, x_i), x = γ·e + (1−γ)·mean_k≥1 e^k, e^k+1 = D^−α·A·D^−β·norm(e^k)"
    citation = "Lee et al., RecSys 2024"
    cost = "as LightGCN, plus a normalisation of all embeddings in each layer"
    use = "As LightGCN, where the influence of popular neighbours should be tunable."

    alpha: float = param(default=0.6, help="exponent α of the target node's degree", search=Search(0.4, 0.6))
    beta: float = param(default=-0.1, help="exponent β of its neighbours' degrees", search=Search(-0.1, 0.1))
    gamma: float = param(
        default=0.2, at_least=0, at_most=1, help="weight γ of the free embeddings", search=Search(0.0, 1.0)
    )

    def _adjacencies(self, pairs: InteractionGraph) -> tuple[Adjacency, Adjacency]:
        """A separate matrix for each side; they are not transposes of each other."""
        return pairs.adjacency(self.alpha, self.beta), pairs.adjacency(self.beta, self.alpha).reversed()

    def propagate(self) -> UserItem:
        """The weighted sum of the free embeddings and the mean of the layers."""
        total = [part * self.gamma for part in (self.user, self.item)]
        for _, layer in self._passes():
            total = [
                sum_ND.add(part, alpha=(1 - self.gamma) / self.layers)
                for sum_ND, part in zip(total, layer, strict=True)
            ]
        return total[0], total[1]

    def _passes(self) -> Iterator[tuple[UserItem, UserItem]]:
        """For each layer its input, embeddings of unit length, and its output."""
        layer: UserItem = (self.user, self.item)
        for _ in range(self.layers):
            below = user_UD, item_ID = item_vectors(layer[0], "cosine"), item_vectors(layer[1], "cosine")
            layer = self._to_users.times(item_ID), self._to_items.times(user_UD)
            yield below, layer

    @torch.no_grad()
    def fold_in(self, histories: Sequence[IntArray]) -> FoldInUsers:
        """A new node of the graph: its layers, except the free one, are computed from those of its items."""
        below_ID = torch.zeros_like(self.item)
        for (_, item_ID), _ in self._passes():
            below_ID.add_(item_ID, alpha=(1 - self.gamma) / self.layers)
        reached_ND = self._reached(below_ID, histories, (self.alpha, self.beta))
        return FoldInUsers(reached_ND, self.gamma, mean_length(self.user), self.similarity)


class ContrastiveGCN(GraphModel):
    r"""A graph model with an additional contrastive term over two noisy views, named ``contrast``.

    .. math:: \lambda \sum_{\text{users},\,\text{items}} \mathrm{mean}_n
              \Bigl(\ln \sum_m e^{\cos(x_n, y_m)/\tau} - \cos(x_n, y_n)/\tau\Bigr)

    over the distinct users of a step, and over its distinct items; x and y are the two views of a node.
    """

    layers: int = param(default=3, at_least=1, help="number of propagation layers", search=Search(1, 4))
    noise: float = param(default=0.1, at_least=0, help="norm ε of the noise added to each layer")
    contrast: float = param(
        default=0.1, at_least=0, help="weight λ of the contrast", search=Search(choices=(0.01, 0.05, 0.1, 0.2, 0.5))
    )
    temperature: float = param(default=0.1, above=0, help="temperature τ of the contrast", search=Search(0.05, 0.3))
    contrasted: int = param(
        default=2048, at_least=2, help="maximum number of users and items that a step contrasts, drawn if more"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._workspaces = (Workspace(), Workspace())  # one per side: the backward pass needs both buffers

    def _perturbed(self, weights: list[list[float]], generator: torch.Generator) -> list[UserItem]:
        """Weighted sums of the layers of a noisy pass."""
        return layer_sums(self.user, self.item, self._to_users, weights, noise(self.noise, generator))

    def _mean(self) -> list[float]:
        """The weights of the layers; 0 for the free embeddings."""
        return [0.0, *[1 / self.layers] * self.layers]

    def propagate(self) -> UserItem:
        """The mean of the layers without noise."""
        return layer_sums(self.user, self.item, self._to_users, [self._mean()])[0]

    @torch.no_grad()
    def fold_in(self, histories: Sequence[IntArray]) -> FoldInUsers:
        """A new node of the graph: its layers are computed from those of its items; nothing is learned."""
        _, below_ID = layer_sums(self.user, self.item, self._to_users, [[1 / self.layers] * self.layers])[0]
        return FoldInUsers(self._reached(below_ID, histories), 0.0, 0.0, self.similarity)

    def _contrast(
        self, first: UserItem, second: UserItem, nodes: tuple[Tensor, Tensor], generator: torch.Generator
    ) -> Tensor:
        """λ times the sum of the contrastive terms of users and of items."""
        total = first[0].new_zeros(())
        for view, other, node_N, workspace in zip(first, second, nodes, self._workspaces, strict=True):
            chosen_N = node_N.unique()
            if len(chosen_N) > self.contrasted:
                order_N = torch.randperm(len(chosen_N), generator=generator, device=generator.device)
                chosen_N = chosen_N[order_N[: self.contrasted].to(chosen_N.device)]
            rows, candidates = view.index_select(0, chosen_N), other.index_select(0, chosen_N)
            total = total + info_nce(rows, candidates, self.temperature, workspace)
        return total * self.contrast


def info_nce(row_ND: Tensor, other_ND: Tensor, tau: float, workspace: Workspace | None = None) -> Tensor:
    """The mean of ``ln Σ_m exp(cos(x_n, y_m)/τ) − cos(x_n, y_n)/τ``.

    >>> same = torch.eye(2)
    >>> info_nce(same, same, 1.0)
    tensor(0.3133)
    """
    place_N = torch.arange(len(row_ND), device=row_ND.device)
    table = FactoredTable(
        item_vectors(row_ND, "cosine"),
        item_vectors(other_ND, "cosine"),
        row_P=place_N,
        column_P=place_N,
        bound=1.0,
        workspace=workspace,
    )
    return (table.logsumexp(tau) - table.positives() / tau).mean()


@registry.register("simgcl")
class SimGCL(ContrastiveGCN):
    r"""SimGCL: LightGCN without its free layer, and two noisy passes that are contrasted.

    .. math:: E^{k+1} = \hat A E^k + \varepsilon\,\mathrm{sign}(\hat A E^k) \odot z/|z|,\qquad
              E = \frac{1}{L} \sum_{k=1}^{L} E^k

    Scores come from a third pass without noise. The initial embeddings are normal, as for all graph models here; in the
    authors' code they are Xavier-uniform.

    Yu et al., "Are Graph Augmentations Necessary? Simple Graph Contrastive Learning for Recommendation", SIGIR 2022.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model, generator = SimGCL(dim=8), torch.Generator().manual_seed(0)
    >>> model.initialize(train, generator)
    >>> batch = Batch(torch.tensor([0, 1]), 2, row_P=torch.tensor([0, 1]), item_P=torch.tensor([0, 1]))
    >>> list(model.encode(batch, generator).terms)
    ['contrast']
    """

    summary = "SimGCL: a noise-free pass over the graph for the scores, and a contrastive term over two noisy passes."
    formula = "sim(x_u, x_i), x = mean_k≥1 Â^k e; in training + λ·InfoNCE of two noisy passes"
    citation = "Yu et al., SIGIR 2022"
    cost = "three forward passes over the graph and one backward; products among the step's users, and among its items"
    use = "For comparison with papers that use it; XSimGCL is a cheaper alternative."

    contrast: float = param(
        default=0.5, at_least=0, help="weight λ of the contrast", search=Search(choices=(0.05, 0.1, 0.2, 0.5))
    )
    temperature: float = param(default=0.2, above=0, help="temperature τ of the contrast", search=Search(0.05, 0.3))

    def training_embeddings(self, batch: Batch, generator: torch.Generator) -> tuple[Embeddings, dict[str, Tensor]]:
        """The noise-free embeddings, and the contrastive term of two noisy views.

        Noise has no gradient, so a view is the noise-free embeddings plus a constant: the three forward passes need
        only one backward pass.
        """
        clean = self.propagate()
        views: list[UserItem] = []
        for _ in range(2):
            with torch.no_grad():
                user_UD, item_ID = self._perturbed([self._mean()], generator)[0]
                user_UD, item_ID = user_UD.sub_(clean[0]), item_ID.sub_(clean[1])
            views.append((clean[0] + user_UD, clean[1] + item_ID))
        contrast = self._contrast(views[0], views[1], (batch.rows, batch.item_P), generator)
        return Embeddings(*clean, self.similarity), {"contrast": contrast}


@registry.register("xsimgcl")
class XSimGCL(ContrastiveGCN):
    r"""XSimGCL: one noisy pass whose mean gives the scores and is contrasted with one of its layers.

    .. math:: E^{k+1} = \hat A E^k + \varepsilon\,\mathrm{sign}(\hat A E^k) \odot z/|z|,\qquad
              E = \frac{1}{L} \sum_{k=1}^{L} E^k,\qquad \text{contrast of } E \text{ and } E^{l^*}

    The initial embeddings are normal, as for all graph models here; in the authors' code they are Xavier-uniform.

    Yu et al., "XSimGCL: Towards Extremely Simple Graph Contrastive Learning for Recommendation", TKDE 2023.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = XSimGCL(dim=8)
    >>> model.initialize(train, torch.Generator().manual_seed(0))
    >>> model.score(train.users_of_pairs()).shape
    torch.Size([2, 3])
    >>> XSimGCL(layers=2, contrast_layer=3)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: XSimGCL.contrast_layer: expected at most 2, the number of layers, received 3
    """

    summary = "XSimGCL: one noisy pass over the graph, with a contrastive term between its mean and one of its layers."
    formula = "sim(x_u, x_i), x = mean_k≥1 Â^k e; in training noisy, + λ·InfoNCE of x and layer l*"
    citation = "Yu et al., TKDE 2023"
    cost = "one forward pass over the graph and one backward; products among the step's users, and among its items"
    use = "Where data is sparse and lists should also reach unpopular items."

    contrast_layer: int = param(default=1, at_least=1, help="layer l* that is contrasted with the mean")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contrast_layer > self.layers:
            raise InputError(
                f"XSimGCL.contrast_layer: expected at most {self.layers}, the number of layers, "
                f"received {self.contrast_layer}"
            )

    def training_embeddings(self, batch: Batch, generator: torch.Generator) -> tuple[Embeddings, dict[str, Tensor]]:
        """The noisy embeddings, and the contrastive term with the selected layer."""
        layer = [float(depth == self.contrast_layer) for depth in range(self.layers + 1)]
        mean, one = self._perturbed([self._mean(), layer], generator)
        contrast = self._contrast(mean, one, (batch.rows, batch.item_P), generator)
        return Embeddings(*mean, self.similarity), {"contrast": contrast}
