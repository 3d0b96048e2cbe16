"""A fitted model beside the data it was fitted on, in memory or on disk: what recommendations are made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from shortlist.data import Interactions, Split
from shortlist.errors import InputError
from shortlist.losses import Loss
from shortlist.losses import registry as losses
from shortlist.models import Model
from shortlist.runs.ids import Ids
from shortlist.tasks import Collaborative, Task
from shortlist.training import TrainingSettings, fold_in


class FittedModel(ABC):
    """A model, the task that it was fitted on, and the configuration that says how."""

    @property
    @abstractmethod
    def model(self) -> Model:
        """The fitted model."""

    @property
    @abstractmethod
    def task(self) -> Task:
        """The data that the model was fitted and evaluated on, with the rules of its task."""

    @property
    @abstractmethod
    def config(self) -> Mapping[str, Any]:
        """What was done: the sections of ``config.json``."""

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, Any]:
        """What was measured: the content of ``metrics.json``."""

    @property
    @abstractmethod
    def per_user(self) -> pl.DataFrame:
        """A row for each query of the test part: its id and a column for each metric."""

    @property
    def is_final(self) -> bool:
        """Whether the model was refitted on all data after it was measured."""
        return bool(self.config.get("final"))

    def check_measurable(self, owner: str) -> None:
        """Refuse to measure a model that was trained on the test part too."""
        if self.is_final:
            raise InputError(
                f"{owner}: expected a model that has not seen the test part, received one refitted on all data "
                "(final); metrics.json has the metrics from before"
            )

    @property
    def split(self) -> Split:
        """The interactions that the model was fitted and evaluated on."""
        if not isinstance(self.task, Collaborative):
            raise InputError(f"expected a model of users and items, received one of the task {self.task.name}")
        return self.task.split

    @cached_property
    def users(self) -> Ids:
        """The users by their ids."""
        return Ids("user", self.split.train.user_ids)

    @cached_property
    def items(self) -> Ids:
        """The items by their ids."""
        return Ids("item", self.split.train.item_ids)

    @property
    def known_pairs(self) -> list[Interactions]:
        """Every pair that is known: those of train, validation and test. Recommendations leave them out."""
        split = self.split
        return [part for part in (split.train, split.valid, split.test) if part is not None]

    @property
    def measured_exclusions(self) -> list[Interactions]:
        """What the measured test lists leave out, by the protocol: the pairs of train, and usually of validation."""
        return list(self.split.exclusions("test"))

    def loss(self) -> Loss | None:
        """The loss that trained the model, without its state."""
        if "loss" not in self.config:
            return None
        settings = dict(self.config["loss"])
        return losses[settings.pop("name")](**settings)

    def fold_in(self, histories: Sequence[Sequence[Any] | pl.Series]) -> Any:
        """Queries of users who were not in training, by the ids of the items of their histories.

        Models without vectors of users take histories as they are; else the loss and settings that trained the model
        find the vectors (:func:`shortlist.training.fold_in`).
        """
        training = TrainingSettings(**self.config["training"]) if "training" in self.config else None
        return fold_in(self.model, self.loss(), [self.items.indices(history) for history in histories], training)
