"""How an epoch is cut into steps: by users with the whole catalogue, by users with a shared sample, or by pairs.

A step is drawn first, as indices only, and becomes a score table when the model's vectors for that step are at hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shortlist.data import Interactions
from shortlist.models.base import PairScorer
from shortlist.negatives import PairNegatives, Sample
from shortlist.scores import (
    DenseTable,
    FactoredTable,
    Factors,
    ScoreTable,
    Workspace,
    item_vectors,
    look_up,
    row_vectors,
)


@dataclass(frozen=True)
class Step:
    """The rows of a step (a user each), their positives, and who stands against them: all items if nothing is said."""

    user_R: Tensor
    row_P: Tensor
    item_P: Tensor
    pair_P: Tensor
    """The number of each positive among all pairs of training."""
    shared_C: Tensor | None = None
    log_weight_C: Tensor | None = None
    drawn_RN: Tensor | None = None
    log_weight_RN: Tensor | None = None
    negatives_R: Tensor | None = None
    """How many items can be drawn for each row."""


Sampling = Callable[[Step, torch.Generator], Sample]
"""Draws the candidates that the rows of a step share."""


class Batches(ABC):
    """The steps of an epoch."""

    rows_are_users: bool = True
    """Whether a row holds all positives of its user, so that thresholds can be read off the table."""

    reaches_all: bool = True
    """Whether thresholds can be read off rows of the whole catalogue."""

    def __init__(self, train: Interactions, size: int) -> None:
        self.train, self.size = train, size
        self.active_users = np.flatnonzero(train.user_counts())

    @property
    def steps(self) -> int:
        """Steps in an epoch."""
        return -(-len(self.active_users) // self.size)

    @abstractmethod
    def epoch(self, generator: torch.Generator) -> Iterator[Step]:
        """The steps of one epoch, in an order that the generator decides."""

    def _user_steps(self, generator: torch.Generator) -> Iterator[Step]:
        order = self.active_users[torch.randperm(len(self.active_users), generator=generator).numpy()]
        for start in range(0, len(order), self.size):
            yield user_step(self.train, order[start : start + self.size])


def user_step(train: Interactions, users: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Step:
    """The step whose rows are the given users with all their positives."""
    row_P, pair_P = train.positions_of(users)
    item_P = torch.from_numpy(train.indices[pair_P]).long()
    return Step(torch.from_numpy(users), torch.from_numpy(row_P), item_P, torch.from_numpy(pair_P))


class WholeCatalogue(Batches):
    """Batches of users; every item stands against the positives. Nothing is sampled."""

    def epoch(self, generator: torch.Generator) -> Iterator[Step]:
        """Users in random order."""
        yield from self._user_steps(generator)


class SharedSample(Batches):
    """Batches of users; a sample of the catalogue, drawn for each step, stands against all their positives."""

    reaches_all = False

    def __init__(self, train: Interactions, size: int, sampling: Sampling) -> None:
        super().__init__(train, size)
        self.sampling = sampling

    def epoch(self, generator: torch.Generator) -> Iterator[Step]:
        """Users in random order, a sample a step."""
        for step in self._user_steps(generator):
            sample = self.sampling(step, generator)
            yield replace(step, shared_C=sample.item_C, log_weight_C=sample.log_weight_C)


class SampledPairs(Batches):
    """Batches of pairs; N items are drawn for each, by default of those that the user has not met: the papers' way.

    ``mass_I`` makes some items likelier than others, ``exclude=False`` lets items that the user has met be drawn, and
    ``weighted`` gives draws the weights that make them stand for everything that might have been drawn.
    """

    rows_are_users = False

    def __init__(
        self,
        train: Interactions,
        size: int,
        count: int,
        *,
        mass_I: Tensor | None = None,
        exclude: bool = True,
        weighted: bool = False,
    ) -> None:
        super().__init__(train, size)
        self.count, self.weighted = count, weighted
        self._user_P = torch.from_numpy(train.users_of_pairs()).long()
        self._item_P = torch.tensor(train.indices).long()
        indptr = torch.tensor(train.indptr) if exclude else torch.zeros(train.n_users + 1, dtype=torch.long)
        met_P = self._item_P[: int(indptr[-1])]
        self._negatives = PairNegatives(indptr, met_P, train.n_items, mass_I)
        self._negatives_U = (train.n_items - indptr.diff()).float()

    @property
    def steps(self) -> int:
        """Steps in an epoch."""
        return -(-self.train.n_pairs // self.size)

    def epoch(self, generator: torch.Generator) -> Iterator[Step]:
        """Pairs in random order."""
        for chosen in torch.randperm(self.train.n_pairs, generator=generator).split(self.size):
            user_B = self._user_P[chosen]
            drawn_BN = self._negatives.draw(user_B, self.count, generator)
            weight_BN = self._negatives.log_weights(user_B, drawn_BN) if self.weighted else None
            yield Step(
                user_B,
                torch.arange(len(chosen)),
                self._item_P[chosen],
                chosen,
                drawn_RN=drawn_BN,
                log_weight_RN=weight_BN,
                negatives_R=self._negatives_U[user_B],
            )


def score_table(step: Step, source: Factors | PairScorer, workspace: Workspace) -> ScoreTable:
    """The scores of a step, as far as a loss will ask for them.

    Vectors are looked up in a way whose gradient touches only the rows that were looked up, where the optimiser can
    use it.
    """
    table = _joint_table(step, source) if isinstance(source, PairScorer) else _factored_table(step, source, workspace)
    table.user_R, table.pair_P, table.negatives_R = step.user_R, step.pair_P, step.negatives_R
    table.n_items = source.n_items if isinstance(source, PairScorer) else len(source.item_ID)
    table.item_C = step.shared_C if step.drawn_RN is None else step.drawn_RN
    if table.item_C is None:
        table.item_C = torch.arange(table.n_items)
    return table


def _factored_table(step: Step, factors: Factors, workspace: Workspace) -> ScoreTable:
    row_RD = row_vectors(look_up(factors.user_UD, step.user_R), factors.similarity)
    if step.drawn_RN is not None:
        return _pair_table(step, row_RD, factors)
    if step.shared_C is not None:
        return _shared_table(step, row_RD, step.shared_C, factors, workspace)
    return FactoredTable(
        row_RD,
        item_vectors(factors.item_ID, factors.similarity),
        row_P=step.row_P,
        column_P=step.item_P,
        bias_C=factors.bias_I,
        bound=factors.bound,
        workspace=workspace,
    )


def _shared_table(step: Step, row_RD: Tensor, item_C: Tensor, factors: Factors, workspace: Workspace) -> FactoredTable:
    """Rows against a shared sample. The sample is sorted, so that a search tells which positives are in it."""
    place_P = torch.searchsorted(item_C, step.item_P).clamp_(max=len(item_C) - 1)
    column_P = torch.where(item_C[place_P] == step.item_P, place_P, -1)
    n_represented_R = None
    if step.log_weight_C is not None:  # weights make the sample stand for the whole catalogue
        count_R = torch.bincount(step.row_P, minlength=len(row_RD))
        n_represented_R = (len(factors.item_ID) - count_R).to(row_RD.dtype)
    bias_I = factors.bias_I
    return FactoredTable(
        row_RD,
        item_vectors(look_up(factors.item_ID, item_C), factors.similarity),
        row_P=step.row_P,
        column_P=column_P,
        positive_PD=item_vectors(look_up(factors.item_ID, step.item_P), factors.similarity),
        bias_C=None if bias_I is None else bias_I.index_select(0, item_C),
        positive_bias_P=None if bias_I is None else bias_I.index_select(0, step.item_P),
        log_weight_C=step.log_weight_C,
        n_represented_R=n_represented_R,
        bound=factors.bound,
        workspace=workspace,
    )


def _pair_table(step: Step, row_RD: Tensor, factors: Factors) -> DenseTable:
    """A row for each pair, its positive and the negatives drawn for it side by side."""
    assert step.drawn_RN is not None
    item_RM = torch.cat([step.item_P.unsqueeze(1), step.drawn_RN], 1)
    if item_RM.numel() < len(factors.item_ID):
        item_ND = item_vectors(look_up(factors.item_ID, item_RM.flatten()), factors.similarity)
    else:  # cheaper to bring every item to its length once than each item as often as it was drawn
        item_ND = F.embedding(item_RM.flatten(), item_vectors(factors.item_ID, factors.similarity))
    score_RM = torch.bmm(item_ND.view(*item_RM.shape, -1), row_RD.unsqueeze(2)).squeeze(2)
    if factors.bias_I is not None:
        score_RM = score_RM + factors.bias_I[item_RM]
    return _drawn_table(step, score_RM)


def _drawn_table(step: Step, score_RM: Tensor) -> DenseTable:
    """The table of positives, which stand first, and of what was drawn for them."""
    weight_RN = step.log_weight_RN
    return DenseTable(
        score_RM[:, 0],
        step.row_P,
        score_RM[:, 1:],
        positive_RC=None if weight_RN is None else weight_RN == -torch.inf,  # drawn for users who have met all
        log_weight=weight_RN,
        n_represented_R=None if weight_RN is None else step.negatives_R,
    )


def _joint_table(step: Step, model: PairScorer) -> DenseTable:
    """Scores of user and item together: of the drawn items, or, for thresholds and without gradients, of all."""
    if step.drawn_RN is not None:
        return _drawn_table(step, model.scores(step.user_R, torch.cat([step.item_P.unsqueeze(1), step.drawn_RN], 1)))
    score_RI = model.score_all(step.user_R.numpy())
    positive_RI = torch.zeros_like(score_RI, dtype=torch.bool)
    positive_RI[step.row_P, step.item_P] = True
    return DenseTable(score_RI[step.row_P, step.item_P], step.row_P, score_RI, positive_RC=positive_RI)
