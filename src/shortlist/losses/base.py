"""What a loss is: its parameters, and a formula over a score table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.parameters import Configured
from shortlist.registry import Registry
from shortlist.scores import DenseTable, ScoreTable, Similarity
from shortlist.thresholds import Thresholds


class Loss(Configured, nn.Module, ABC):
    """A ranking loss. Subclasses declare parameters and write :meth:`value`; nothing else is needed.

    In a loop of one's own it is called with scores, ``loss(pos_scores, neg_scores)`` of shapes ``[B]`` and ``[B, N]``;
    Shortlist's loop calls it with a score table.

    A loss that learns or remembers something keeps it in parameters, which the loop's optimiser moves, or in buffers,
    which it moves itself; both are part of every checkpoint. It makes them in :meth:`start`, and hears of the passing
    of time through :meth:`before_epoch` and :meth:`after_step`. Where nobody tells it whose scores it sees, it treats
    them as seen for the first time.
    """

    formula: ClassVar[str] = ""
    """The loss of one positive i of user u, in one line."""

    target: ClassVar[str] = ""
    """The metric that the loss is made for."""

    citation: ClassVar[str] = ""

    similarity: ClassVar[Similarity] = "dot"
    """How scores are made, unless the model is told otherwise."""

    sampled: ClassVar[int | None] = None
    """How many negatives are drawn for a positive, unless training is told otherwise; none: the whole catalogue."""

    cost: ClassVar[str] = ""
    """What a step computes, in words: how often it passes over the items, and for what."""

    use: ClassVar[str] = ""
    """When to use it, in one sentence."""

    collapse_hint: ClassVar[str] = ""
    """What to change where training with this loss collapses."""

    def forward(
        self,
        scores: ScoreTable | Tensor,
        negatives: Tensor | None = None,
        *,
        threshold: Tensor | None = None,
        users: Tensor | None = None,
        pairs: Tensor | None = None,
        items: Tensor | None = None,
        n_items: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss of a score table, or of positive scores [B] with negative scores [B, N].

        Beside scores go what the loss needs of: Top-K thresholds [B]; users [B]; the numbers of the pairs among all of
        training [B]; the items that the negatives are [B, N]; the size of the catalogue; a generator.
        """
        if isinstance(scores, ScoreTable):
            return self.value(scores)
        if negatives is None:
            raise InputError(f"{type(self).__name__}: expected negative scores [B, N], received none")
        table = DenseTable.from_pairs(scores, negatives, threshold)
        table.user_R, table.pair_P, table.item_C = users, pairs, items
        table.n_items, table.generator = n_items, generator
        return self.value(table)

    @abstractmethod
    def value(self, table: ScoreTable) -> Tensor:
        """The formula: a scalar."""

    def start(self, n_users: int, n_items: int, n_pairs: int, generator: torch.Generator) -> None:
        """Make what is kept of users, items and pairs of training; called once, before the first epoch."""
        return

    def before_epoch(self, epoch: int) -> None:
        """Hear that an epoch, counted from 1, begins."""
        return

    def after_step(self, rate: float) -> None:
        """Move what the loss moves itself, after the optimiser's step at this learning rate."""
        return

    def thresholds(self, n_users: int, n_items: int) -> Thresholds | None:
        """The Top-K thresholds that the loop keeps for this loss, if the loss reads any."""
        return None

    def collapse_hint_for(self) -> str:
        """What of :attr:`collapse_hint` is left to try with the settings as they are."""
        return self.collapse_hint

    def weights(self, table: ScoreTable) -> Tensor | None:
        """How much each positive counts by where it stands against its row's threshold, if that is what decides."""
        return None


def mean_over_positives(value_P: Tensor) -> Tensor:
    """The mean, and 0 where there is no positive."""
    return value_P.sum() / max(1, len(value_P))


def mean_over_rows(table: ScoreTable, value_R: Tensor) -> Tensor:
    """The mean over rows that have a positive; 0 where there is none."""
    has_R = torch.bincount(table.row_P, minlength=table.n_rows) > 0
    return torch.where(has_R, value_R, 0 * value_R).sum() / max(1, int(has_R.sum()))


registry: Registry[Loss] = Registry("losses")
