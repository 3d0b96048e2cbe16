"""Models score the items of a catalogue for queries: users, histories, or rows with their own candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from shortlist.data import IntArray, Interactions, Split
from shortlist.errors import InputError
from shortlist.models.folded import FoldedQueries, FoldInUsers
from shortlist.parameters import Configured
from shortlist.registry import Registry
from shortlist.scores import (
    Batch,
    Embeddings,
    Encoding,
    ScoreEncoding,
    VectorEncoding,
    look_up,
    positive_and_drawn,
)
from shortlist.scores.similarity import inner_products, with_length

_BLOCK_USERS, _BLOCK_ITEMS = 8, 4096
"""Numbers of users and items that a pair scorer scores at once."""


class Model(Configured, ABC):
    """Scores of items for queries.

    For collaborative models a query is a user, given by its index in the training interactions. ``fit`` learns from
    data. ``state`` and ``load_state`` contain everything that scoring needs, so a saved model works without its data.
    """

    task: ClassVar[str] = "collaborative"
    """The name of the task that the model is for."""

    summary: ClassVar[str] = ""
    """A one-line description of the model."""

    formula: ClassVar[str] = ""
    """The score of item i for user u, in one line."""

    citation: ClassVar[str] = ""

    cost: ClassVar[str] = ""
    """The computational cost of fitting; for models trained by a loss, in addition to that of the loss."""

    use: ClassVar[str] = ""
    """When to use it, in one sentence."""

    is_trained: ClassVar[bool] = False
    """Whether a loss trains the model over epochs; otherwise ``fit`` solves or counts."""

    @abstractmethod
    def fit(self, data: Any, *, seed: int = 0) -> Self:
        """Learn from data and return the fitted model."""

    @property
    @abstractmethod
    def n_items(self) -> int:
        """Size of the catalogue."""

    @property
    def n_users(self) -> int | None:
        """Number of users that the state holds something of; None for models that keep nothing of users."""
        return None

    def n_parameters(self, n_users: int, n_items: int) -> int:
        """How many numbers fitting holds at least, to refuse sizes that no memory has; 0 where unknown."""
        return 0

    @abstractmethod
    def score(self, queries: Any, out: Tensor | None = None) -> Tensor:
        """Scores of the full catalogue [R, I] for R queries, written into ``out`` if it is given."""

    def score_pairs(self, users: IntArray, items: IntArray) -> Tensor:
        """The score of each pair (users[p], items[p])."""
        distinct, row_P = torch.unique(torch.from_numpy(users).long(), return_inverse=True)
        score_RI = self.score(distinct.numpy())
        return score_RI[row_P.to(score_RI.device), torch.from_numpy(items).long().to(score_RI.device)]

    def catalogue(self) -> Embeddings:
        """The item embeddings of embedding models: scores are their inner products with those of queries."""
        raise InputError(f"{type(self).__name__}: expected an embedding model, received one of another kind")

    def item_similarity(self, items: IntArray) -> Tensor:
        """Similarities of the full catalogue to each of the given items [R, I]."""
        name = type(self).__name__
        raise InputError(f"{name}: expected a model with item similarities, received one without")

    def fold_in(self, histories: Sequence[IntArray]) -> FoldedQueries:
        """Queries of users who were not in training, from the items of their histories."""
        raise InputError(f"{type(self).__name__}: expected a model that supports histories, received one that does not")

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Everything that scoring needs, by name."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load what :meth:`state` returned."""


class Baseline(Model):
    """A model that is solved in closed form, counted, or fitted by its own method: no loss, no epochs."""

    @abstractmethod
    def fit(self, data: Interactions | Split, *, seed: int = 0) -> Self:
        """Learn from interactions, or from the training part of a split, and return the fitted model."""


class TrainableModel(Model, nn.Module):
    """A model that a loss trains.

    The loop calls :meth:`initialize` once and :meth:`encode` for every batch; the encoding creates the score table that
    the loss reads.
    """

    is_trained: ClassVar[bool] = True

    sampled: ClassVar[int | None] = None
    """The number of negatives drawn per positive if the loss sets none; None: the full catalogue."""

    default_loss: ClassVar[str] = "slatk_detached"
    """The name of the loss that trains the model by default."""

    @abstractmethod
    def initialize(self, data: Any, generator: torch.Generator) -> None:
        """Create the parameters for the training data of the task."""

    @abstractmethod
    def encode(self, batch: Batch, generator: torch.Generator | None = None) -> Encoding:
        """The rows of a batch as embeddings or scores, with terms that are added to the loss.

        Random numbers of a training step are drawn from the generator; without one, encoding is deterministic.
        """

    def fit(self, data: Any, *, loss: Any = None, seed: int = 0, **settings: Any) -> Self:
        """Train with a loss (a name, an instance, or :attr:`default_loss`) and return the model.

        ``data`` is a split, interactions or a task; ``settings`` are those of :class:`shortlist.training.Training`.
        :func:`shortlist.fit` also evaluates the model and returns a recommender.

        >>> from shortlist.models import MF
        >>> train = Interactions.from_pairs([0, 1, 1], [0, 1, 2], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
        >>> MF(dim=8).fit(train).score([0]).shape
        torch.Size([1, 3])
        """
        from shortlist.training import fit_model  # the only import from a higher layer: training needs the loop

        fit_model(self, data, loss=loss, seed=seed, **settings)
        return self

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    def state(self) -> dict[str, Tensor]:
        """The parameters and buffers by name."""
        return {name: tensor.detach().cpu() for name, tensor in self.state_dict().items()}


class Factored(TrainableModel):
    """A collaborative model of user and item embeddings. Subclasses define :meth:`initialize` and :meth:`embeddings`.

    In training mode embeddings are computed in each step; in evaluation mode once, until the mode changes.
    """

    def __post_init__(self) -> None:
        self._kept: Embeddings | None = None
        self._kept_normalized: Embeddings | None = None

    def n_parameters(self, n_users: int, n_items: int) -> int:
        """Those of the vectors of users and items."""
        return (n_users + n_items) * int(self.settings().get("dim", 0))

    @abstractmethod
    def embeddings(self) -> Embeddings:
        """The embeddings as deterministic functions of the parameters, with gradients."""

    def training_embeddings(self, batch: Batch, generator: torch.Generator) -> tuple[Embeddings, dict[str, Tensor]]:
        """The embeddings of one training step, and terms that are added to its loss, by name."""
        return self.embeddings(), {}

    def encode(self, batch: Batch, generator: torch.Generator | None = None) -> VectorEncoding:
        """The embeddings of the batch's users and of all items."""
        terms: Mapping[str, Tensor] = {}
        if generator is not None:
            vectors, terms = self.training_embeddings(batch, generator)
        elif self.training:
            vectors = self.embeddings()
        else:
            if self._kept is None:
                with torch.inference_mode(False):
                    self._kept = self.embeddings()
            vectors = self._kept
        row_RD = look_up(vectors.user_UD, batch.rows)
        return VectorEncoding(row_RD, vectors.item_ID, vectors.similarity, vectors.bias_I, terms)

    @property
    def n_users(self) -> int | None:
        """Number of users with a vector of their own."""
        user_UD = self._parameters.get("user")
        return None if user_UD is None else len(user_UD)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.vectors().item_ID)

    def score(self, queries: IntArray | Tensor, out: Tensor | None = None) -> Tensor:
        """Inner products of the queries' embeddings with those of all items.

        Queries are indices of users, or embeddings [R, D] of users who were not in training.
        """
        vectors = self.vectors()
        if isinstance(queries, Tensor) and queries.is_floating_point():
            row_RD = queries
        else:
            row_RD = vectors.user_UD.index_select(0, torch.as_tensor(queries, device=vectors.user_UD.device).long())
        return inner_products(row_RD, vectors.item_ID, vectors.bias_I, out)

    def catalogue(self) -> Embeddings:
        """The embeddings whose inner products are the scores."""
        return self.vectors()

    def item_similarity(self, items: IntArray) -> Tensor:
        """The cosine of item embeddings."""
        return cosines(self.vectors().item_ID, items)

    def fold_in(self, histories: Sequence[IntArray]) -> FoldInUsers:
        """The model's encoding of histories; free user embeddings, if the model has them, must still be learned."""
        raise InputError(f"{type(self).__name__}: expected a model that supports histories, received one that does not")

    def train(self, mode: bool = True) -> Self:
        """Switch to training or evaluation mode; cached embeddings are discarded."""
        self._kept = self._kept_normalized = None
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """On another device what was made from parameters and buffers is dropped, or made anew."""
        before = [tensor.device for tensor in self.state_dict().values()]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if before != [tensor.device for tensor in self.state_dict().values()]:
            self._kept = self._kept_normalized = None
            self._moved()
        return self

    def _moved(self) -> None:
        """Make anew on another device what is neither parameter nor buffer."""
        return

    def vectors(self) -> Embeddings:
        """Embeddings whose inner products are the scores, except for the bias, without gradients."""
        if self._kept_normalized is not None:
            return self._kept_normalized
        if next(self.parameters(), None) is None:
            raise InputError(f"{type(self).__name__}: expected a fitted model, received one that was not fitted")
        with torch.inference_mode(False), torch.no_grad():  # the cached tensors may be used in training later
            embeddings = self.embeddings()
            normalized = embeddings.normalized()
        bias_I = None if embeddings.bias_I is None else embeddings.bias_I.detach()
        vectors = Embeddings(normalized.user_UD.detach(), normalized.item_ID.detach(), "dot", bias_I)
        if not self.training:
            self._kept_normalized = vectors
        return vectors


def normal_users(train: Interactions, dim: int, deviation: float, generator: torch.Generator) -> Tensor:
    """Normally distributed user embeddings; zeros for users without interactions, who are never trained."""
    user_UD = torch.randn(train.n_users, dim, generator=generator).mul_(deviation)
    user_UD[torch.from_numpy(train.user_counts()) == 0] = 0
    return user_UD


class PairScorer(TrainableModel):
    """A collaborative model that scores pairs of a user and an item: its scores are not inner products.

    Its scores are unbounded, unlike cosines; BCE, for example, accepts any score.
    """

    sampled: ClassVar[int | None] = 64
    default_loss: ClassVar[str] = "bce"

    @abstractmethod
    def scores(self, user_R: Tensor, item_RM: Tensor) -> Tensor:
        """The score of each item of a row for the user of the row, with gradients."""

    def encode(self, batch: Batch, generator: torch.Generator | None = None) -> ScoreEncoding:
        """Scores of the drawn items; of the full catalogue, without gradients, if none are drawn."""
        if batch.drawn is None:
            return ScoreEncoding(self.score(batch.rows), self.n_items)
        return ScoreEncoding(self.scores(batch.rows, positive_and_drawn(batch, batch.drawn)), self.n_items)

    @torch.no_grad()
    def score(self, queries: IntArray | Tensor, out: Tensor | None = None) -> Tensor:
        """Users and items are scored in blocks, so that only one block of hidden layers is in memory."""
        user_R = torch.as_tensor(queries, device=self.device).long()
        item_I = torch.arange(self.n_items, device=self.device)
        score_RI = torch.empty(len(user_R), self.n_items, device=self.device) if out is None else out
        for user_B, score_BI in zip(user_R.split(_BLOCK_USERS), score_RI.split(_BLOCK_USERS), strict=True):
            for item_C, score_BC in zip(item_I.split(_BLOCK_ITEMS), score_BI.split(_BLOCK_ITEMS, 1), strict=True):
                score_BC.copy_(self.scores(user_B, item_C.expand(len(user_B), -1)))
        return score_RI

    def score_pairs(self, users: IntArray, items: IntArray) -> Tensor:
        """The score of each pair, computed for the pairs only."""
        with torch.no_grad():
            user_P, item_P = (torch.as_tensor(index, device=self.device).long() for index in (users, items))
            return self.scores(user_P, item_P.unsqueeze(1)).squeeze(1)


def cosines(vector_ID: Tensor, items: IntArray) -> Tensor:
    """The cosines of the given rows of a matrix with all rows."""
    unit_ID = with_length(vector_ID)
    return unit_ID.index_select(0, torch.as_tensor(items, device=unit_ID.device).long()) @ unit_ID.T


registry: Registry[Model] = Registry("models")
