"""What a model is: something that gives every item of the catalogue a score for a user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.data import IntArray, Interactions
from shortlist.parameters import Configured
from shortlist.registry import Registry


class Model(Configured, ABC):
    """Scores for users and items, both given as indices of the interactions it was made from.

    A model is *set up* with interactions (``fit`` for a baseline), after which it scores; ``state`` and ``load_state``
    carry everything that scoring needs, so that a saved run answers without its data.
    """

    summary: ClassVar[str] = ""
    """One line that says what the model does."""

    citation: ClassVar[str] = ""

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


registry: Registry[Model] = Registry("models")
