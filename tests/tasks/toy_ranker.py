"""A toy learning-to-rank task and model: queries with documents of their own, features and graded labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from shortlist.data import FloatArray, IntArray
from shortlist.metrics import EvaluationSet
from shortlist.models import TrainableModel
from shortlist.models import registry as models
from shortlist.negatives import RowLists
from shortlist.ranking import RowItems
from shortlist.scores import Batch, ScoreEncoding, Sizes
from shortlist.tasks import Batches, BatchSettings, Part, Task
from shortlist.tasks import registry as tasks


@dataclass(frozen=True, eq=False)
class Documents:
    """Features of the documents of some queries, padded to the longest list; ``present_RC`` is false at padding."""

    feature_RCF: Tensor
    present_RC: Tensor

    def __len__(self) -> int:
        return len(self.feature_RCF)

    def __getitem__(self, rows: IntArray) -> Documents:
        place = torch.from_numpy(rows)
        return Documents(self.feature_RCF[place], self.present_RC[place])

    def to(self, device: torch.device) -> Documents:
        return Documents(self.feature_RCF.to(device), self.present_RC.to(device))


@dataclass(frozen=True, eq=False)
class Judged:
    """Queries with judged documents."""

    features: list[FloatArray]
    grades: list[list[float]]

    def documents(self, longest: int) -> Documents:
        feature_RCF = torch.zeros(len(self.features), longest, self.features[0].shape[1])
        present_RC = torch.zeros(len(self.features), longest, dtype=torch.bool)
        for row, features in enumerate(self.features):
            feature_RCF[row, : len(features)] = torch.from_numpy(features)
            present_RC[row, : len(features)] = True
        return Documents(feature_RCF, present_RC)


class QueryBatches(Batches):
    """Batches of queries, each with its own list."""

    def __init__(self, judged: Judged, longest: int, size: int) -> None:
        self.judged, self.longest, self.size = judged, longest, size

    @property
    def steps(self) -> int:
        return -(-len(self.judged.grades) // self.size)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        documents = self.judged.documents(self.longest)
        for chosen in torch.randperm(len(documents), generator=generator).split(self.size):
            rows = documents[chosen.numpy()]
            grade_RC = torch.zeros(rows.present_RC.shape)
            for row, query in enumerate(chosen.tolist()):
                grade_RC[row, : len(self.judged.grades[query])] = torch.tensor(self.judged.grades[query])
            row_P, item_P = (grade_RC > 0).nonzero(as_tuple=True)
            grade_P, lists = grade_RC[row_P, item_P], RowLists(rows.present_RC)
            yield Batch(rows, len(rows), row_P=row_P, item_P=item_P, grade_P=grade_P, candidates=lists)


@tasks.register("toy_ranking")
class ToyRanking(Task):
    """Queries of train, valid and test; an item is the column of a document in its query's list."""

    name: ClassVar[str] = "toy_ranking"
    queries: ClassVar[str] = "queries"

    def __init__(self, parts: Mapping[str, Judged]) -> None:
        self.parts = parts
        self.longest = max(len(grades) for part in parts.values() for grades in part.grades)

    @property
    def train(self) -> int:
        return int(self.parts["train"].features[0].shape[1])

    @property
    def sizes(self) -> Sizes:
        return Sizes()

    @property
    def n_candidates(self) -> int:
        return self.longest

    @property
    def query_ids(self) -> pl.Series:
        return pl.Series("query", range(len(self.parts["test"].grades)))

    def batches(self, settings: BatchSettings, sampled: int | None) -> QueryBatches:
        return QueryBatches(self.parts["train"], self.longest, settings.batch or 16)

    def evaluation_set(self, part: Part) -> EvaluationSet:
        judged = self.parts[part]
        documents, columns = judged.documents(self.longest), [list(range(len(each))) for each in judged.grades]
        truth = RowItems.of_lists(columns, self.longest, judged.grades)
        kept = np.flatnonzero(truth.counts())
        rows = RowItems(truth.indptr, truth.items_P, kept, self.longest, truth.grades_P)
        return EvaluationSet(documents[kept], kept, rows, n_skipped=len(documents) - len(kept))

    def summary(self) -> list[str]:
        return [f"{len(part.grades)} queries in {name}" for name, part in self.parts.items()]

    def fingerprint(self) -> str:
        return hashlib.blake2b(str([part.grades for part in self.parts.values()]).encode()).hexdigest()

    def tables(self) -> dict[str, pl.DataFrame]:
        return {
            name: pl.DataFrame({"features": [each.tolist() for each in part.features], "grades": part.grades})
            for name, part in self.parts.items()
        }

    @classmethod
    def from_tables(cls, read: Callable[[str], pl.DataFrame], config: Mapping[str, Any]) -> Self:
        tables = {name: read(name) for name in ("train", "valid", "test")}
        return cls(
            {
                name: Judged(
                    [np.array(each, np.float32) for each in table["features"].to_list()], table["grades"].to_list()
                )
                for name, table in tables.items()
            }
        )


@models.register("toy_linear_ranker")
class ToyLinearRanker(TrainableModel):
    """A weight for each feature."""

    task: ClassVar[str] = "toy_ranking"
    default_loss: ClassVar[str] = "listnet"
    summary = "A linear ranker."
    formula = "w·x"

    @property
    def n_items(self) -> int:
        return len(self.weight)

    def initialize(self, data: int, generator: torch.Generator) -> None:
        self.weight = nn.Parameter(torch.randn(data, generator=generator) * 0.01)

    def encode(self, batch: Batch, generator: torch.Generator | None = None) -> ScoreEncoding:
        return ScoreEncoding(batch.rows.feature_RCF @ self.weight)

    @torch.no_grad()
    def score(self, queries: Documents, out: Tensor | None = None) -> Tensor:
        queries = queries.to(self.device)
        return (queries.feature_RCF @ self.weight).masked_fill(~queries.present_RC, -torch.inf)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.weight = nn.Parameter(state["weight"])
        self.eval()
