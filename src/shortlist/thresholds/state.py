"""The Top-K threshold of every user, kept from refresh to refresh."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from shortlist.scores import ScoreTable
from shortlist.thresholds.estimators import ESTIMATORS, Estimator, Previous


class Thresholds:
    """β of each user: 0 until the first refresh, then the estimate of the last one; never part of a gradient.

    The incremental estimator is due in every epoch. It keeps 2·k negatives of each user (k + 20 where that is more),
    those that stood highest when the whole row was last looked at, and looks again after half as many epochs as it has
    seen, ``refresh`` at most: a model moves fast at first and more slowly later.

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
        self.updates_U = torch.zeros(n_users, dtype=torch.int32)
        self.near_UM: Tensor | None = None  # negatives near the top, where an estimator has looked for them

    @property
    def needs_all(self) -> bool:
        """Whether the estimate is made from rows of the whole catalogue only."""
        return self.estimator == "exact"

    def due(self, epoch: int) -> bool:
        """Whether this epoch, counted from 1, refreshes: every ``refresh``-th does, or every one if that is cheap."""
        return self.estimator == "incremental" or epoch % self.refresh == 0

    @torch.no_grad()
    def update(self, users: Tensor, table: ScoreTable, generator: torch.Generator) -> None:
        """Estimate anew for the users that are the rows of the table."""
        updates_R = self.updates_U[users]
        near_RM = (
            self._near(users, updates_R, table) if self.estimator == "incremental" and table.is_full_catalogue else None
        )
        last = Previous(self.value_U[users], updates_R, near_RM)
        value_R = ESTIMATORS[self.estimator](table, self.k, self.n_items, self.samples, generator, last)
        self.value_U[users] = value_R.to(self.value_U.dtype)
        self.updates_U[users] = updates_R + 1

    def _near(self, users: Tensor, updates_R: Tensor, table: ScoreTable) -> Tensor:
        """Negatives near the top of the users' rows, found anew when it is time."""
        width = min(self.n_items, max(2 * self.k, self.k + 20))
        if self.near_UM is None:
            self.near_UM = torch.full((len(self.value_U), width), -1, dtype=torch.int32)
        if len(users) and needs_full_scan(int(updates_R.min()), self.refresh):
            self.near_UM[users] = table.best_negatives(width).int()
        return self.near_UM[users].long()

    def read(self, users: Tensor) -> Tensor:
        """β of the given users."""
        return self.value_U.index_select(0, users)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        state = {"value": self.value_U, "updates": self.updates_U}
        return state if self.near_UM is None else state | {"near": self.near_UM}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state` gave."""
        self.value_U.copy_(state["value"])
        self.updates_U.copy_(state["updates"])
        self.near_UM = state["near"].clone() if "near" in state else None


def needs_full_scan(updates: int, refresh: int) -> bool:
    """Whether the incremental estimator looks at the whole row after so many updates.

    >>> [updates for updates in range(40) if needs_full_scan(updates, refresh=8)]
    [0, 1, 2, 4, 7, 11, 17, 25, 33]
    """
    at = 0
    while at < updates:
        at += min(refresh, 1 + at // 2)
    return at == updates
