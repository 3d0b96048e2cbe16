"""The same list for everybody."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from shortlist.data import IntArray, Interactions
from shortlist.models.base import Baseline, registry


@registry.register("popularity")
class Popularity(Baseline):
    """Every user gets the items that most users met: ``s(u, i) = |{v : (v, i) in train}|``.

    >>> met = Interactions.from_pairs([0, 1, 1], [0, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = Popularity()
    >>> model.fit(met)
    >>> model.score_all(met.users_of_pairs()[:1]).tolist()
    [[2.0, 1.0, 0.0]]
    """

    summary = "The items that most users met, the same for everybody."
    formula = "number of users who met i"
    cost = "one count of the pairs"
    use = "As the floor that every other model must beat, and for users of whom nothing is known."

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.counts_I)

    def fit(self, train: Interactions, seed: int = 0) -> None:
        """Count the users of each item."""
        self.counts_I = torch.from_numpy(train.item_counts()).float()

    def score_all(self, users: IntArray, out: Tensor | None = None) -> Tensor:
        """The counts, once for each user."""
        rows_RI = self.counts_I.expand(len(users), -1)
        return rows_RI.clone() if out is None else out.copy_(rows_RI)

    def state(self) -> dict[str, Tensor]:
        """The counts."""
        return {"counts": self.counts_I}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over the counts."""
        self.counts_I = state["counts"]
