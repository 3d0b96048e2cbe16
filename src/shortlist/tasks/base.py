"""Tasks: data with the rules by which models are trained and evaluated on it. The training loop knows no task by name.

A task builds the batches of training, and the queries, relevant items and exclusions of evaluation. It also says how
its data is written to a run folder and read back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import polars as pl
import torch

from shortlist.metrics import Evaluation, EvaluationSet
from shortlist.registry import Registry
from shortlist.scores import Batch, Sizes
from shortlist.tasks.settings import BatchSettings

Part = Literal["valid", "test"]


class Batches(ABC):
    """The batches of an epoch."""

    rows_are_complete: bool = True
    """Whether a row holds all positives of its key, so that thresholds can be read from its score table."""

    reaches_all: bool = True
    """Whether rows are ranked among the full catalogue, or all of their candidates."""

    size: int

    @property
    @abstractmethod
    def steps(self) -> int:
        """Batches in an epoch."""

    @abstractmethod
    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """The batches of one epoch, in an order that the generator decides."""

    def complete_rows(self, size: int = 256) -> Iterator[Batch]:
        """All keys once, each with all of its positives, from which thresholds are estimated if rows are pairs."""
        return self.epoch(torch.Generator())  # right where rows are complete; others override it


class Task(ABC):
    """Data, and the rules of training and evaluating on it."""

    name: ClassVar[str]
    """The name in the registry and in ``config.json``."""

    queries: ClassVar[str] = "users"
    """What queries are, in one word: users, sequences, nodes."""

    @property
    @abstractmethod
    def train(self) -> Any:
        """The data that models are initialized with."""

    @property
    @abstractmethod
    def sizes(self) -> Sizes:
        """The sizes of the training data, for the state of losses."""

    @property
    @abstractmethod
    def n_candidates(self) -> int:
        """How many items a list can have: the size of the catalogue, or of the longest list of candidates."""

    @property
    @abstractmethod
    def query_ids(self) -> pl.Series:
        """The ids of the queries, named as the column that holds them in tables."""

    @abstractmethod
    def batches(self, settings: BatchSettings, sampled: int | None) -> Batches:
        """The batches of training; ``sampled`` is the usual number of drawn negatives, None for the full catalogue."""

    @abstractmethod
    def evaluation_set(self, part: Part) -> EvaluationSet | None:
        """What is evaluated on a part of the data; None where the part is missing or empty."""

    def baseline_value(self, metric: str, k: int) -> float | None:
        """The simplest baseline's value on validation, which a trained model must exceed; None without one."""
        return None

    def beyond_accuracy(self, test: Evaluation, ks: Sequence[int]) -> Mapping[str, float]:
        """Further metrics of the test lists, for example coverage."""
        return {}

    @abstractmethod
    def summary(self) -> list[str]:
        """The sizes of the data, one line each, for display."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest that changes with the data."""

    def difference_at_test(self, other: Task) -> str | None:
        """Why results on the test part of another task cannot be compared with those of this one; None if they can."""
        return None if self.fingerprint() == other.fingerprint() else "other data"

    @abstractmethod
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables that a run folder keeps of the data, by name."""

    @classmethod
    @abstractmethod
    def from_tables(cls, read: Callable[[str], pl.DataFrame], config: Mapping[str, Any]) -> Self:
        """The task of a run folder: ``read`` gives a table by its name."""


registry: Registry[Task] = Registry("tasks")
