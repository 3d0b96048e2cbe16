"""The Top-K threshold of every user, kept from refresh to refresh."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from shortlist.scores import ScoreTable
from shortlist.thresholds.estimators import ESTIMATORS, Estimator


class Thresholds:
    """β of each user: 0 until the first refresh, then the estimate of the last one; never part of a gradient.

    >>> thresholds = Thresholds(n_users=2, n_items=3, k=1, refresh=5)
    >>> thresholds.due(epoch=4), thresholds.due(epoch=5)
    (False, True)
    >>> from shortlist.scores import FactoredTable
    >>> table = FactoredTable(torch.eye(2), torch.rand(3, 2), row_P=torch.tensor([0]), column_P=torch.tensor([1]))
    >>> thresholds.update(torch.tensor([0, 1]), table, torch.Generator())
    >>> torch.equal(thresholds.read(torch.tensor([1])), table.kth_largest(1)[1:])
    True
    """

    def __init__(
        self,
        n_users: int,
        n_items: int,
        k: int,
        *,
        estimator: Estimator = "auto",
        samples: int = 1000,
        refresh: int = 20,
    ) -> None:
        self.k, self.n_items, self.estimator, self.samples, self.refresh = k, n_items, estimator, samples, refresh
        self.value_U = torch.zeros(n_users)

    @property
    def needs_all(self) -> bool:
        """Whether the estimate is made from rows of the whole catalogue only."""
        return self.estimator == "exact"

    def due(self, epoch: int) -> bool:
        """Whether this epoch, counted from 1, refreshes: every ``refresh``-th does."""
        return epoch % self.refresh == 0

    @torch.no_grad()
    def update(self, users: Tensor, table: ScoreTable, generator: torch.Generator) -> None:
        """Estimate anew for the users that are the rows of the table."""
        estimate = ESTIMATORS[self.estimator]
        self.value_U[users] = estimate(table, self.k, self.n_items, self.samples, generator).to(self.value_U.dtype)

    def read(self, users: Tensor) -> Tensor:
        """β of the given users."""
        return self.value_U.index_select(0, users)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {"value": self.value_U}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state` gave."""
        self.value_U.copy_(state["value"])
