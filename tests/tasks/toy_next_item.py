"""A toy next-item task and model: everything that a new task needs, in one file.

A row is a position of a sequence; its vector is the mean of the vectors of the items before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from shortlist.data import IntArray
from shortlist.metrics import EvaluationSet
from shortlist.models import TrainableModel
from shortlist.models import registry as models
from shortlist.parameters import param
from shortlist.ranking import RowItems
from shortlist.scores import Batch, Sizes, VectorEncoding
from shortlist.tasks import Batches, BatchSettings, Part, Task
from shortlist.tasks import registry as tasks


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Sequences of items one after another, and where each begins: no padding."""

    items: Tensor
    start_R: Tensor

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Prefixes:
        starts = np.cumsum([0, *(len(each) for each in sequences)])[:-1]
        return cls(torch.tensor([item for each in sequences for item in each]), torch.from_numpy(starts))

    def to(self, device: torch.device) -> Prefixes:
        return Prefixes(self.items.to(device), self.start_R.to(device))


class Histories:
    """Queries: whole histories, of which rows can be taken."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self.sequences = list(sequences)

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, rows: IntArray) -> Histories:
        return Histories([self.sequences[row] for row in rows])


class PositionBatches(Batches):
    """A row for each position after the first of each sequence; rows have no keys."""

    def __init__(self, sequences: Sequence[Sequence[int]], size: int) -> None:
        self.size = size
        self.pairs = [(each[:place], each[place]) for each in sequences for place in range(1, len(each))]

    @property
    def steps(self) -> int:
        return -(-len(self.pairs) // self.size)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        for chosen in torch.randperm(len(self.pairs), generator=generator).split(self.size):
            pairs = [self.pairs[place] for place in chosen.tolist()]
            rows, items = Prefixes.of([prefix for prefix, _ in pairs]), torch.tensor([item for _, item in pairs])
            yield Batch(rows, len(pairs), row_P=torch.arange(len(pairs)), item_P=items)


@tasks.register("toy_next_item")
class ToyNextItem(Task):
    """The last item of each sequence is test, the one before it validation."""

    name: ClassVar[str] = "toy_next_item"
    queries: ClassVar[str] = "sequences"

    def __init__(self, sequences: Sequence[Sequence[int]], n_items: int) -> None:
        self.sequences, self.n_items = [list(each) for each in sequences], n_items

    @property
    def train(self) -> int:
        return self.n_items

    @property
    def sizes(self) -> Sizes:
        return Sizes(n_keys=None, n_items=self.n_items, n_pairs=None)

    @property
    def n_candidates(self) -> int:
        return self.n_items

    @property
    def query_ids(self) -> pl.Series:
        return pl.Series("sequence", range(len(self.sequences)))

    def batches(self, settings: BatchSettings, sampled: int | None) -> PositionBatches:
        return PositionBatches([each[:-2] for each in self.sequences], settings.batch or 64)

    def evaluation_set(self, part: Part) -> EvaluationSet:
        cut = 2 if part == "valid" else 1
        truth = RowItems.of_lists([[each[-cut]] for each in self.sequences], self.n_items)
        return EvaluationSet(Histories([each[:-cut] for each in self.sequences]), np.arange(len(truth)), truth)

    def summary(self) -> list[str]:
        return [f"{len(self.sequences)} sequences of {self.n_items} items"]

    def fingerprint(self) -> str:
        return hashlib.blake2b(str(self.sequences).encode()).hexdigest()

    def tables(self) -> dict[str, pl.DataFrame]:
        return {"sequences": pl.DataFrame({"items": self.sequences}), "size": pl.DataFrame({"n_items": [self.n_items]})}

    @classmethod
    def from_tables(cls, read: Callable[[str], pl.DataFrame], config: Mapping[str, Any]) -> Self:
        return cls(read("sequences")["items"].to_list(), int(read("size")["n_items"][0]))


@models.register("toy_mean_of_history")
class ToyMeanOfHistory(TrainableModel):
    """The mean of the history's item vectors, mapped; scores are cosines with the items."""

    task: ClassVar[str] = "toy_next_item"
    summary = "The mapped mean of a history."
    formula = "cos(V·mean_h e_h, e_i)"

    dim: int = param(default=16, at_least=1, help="length of the vectors")

    @property
    def n_items(self) -> int:
        return len(self.item)

    def initialize(self, data: int, generator: torch.Generator) -> None:
        self.item = nn.Parameter(torch.randn(data, self.dim, generator=generator))
        self.map = nn.Parameter(torch.eye(self.dim))

    def _rows(self, rows: Prefixes) -> Tensor:
        return embedding_bag(rows.items, self.item, rows.start_R, mode="mean") @ self.map

    def encode(self, batch: Batch, generator: torch.Generator | None = None) -> VectorEncoding:
        return VectorEncoding(self._rows(batch.rows), self.item, "cosine")

    @torch.no_grad()
    def score(self, queries: Histories, out: Tensor | None = None) -> Tensor:
        rows = Prefixes.of(queries.sequences).to(self.device)
        return torch.nn.functional.normalize(self._rows(rows)) @ torch.nn.functional.normalize(self.item).T

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.item, self.map = nn.Parameter(state["item"]), nn.Parameter(state["map"])
        self.eval()
