"""What a model is: something that gives every item of the catalogue a score for a user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from shortlist.data import IntArray, Interactions
from shortlist.models.history_lookup import FoldInUsers
from shortlist.parameters import Configured
from shortlist.registry import Registry
from shortlist.scores import Factors
from shortlist.scores.similarity import inner_products

_BLOCK_USERS, _BLOCK_ITEMS = 8, 4096
"""How many users and items a joint model scores at once."""


class Model(Configured, ABC):
    """Scores for users and items, both given as indices of the interactions it was made from.

    A model is *set up* with interactions (``fit`` for a baseline), after which it scores; ``state`` and ``load_state``
    carry everything that scoring needs, so that a saved run answers without its data.
    """

    summary: ClassVar[str] = ""
    """One line that says what the model does."""

    formula: ClassVar[str] = ""
    """The score of item i for user u, in one line."""

    citation: ClassVar[str] = ""

    cost: ClassVar[str] = ""
    """What fitting computes, in words; where a loss trains the model, beside what the loss does."""

    use: ClassVar[str] = ""
    """When to use it, in one sentence."""

    @property
    @abstractmethod
    def n_items(self) -> int:
        """Size of the catalogue."""

    @abstractmethod
    def score_all(self, users: IntArray, out: Tensor | None = None) -> Tensor:
        """Scores of the whole catalogue, a row a user, written into ``out`` if it is given."""

    def score(self, users: IntArray, items: IntArray) -> Tensor:
        """The score of each pair (users[p], items[p])."""
        distinct, row_P = torch.unique(torch.from_numpy(users).long(), return_inverse=True)
        return self.score_all(distinct.numpy())[row_P, torch.from_numpy(items).long()]

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Everything that scoring needs, by name."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state` gave."""


class Baseline(Model):
    """A model that is solved in closed form, counted, or fitted by its own method: no loss, no epochs."""

    @abstractmethod
    def fit(self, train: Interactions, seed: int = 0) -> None:
        """Learn from the interactions."""


class VectorBaseline(Baseline):
    """A baseline of user and item vectors that also finds the vector of somebody who comes later."""

    @abstractmethod
    def fold_in(self, histories: Sequence[IntArray]) -> Tensor:
        """Vectors of users who were not there in fitting, from the items of their histories, a row for each."""

    @abstractmethod
    def score_vectors(self, vector_ND: Tensor, out: Tensor | None = None) -> Tensor:
        """Scores of the whole catalogue for vectors that :meth:`fold_in` gave."""


class TrainableModel(Model, nn.Module):
    """A model that is trained by a loss. Vectors, or scores of pairs, are what the loop makes its score tables from."""

    sampled: ClassVar[int | None] = None
    """How many negatives are drawn for a positive where the loss does not say; none: the whole catalogue stands
    against it."""

    default_loss: ClassVar[str] = "slatk_detached"
    """The name of the loss that trains the model where none is named."""

    @abstractmethod
    def start(self, train: Interactions, generator: torch.Generator) -> None:
        """Make the parameters for these interactions."""

    @abstractmethod
    def source(self) -> Factors | PairScorer:
        """What scores are made from: vectors, or the model itself where it scores user and item together."""

    def step(
        self, user_R: Tensor, item_P: Tensor, generator: torch.Generator
    ) -> tuple[Factors | PairScorer, dict[str, Tensor]]:
        """What the scores of one training step are made from, and terms that are added to its loss, by name.

        The step looks at the given users and positives; what is random in it is drawn from the generator.
        """
        return self.source(), {}

    def state(self) -> dict[str, Tensor]:
        """The parameters and buffers by name."""
        return {name: tensor.detach() for name, tensor in self.state_dict().items()}


class Factored(TrainableModel):
    """A model of user and item vectors. Subclasses say how it starts and what its vectors are.

    In training mode vectors are computed anew for each step; in evaluation mode once, until the mode changes again.
    """

    def __post_init__(self) -> None:
        self._kept: Factors | None = None

    @abstractmethod
    def factors(self) -> Factors:
        """The vectors as functions of the parameters, gradients included and nothing random."""

    def source(self) -> Factors:
        """The vectors."""
        return self.factors()

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.vectors().item_ID)

    def score_all(self, users: IntArray, out: Tensor | None = None) -> Tensor:
        """A product of the users' vectors with those of all items."""
        kept, user_R = self.vectors(), torch.from_numpy(users).long()
        return inner_products(kept.user_UD.index_select(0, user_R), kept.item_ID, kept.bias_I, out)

    @abstractmethod
    def arrival(self, row_P: Tensor, item_P: Tensor, n_rows: int) -> FoldInUsers:
        """Users who were not there in training, known by the items of their histories."""

    def score_vectors(self, vector_ND: Tensor, out: Tensor | None = None) -> Tensor:
        """Scores of the whole catalogue for users' vectors that are not the model's own."""
        kept = self.vectors()
        return inner_products(vector_ND, kept.item_ID, kept.bias_I, out)

    def train(self, mode: bool = True) -> Self:
        """Switch to training, or to evaluation; what was kept is forgotten."""
        self._kept = None
        return super().train(mode)

    @torch.no_grad()
    def vectors(self) -> Factors:
        """Vectors whose inner products are the scores, the bias excepted, without gradients."""
        if self._kept is not None:
            return self._kept
        factors = self.factors()
        bias_I = None if factors.bias_I is None else factors.bias_I.detach()
        user_UD, item_ID = factors.directions()
        vectors = Factors(user_UD.detach(), item_ID.detach(), "dot", bias_I)
        if not self.training:
            self._kept = vectors
        return vectors


def normal_users(train: Interactions, dim: int, deviation: float, generator: torch.Generator) -> Tensor:
    """Free vectors of the users; of those who have met nothing, and whom nothing will ever move, the zero vector."""
    user_UD = torch.randn(train.n_users, dim, generator=generator).mul_(deviation)
    user_UD[torch.from_numpy(train.user_counts()) == 0] = 0
    return user_UD


class PairScorer(TrainableModel):
    """A model that scores a user and an item together: no vectors whose products are the scores.

    Nothing bounds its scores, as a cosine bounds those of vectors; BCE takes them as they are.
    """

    sampled: ClassVar[int | None] = 64
    default_loss: ClassVar[str] = "bce"

    @abstractmethod
    def scores(self, user_R: Tensor, item_RM: Tensor) -> Tensor:
        """The score of each item of a row for the user of the row, gradients included."""

    def source(self) -> PairScorer:
        """The model itself."""
        return self

    @torch.no_grad()
    def score_all(self, users: IntArray, out: Tensor | None = None) -> Tensor:
        """Users and items are scored in blocks, so that no more than a block of hidden layers is held."""
        user_R, item_I = torch.from_numpy(users).long(), torch.arange(self.n_items)
        score_RI = torch.empty(len(user_R), self.n_items) if out is None else out
        for user_B, score_BI in zip(user_R.split(_BLOCK_USERS), score_RI.split(_BLOCK_USERS), strict=True):
            for item_C, score_BC in zip(item_I.split(_BLOCK_ITEMS), score_BI.split(_BLOCK_ITEMS, 1), strict=True):
                score_BC.copy_(self.scores(user_B, item_C.expand(len(user_B), -1)))
        return score_RI

    def score(self, users: IntArray, items: IntArray) -> Tensor:
        """The score of each pair, computed for the pairs alone."""
        with torch.no_grad():
            return self.scores(torch.from_numpy(users).long(), torch.from_numpy(items).long().unsqueeze(1)).squeeze(1)


registry: Registry[Model] = Registry("models")
