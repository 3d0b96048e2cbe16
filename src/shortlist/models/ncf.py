"""Neural collaborative filtering: a network scores a user and an item together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.models.base import PairScorer, registry
from shortlist.parameters import param
from shortlist.scores import look_up


@registry.register("ncf")
class NCF(PairScorer):
    r"""NeuMF: a generalised product of vectors and a network over other vectors, side by side.

    .. math:: s_{ui} = h \cdot \bigl[\,p_u \odot q_i \,;\; \mathrm{MLP}([p'_u ; q'_i])\,\bigr]

    The MLP has ReLU layers that narrow. The score is what the paper passes through a sigmoid: losses do that. Since no
    product of vectors gives the scores, positives stand against drawn items, not against the whole catalogue.
    BCE, which trains it unless a loss is named, draws one for each, the paper 4 (``training.negatives=4``); losses that
    have no number of their own draw 64.

    He et al., "Neural Collaborative Filtering", WWW 2017.

    >>> train = Interactions.from_pairs([0, 1], [0, 2], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = NCF(dim=8, hidden=(8, 4))
    >>> model.start(train, torch.Generator().manual_seed(0))
    >>> model.score_all(train.users_of_pairs()).shape
    torch.Size([2, 3])
    """

    summary = "NCF (NeuMF): a product of vectors and a network score a user and an item together."
    formula = "h·[p_u⊙q_i ; MLP([p′_u ; q′_i])]"
    citation = "He et al., WWW 2017"
    cost = "the network, for each user with each drawn item; for lists, with each item of the catalogue"
    use = "To compare with papers that use it; models of vectors train against the whole catalogue, which it cannot."

    dim: int = param(default=64, at_least=1, help="length of the vectors that are multiplied")
    hidden: tuple[int, ...] = param(
        default=(64, 32, 16, 8), help="widths of the network; the first is that of its input, half of it the user's"
    )
    init: float = param(default=0.01, above=0, help="standard deviation of the vectors at the start")

    def __post_init__(self) -> None:
        if len(self.hidden) < 2 or min(self.hidden) < 1 or self.hidden[0] % 2:
            raise InputError(
                f"NCF.hidden: expected at least two widths from 1 on, the first of them even, received {self.hidden}"
            )

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item)

    def start(self, train: Interactions, generator: torch.Generator) -> None:
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
        """Take over saved parameters."""
        self._take(state)
        self.eval()

    def _take(self, state: Mapping[str, Tensor]) -> None:
        depths = range(len(self.hidden) - 1)
        self.user, self.item = nn.Parameter(state["user"]), nn.Parameter(state["item"])
        self.user_input, self.item_input = nn.Parameter(state["user_input"]), nn.Parameter(state["item_input"])
        self.weights = nn.ParameterList(nn.Parameter(state[f"weights.{depth}"]) for depth in depths)
        self.biases = nn.ParameterList(nn.Parameter(state[f"biases.{depth}"]) for depth in depths)
        self.head = nn.Parameter(state["head"])

    def scores(self, user_R: Tensor, item_RM: Tensor) -> Tensor:
        """The first layer is applied to users and items apart, so that a user is multiplied once for all its items."""
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
    """Numbers between −bound and bound."""
    return torch.rand(*shape, generator=generator).mul_(2 * bound).sub_(bound)
