"""Models whose vectors are propagated over the graph of users and items: LightGCN and its kin.

They differ in what a layer is and how layers are brought together. Each propagates once a step over the whole graph;
scores are then products of vectors, as for matrix factorisation, so that every loss and every fast path serves them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.models.base import Factored, normal_users, registry
from shortlist.models.graph import Adjacency, InteractionGraph, UserItem, layer_sums, noise
from shortlist.models.history_lookup import FoldInUsers, mean_length
from shortlist.parameters import Search, param
from shortlist.scores import FactoredTable, Factors, Similarity, Workspace, item_vectors


class GraphModel(Factored):
    """A free vector for each user and item, and the graph they are propagated over.

    The state holds the free vectors and the pairs: less than the propagated vectors would take, and enough both to
    answer alone and to be trained further.
    """

    dim: int = param(default=64, at_least=1, help="length of the vectors")
    layers: int = param(
        default=2, at_least=1, help="how far vectors are propagated over the graph", search=Search(1, 4)
    )
    similarity: Similarity = param(default="cosine", help="how a user's vector is compared with an item's")
    init: float = param(default=0.1, above=0, help="standard deviation of the vectors at the start")

    def start(self, train: Interactions, generator: torch.Generator) -> None:
        """Normally distributed vectors."""
        self._take(
            normal_users(train, self.dim, self.init, generator),
            torch.randn(train.n_items, self.dim, generator=generator).mul_(self.init),
            InteractionGraph.of(train),
        )

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over saved vectors and pairs."""
        pairs = InteractionGraph(state["pairs.indptr"], state["pairs.indices"], len(state["item"]))
        self._take(state["user"], state["item"], pairs)
        self.eval()

    def _take(self, user_UD: Tensor, item_ID: Tensor, pairs: InteractionGraph) -> None:
        self.user, self.item, self.pairs = nn.Parameter(user_UD), nn.Parameter(item_ID), pairs
        self._to_users, self._to_items = self._make_links(pairs)

    def _make_links(self, pairs: InteractionGraph) -> tuple[Adjacency, Adjacency]:
        """How users are made from items and items from users: by the symmetric normalised adjacency."""
        link = pairs.link(0.5, 0.5)
        return link, link.reversed()

    @abstractmethod
    def propagate(self) -> UserItem:
        """The vectors that are compared."""

    def factors(self) -> Factors:
        """The propagated vectors."""
        return Factors(*self.propagate(), self.similarity)

    def _reached(
        self, below_ID: Tensor, row_P: Tensor, item_P: Tensor, n_rows: int, powers: tuple[float, float] = (0.5, 0.5)
    ) -> Tensor:
        """What reaches new nodes from the items that they are joined to, by the weights that ``_make_links`` gives.

        Items keep the weights that they had without the new nodes.
        """
        degree_R, degree_I = torch.bincount(row_P, minlength=n_rows).float(), self.pairs.count_I.float().clamp(min=1)
        weight_P = degree_R[row_P] ** -powers[0] * degree_I[item_P] ** -powers[1]
        reached_ND = below_ID.new_zeros(n_rows, self.dim)
        return reached_ND.index_add_(0, row_P, below_ID[item_P] * weight_P.unsqueeze(1))


@registry.register("lightgcn")
class LightGCN(GraphModel):
    r"""LightGCN: the mean of all layers of a linear propagation.

    .. math:: E^{k+1} = D^{-1/2} A D^{-1/2} E^k,\qquad E = \frac{1}{L+1} \sum_{k=0}^{L} E^k

    A is the adjacency of the graph in which each training pair is an edge, D its degrees.

    He et al., "LightGCN: Simplifying and Powering Graph Convolution Network for Recommendation", SIGIR 2020.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = LightGCN(dim=8)
    >>> model.start(train, torch.Generator().manual_seed(0))
    >>> model.score_all(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "LightGCN: vectors propagate linearly over the graph of users and items, the mean of all layers."
    formula = "sim(x_u, x_i), x = mean_k Â^k e"
    citation = "He et al., SIGIR 2020"
    cost = "a step spreads all vectors over the graph, a sparse product a layer and side, and back again"
    use = "Where users have few items each: their neighbours' vectors help, and fewer epochs do than for MF."

    def propagate(self) -> UserItem:
        """The mean of the layers, the free vectors among them."""
        weights = [1 / (self.layers + 1)] * (self.layers + 1)
        return layer_sums(self.user, self.item, self._to_users, [weights])[0]

    @torch.no_grad()
    def arrival(self, row_P: Tensor, item_P: Tensor, n_rows: int) -> FoldInUsers:
        """A new node joins the graph: its layers but the free one are made from those of its items."""
        own = 1 / (self.layers + 1)
        _, below_ID = layer_sums(self.user, self.item, self._to_users, [[own] * self.layers])[0]
        reached_ND = self._reached(below_ID, row_P, item_P, n_rows)
        return FoldInUsers(reached_ND, own, mean_length(self.user), self.similarity)


@registry.register("lightgcn_pp")
class LightGCNpp(GraphModel):
    r"""LightGCN++: vectors are brought to unit length before each layer, and sides are normalised apart.

    .. math:: E^{k+1} = D^{-\alpha} A D^{-\beta}\,\mathrm{norm}(E^k),\qquad
              E = \gamma E^0 + \frac{1-\gamma}{L} \sum_{k=1}^{L} E^k

    Lee et al., "Revisiting LightGCN: Unexpected Inflexibility, Inconsistency, and A Remedy Towards Improved
    Recommendation", RecSys 2024.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = LightGCNpp(dim=8, alpha=0.5, beta=0.0)
    >>> model.start(train, torch.Generator().manual_seed(0))
    >>> model.score_all(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "LightGCN++: LightGCN with vectors of unit length in each layer and exponents for both sides' degrees."
    formula = "sim(x_u, x_i), x = γ·e + (1−γ)·mean_k≥1 e^k, e^k+1 = D^−α·A·D^−β·norm(e^k)"
    citation = "Lee et al., RecSys 2024"
    cost = "as LightGCN, and in each layer all vectors are brought to unit length"
    use = "As LightGCN, where how much popular neighbours count should be a setting."

    alpha: float = param(
        default=0.6, help="exponent α of the degree of the node that is reached", search=Search(0.4, 0.6)
    )
    beta: float = param(default=-0.1, help="exponent β of the degrees of its neighbours", search=Search(-0.1, 0.1))
    gamma: float = param(
        default=0.2, at_least=0, at_most=1, help="weight γ of the free vectors", search=Search(0.0, 1.0)
    )

    def _make_links(self, pairs: InteractionGraph) -> tuple[Adjacency, Adjacency]:
        """Each side by its own matrix, which is not the other's transpose."""
        return pairs.link(self.alpha, self.beta), pairs.link(self.beta, self.alpha).reversed()

    def propagate(self) -> UserItem:
        """The free vectors and the mean of the layers."""
        total = [part * self.gamma for part in (self.user, self.item)]
        for _, layer in self._passes():
            total = [
                whole.add(part, alpha=(1 - self.gamma) / self.layers) for whole, part in zip(total, layer, strict=True)
            ]
        return total[0], total[1]

    def _passes(self) -> Iterator[tuple[UserItem, UserItem]]:
        """For each layer the vectors of unit length that it is made of, and what they become."""
        layer: UserItem = (self.user, self.item)
        for _ in range(self.layers):
            below = user_UD, item_ID = item_vectors(layer[0], "cosine"), item_vectors(layer[1], "cosine")
            layer = self._to_users.times(item_ID), self._to_items.times(user_UD)
            yield below, layer

    @torch.no_grad()
    def arrival(self, row_P: Tensor, item_P: Tensor, n_rows: int) -> FoldInUsers:
        """A new node joins the graph: its layers but the free one are made from those of its items."""
        below_ID = torch.zeros_like(self.item)
        for (_, item_ID), _ in self._passes():
            below_ID.add_(item_ID, alpha=(1 - self.gamma) / self.layers)
        reached_ND = self._reached(below_ID, row_P, item_P, n_rows, (self.alpha, self.beta))
        return FoldInUsers(reached_ND, self.gamma, mean_length(self.user), self.similarity)


class ContrastiveGCN(GraphModel):
    r"""A graph model with a contrast of two noisy views as a term of its own, named ``contrast``.

    .. math:: \lambda \sum_{\text{users},\,\text{items}} \mathrm{mean}_n
              \Bigl(\ln \sum_m e^{\cos(x_n, y_m)/\tau} - \cos(x_n, y_n)/\tau\Bigr)

    over the distinct users of a step, and over its distinct items; x and y are the two views of a node.
    """

    layers: int = param(
        default=3, at_least=1, help="how far vectors are propagated over the graph", search=Search(1, 4)
    )
    noise: float = param(default=0.1, at_least=0, help="length ε of the noise that is added to each layer")
    contrast: float = param(
        default=0.1, at_least=0, help="weight λ of the contrast", search=Search(choices=(0.01, 0.05, 0.1, 0.2, 0.5))
    )
    temperature: float = param(default=0.1, above=0, help="temperature τ of the contrast", search=Search(0.05, 0.3))
    contrasted: int = param(
        default=2048, at_least=2, help="how many users and items of a step are contrasted; drawn if there are more"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._workspaces = (Workspace(), Workspace())  # one each: both buffers are asked for again on the way back

    def _disturbed(self, weights: list[list[float]], generator: torch.Generator) -> list[UserItem]:
        """Sums of the layers of a noisy pass."""
        return layer_sums(self.user, self.item, self._to_users, weights, noise(self.noise, generator))

    def _mean(self) -> list[float]:
        """The weights of the layers: the free vectors have none."""
        return [0.0, *[1 / self.layers] * self.layers]

    def propagate(self) -> UserItem:
        """The mean of the layers without noise."""
        return layer_sums(self.user, self.item, self._to_users, [self._mean()])[0]

    @torch.no_grad()
    def arrival(self, row_P: Tensor, item_P: Tensor, n_rows: int) -> FoldInUsers:
        """A new node joins the graph: its layers are made from those of its items, and nothing is learned."""
        _, below_ID = layer_sums(self.user, self.item, self._to_users, [[1 / self.layers] * self.layers])[0]
        return FoldInUsers(self._reached(below_ID, row_P, item_P, n_rows), 0.0, 0.0, self.similarity)

    def _contrast(
        self, first: UserItem, second: UserItem, nodes: tuple[Tensor, Tensor], generator: torch.Generator
    ) -> Tensor:
        """λ times the contrast of users and that of items."""
        total = first[0].new_zeros(())
        for view, other, node_N, workspace in zip(first, second, nodes, self._workspaces, strict=True):
            chosen_N = node_N.unique()
            if len(chosen_N) > self.contrasted:
                chosen_N = chosen_N[torch.randperm(len(chosen_N), generator=generator)[: self.contrasted]]
            rows, candidates = view.index_select(0, chosen_N), other.index_select(0, chosen_N)
            total = total + info_nce(rows, candidates, self.temperature, workspace)
        return total * self.contrast


def info_nce(row_ND: Tensor, other_ND: Tensor, tau: float, workspace: Workspace | None = None) -> Tensor:
    """The mean of ``ln Σ_m exp(cos(x_n, y_m)/τ) − cos(x_n, y_n)/τ``.

    >>> same = torch.eye(2)
    >>> info_nce(same, same, 1.0)
    tensor(0.3133)
    """
    place_N = torch.arange(len(row_ND))
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

    Scores come from a third pass without noise. Vectors start normal, as for every graph model here, where the authors'
    code draws them Xavier-uniform.

    Yu et al., "Are Graph Augmentations Necessary? Simple Graph Contrastive Learning for Recommendation", SIGIR 2022.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model, generator = SimGCL(dim=8), torch.Generator().manual_seed(0)
    >>> model.start(train, generator)
    >>> factors, terms = model.step(torch.tensor([0, 1]), torch.tensor([0, 1]), generator)
    >>> list(terms)
    ['contrast']
    """

    summary = "SimGCL: a clean pass over the graph for the scores, and two noisy ones that are contrasted."
    formula = "sim(x_u, x_i), x = mean_k≥1 Â^k e; in training + λ·InfoNCE of two noisy passes"
    citation = "Yu et al., SIGIR 2022"
    cost = "three passes over the graph and one back; products of the step's users with each other, and of its items"
    use = "To compare with papers that use it; XSimGCL is after the same for less."

    contrast: float = param(
        default=0.5, at_least=0, help="weight λ of the contrast", search=Search(choices=(0.05, 0.1, 0.2, 0.5))
    )
    temperature: float = param(default=0.2, above=0, help="temperature τ of the contrast", search=Search(0.05, 0.3))

    def step(self, user_R: Tensor, item_P: Tensor, generator: torch.Generator) -> tuple[Factors, dict[str, Tensor]]:
        """The clean vectors, and the contrast of two noisy views.

        Noise is a constant to the gradient, so that a view is the clean vectors and what noise adds to them: the three
        passes forwards need only one backwards.
        """
        clean = self.propagate()
        views: list[UserItem] = []
        for _ in range(2):
            with torch.no_grad():
                user_UD, item_ID = self._disturbed([self._mean()], generator)[0]
                user_UD, item_ID = user_UD.sub_(clean[0]), item_ID.sub_(clean[1])
            views.append((clean[0] + user_UD, clean[1] + item_ID))
        contrast = self._contrast(views[0], views[1], (user_R, item_P), generator)
        return Factors(*clean, self.similarity), {"contrast": contrast}


@registry.register("xsimgcl")
class XSimGCL(ContrastiveGCN):
    r"""XSimGCL: one noisy pass whose mean gives the scores and is contrasted with one of its layers.

    .. math:: E^{k+1} = \hat A E^k + \varepsilon\,\mathrm{sign}(\hat A E^k) \odot z/|z|,\qquad
              E = \frac{1}{L} \sum_{k=1}^{L} E^k,\qquad \text{contrast of } E \text{ and } E^{l^*}

    Vectors start normal, as for every graph model here, where the authors' code draws them Xavier-uniform.

    Yu et al., "XSimGCL: Towards Extremely Simple Graph Contrastive Learning for Recommendation", TKDE 2023.

    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = XSimGCL(dim=8)
    >>> model.start(train, torch.Generator().manual_seed(0))
    >>> model.score_all(train.users_of_pairs()).shape
    torch.Size([2, 3])
    >>> XSimGCL(layers=2, contrast_layer=3)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: XSimGCL.contrast_layer: expected at most 2, the number of layers, received 3
    """

    summary = "XSimGCL: one noisy pass over the graph; its mean is contrasted with one of its layers."
    formula = "sim(x_u, x_i), x = mean_k≥1 Â^k e; in training noisy, + λ·InfoNCE of x and layer l*"
    citation = "Yu et al., TKDE 2023"
    cost = "one pass over the graph and one back; products of the step's users with each other, and of its items"
    use = "Where data is sparse and vectors should propagate out, so that lists reach items that few know."

    contrast_layer: int = param(default=1, at_least=1, help="the layer l* that the mean is contrasted with")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contrast_layer > self.layers:
            raise InputError(
                f"XSimGCL.contrast_layer: expected at most {self.layers}, the number of layers, "
                f"received {self.contrast_layer}"
            )

    def step(self, user_R: Tensor, item_P: Tensor, generator: torch.Generator) -> tuple[Factors, dict[str, Tensor]]:
        """The noisy vectors, and their contrast with the chosen layer."""
        layer = [float(depth == self.contrast_layer) for depth in range(self.layers + 1)]
        mean, one = self._disturbed([self._mean(), layer], generator)
        contrast = self._contrast(mean, one, (user_R, item_P), generator)
        return Factors(*mean, self.similarity), {"contrast": contrast}
