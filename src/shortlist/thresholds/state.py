"""The Top-K threshold of every row, stored between refreshes if rows have keys."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.scores import ScoreTable
from shortlist.thresholds.estimators import ESTIMATORS, Estimator, Previous

WITHOUT_CATALOGUE: tuple[Estimator, ...] = ("auto", "exact")
"""Estimators for rows with their own lists of candidates: the others sample the catalogue."""


class Thresholds:
    """β of each row, without gradient.

    The threshold of a row with a key (a user) is stored: 0 until the first refresh, then the last estimate. For rows
    without keys (``n_keys=None``: positions of a sequence, one-off queries) it is estimated from the table in every
    step.

    The incremental estimator is due in every epoch. It stores the max(2·k, k + 20) highest negatives of each key at the
    last full scan of the row. The next scan follows after half as many epochs as have passed, at most ``refresh``: a
    model changes fast at first and more slowly later.

    >>> thresholds = Thresholds(n_keys=2, n_items=3, k=1, refresh=5)
    >>> thresholds.due(epoch=4), thresholds.due(epoch=5)
    (False, True)
    >>> from shortlist.scores import FactoredTable
    >>> table = FactoredTable(torch.eye(2), torch.rand(3, 2), row_P=torch.tensor([0]), column_P=torch.tensor([1]))
    >>> thresholds.update(torch.tensor([0, 1]), table, torch.Generator())
    >>> torch.equal(thresholds.read(torch.tensor([1])), table.kth_largest(1)[1:])
    True
    >>> torch.equal(Thresholds(n_keys=None, n_items=3, k=1).estimate(table, torch.Generator()), table.kth_largest(1))
    True
    """

    def __init__(
        self,
        n_keys: int | None,
        n_items: int | None,
        k: int,
        *,
        estimator: Estimator = "auto",
        samples: int = 1000,
        refresh: int = 20,
    ) -> None:
        if n_items is None and estimator not in WITHOUT_CATALOGUE:
            raise InputError(
                f"loss.threshold: expected 'auto' or 'exact' for rows with their own lists, received {estimator!r}"
            )
        self.k, self.n_items, self.estimator, self.samples, self.refresh = k, n_items, estimator, samples, refresh
        self.has_keys = n_keys is not None
        self.value_U = torch.zeros(n_keys or 0)
        self.updates_U = torch.zeros(n_keys or 0, dtype=torch.int32)
        self.near_UM: Tensor | None = None  # highest negatives, for the incremental estimator

    @property
    def needs_all(self) -> bool:
        """Whether the estimator requires rows with the full catalogue."""
        return self.estimator == "exact"

    def due(self, epoch: int) -> bool:
        """Whether to refresh in this epoch, counted from 1: in every ``refresh``-th, or in each if that is cheap."""
        return self.has_keys and (self.estimator == "incremental" or epoch % self.refresh == 0)

    @torch.no_grad()
    def update(self, key_R: Tensor, table: ScoreTable, generator: torch.Generator) -> None:
        """Update the estimates for the keys of the table's rows."""
        updates_R = self.updates_U[key_R]
        near_RM = (
            self._near(key_R, updates_R, table) if self.estimator == "incremental" and table.is_full_catalogue else None
        )
        value_R = self.estimate(table, generator, Previous(self.value_U[key_R], updates_R, near_RM))
        self.value_U[key_R] = value_R.to(self.value_U.dtype)
        self.updates_U[key_R] = updates_R + 1

    @torch.no_grad()
    def estimate(self, table: ScoreTable, generator: torch.Generator, last: Previous | None = None) -> Tensor:
        """β of the table's rows, from the table and their previous state."""
        return ESTIMATORS[self.estimator](table, self.k, self.n_items or 0, self.samples, generator, last)

    def _near(self, key_R: Tensor, updates_R: Tensor, table: ScoreTable) -> Tensor:
        """Negatives near the top of the rows, updated if a full scan is due."""
        width = min(self.n_items or 0, max(2 * self.k, self.k + 20))
        if self.near_UM is None:
            self.near_UM = self.updates_U.new_full((len(self.value_U), width), -1)
        if len(key_R) and needs_full_scan(int(updates_R.min()), self.refresh):
            self.near_UM[key_R] = table.best_negatives(width).int()
        return self.near_UM[key_R].long()

    def read(self, key_R: Tensor) -> Tensor:
        """β of the given keys."""
        return self.value_U.index_select(0, key_R)

    def to(self, device: torch.device) -> None:
        """Move the state to a device."""
        self.value_U, self.updates_U = self.value_U.to(device), self.updates_U.to(device)
        self.near_UM = None if self.near_UM is None else self.near_UM.to(device)

    def state(self) -> dict[str, Tensor]:
        """The state for a checkpoint."""
        state = {"value": self.value_U, "updates": self.updates_U}
        return state if self.near_UM is None else state | {"near": self.near_UM}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load what :meth:`state` returned."""
        self.value_U.copy_(state["value"])
        self.updates_U.copy_(state["updates"])
        self.near_UM = state["near"].clone() if "near" in state else None


def needs_full_scan(updates: int, refresh: int) -> bool:
    """Whether the incremental estimator scans the full row after this number of updates.

    >>> [updates for updates in range(40) if needs_full_scan(updates, refresh=8)]
    [0, 1, 2, 4, 7, 11, 17, 25, 33]
    """
    at = 0
    while at < updates:
        at += min(refresh, 1 + at // 2)
    return at == updates
