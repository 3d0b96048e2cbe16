"""Neural collaborative filtering: a network scores a user and an item together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortlist.data import IntArray, Interactions
from shortlist.errors import InputError
from shortlist.models.base import PairScorer, cosines, registry
from shortlist.models.state import get_tensor
from shortlist.parameters import param
from shortlist.scores import look_up


@registry.register("ncf")
class NCF(PairScorer):
    r"""NeuMF: a generalised product of embeddings and a network over other embeddings, concatenated.

    .. math:: s_{ui} = h \cdot \bigl[\,p_u \odot q_i \,;\; \mathrm{MLP}([p'_u ; q'_i])\,\bigr]

    The MLP has ReLU layers of decreasing width. The score is the logit: losses apply the sigmoid of the paper. Scores
    are not inner products, so positives are compared with drawn items, not with the full catalogue. BCE, the default
    loss, draws one negative per positive, the paper 4 (``training.negatives=4``); with losses that set no number, 64
    are drawn.

    He et al., "Neural Collaborative Filtering", WWW 2017.

    >>> train = Interactions.from_pairs([0, 1], [0, 2], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = NCF(dim=8, hidden=(8, 4))
    >>> model.initialize(train, torch.Generator().manual_seed(0))
    >>> model.score(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "NCF (NeuMF): a product of embeddings and a network score pairs of a user and an item."
    formula = "h·[p_u⊙q_i ; MLP([p′_u ; q′_i])]"
    citation = "He et al., WWW 2017"
    cost = "the network, for each user with each drawn item; for lists, with each item of the catalogue"
    use = "For comparison with papers that use it; unlike embedding models it cannot train with the full catalogue."

    dim: int = param(default=64, at_least=1, help="dimension of the multiplied embeddings")
    hidden: tuple[int, ...] = param(
        default=(64, 32, 16, 8), help="widths of the network's layers; the first is the input, half of it for the user"
    )
    init: float = param(default=0.01, above=0, help="standard deviation of the initial embeddings")

    def __post_init__(self) -> None:
        if len(self.hidden) < 2 or min(self.hidden) < 1 or self.hidden[0] % 2:
            raise InputError(
                f"NCF.hidden: expected at least two widths of at least 1, the first even, received {self.hidden}"
            )

    def n_parameters(self, n_users: int, n_items: int) -> int:
        """Those of both kinds of vectors, and of the network."""
        layers = sum(width * following for width, following in pairwise(self.hidden))
        return (n_users + n_items) * (self.dim + self.hidden[0] // 2) + layers

    @property
    def n_users(self) -> int:
        """Number of users with vectors."""
        return len(self.user)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item)

    def initialize(self, train: Interactions, generator: torch.Generator) -> None:
        """Normal vectors, Xavier-uniform layers, a LeCun-uniform head, no biases."""
        half = self.hidden[0] // 2
        tables = {
            "user": (train.n_users, self.dim),
            "item": (train.n_items, self.dim),
            "user_input": (train.n_users, half),
            "item_input": (train.n_items, half),
        }
        state = {name: torch.randn(*shape, generator=generator) * self.init for name, shape in tables.items()}
        for depth, (width, following) in enumerate(pairwise(self.hidden)):
            bound = math.sqrt(6 / (width + following))
            state[f"weights.{depth}"] = _uniform(bound, following, width, generator=generator)
            state[f"biases.{depth}"] = torch.zeros(following)
        fan_in = self.dim + self.hidden[-1]
        state["head"] = _uniform(math.sqrt(3 / fan_in), fan_in, generator=generator)
        self._take(state)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load saved parameters."""
        half = self.hidden[0] // 2
        n_users, n_items = (len(get_tensor(state, name, None, self.dim)) for name in ("user", "item"))
        get_tensor(state, "user_input", n_users, half)
        get_tensor(state, "item_input", n_items, half)
        for depth, (width, following) in enumerate(pairwise(self.hidden)):
            get_tensor(state, f"weights.{depth}", following, width)
            get_tensor(state, f"biases.{depth}", following)
        get_tensor(state, "head", self.dim + self.hidden[-1])
        self._take(state)
        self.eval()

    def _take(self, state: Mapping[str, Tensor]) -> None:
        depths = range(len(self.hidden) - 1)
        self.user, self.item = nn.Parameter(state["user"]), nn.Parameter(state["item"])
        self.user_input, self.item_input = nn.Parameter(state["user_input"]), nn.Parameter(state["item_input"])
        self.weights = nn.ParameterList(nn.Parameter(state[f"weights.{depth}"]) for depth in depths)
        self.biases = nn.ParameterList(nn.Parameter(state[f"biases.{depth}"]) for depth in depths)
        self.head = nn.Parameter(state["head"])

    def item_similarity(self, items: IntArray) -> Tensor:
        """The cosine of the concatenated item embeddings."""
        return cosines(torch.cat([self.item, self.item_input], 1).detach(), items)

    def scores(self, user_R: Tensor, item_RM: Tensor) -> Tensor:
        """The first layer is applied to users and items separately: a user is multiplied once for all its items."""
        half = self.hidden[0] // 2
        of_product, of_network = self.head[: self.dim], self.head[self.dim :]
        weighted_RD = look_up(self.user, user_R) * of_product
        product_RM = torch.bmm(look_up(self.item, item_RM), weighted_RD.unsqueeze(2)).squeeze(2)
        first, *others = zip(self.weights, self.biases, strict=True)
        user_RH = F.linear(look_up(self.user_input, user_R), first[0][:, :half], first[1])
        x = F.relu(F.linear(look_up(self.item_input, item_RM), first[0][:, half:]) + user_RH.unsqueeze(1))
        for weight, bias in others:
            x = F.relu(F.linear(x, weight, bias))
        return product_RM + torch.mv(x.flatten(0, 1), of_network).view_as(product_RM)


def _uniform(bound: float, *shape: int, generator: torch.Generator) -> Tensor:
    """Uniform numbers between −bound and bound."""
    return torch.rand(*shape, generator=generator).mul_(2 * bound).sub_(bound)
