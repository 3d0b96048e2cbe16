"""The most popular items, the same for every user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from shortlist.data import IntArray, Interactions, Split, training_part
from shortlist.models.base import Baseline, registry
from shortlist.models.baselines.history_scorer import History
from shortlist.models.state import get_tensor


@registry.register("popularity")
class Popularity(Baseline):
    """The score of an item is its number of users: ``s(u, i) = |{v : (v, i) in train}|``.

    >>> train = Interactions.from_pairs([0, 1, 1], [0, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = Popularity().fit(train)
    >>> model.score(train.users_of_pairs()[:1]).tolist()
    [[2.0, 1.0, 0.0]]
    """

    summary = "The most popular items, the same for every user."
    formula = "number of users with item i"
    cost = "one count of the pairs"
    use = "As the baseline that every other model must beat, and for users without a history."

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.counts_I)

    def fit(self, data: Interactions | Split, *, seed: int = 0) -> Self:
        """Count the users of each item."""
        train = training_part(data)
        self.counts_I = torch.from_numpy(train.item_counts()).float()
        return self

    def fold_in(self, histories: Sequence[IntArray]) -> History:
        """The histories; they only affect which items are excluded from a list."""
        return History.from_lists(histories, self.n_items)

    def score(self, queries: IntArray | History, out: Tensor | None = None) -> Tensor:
        """The counts, once for each user."""
        rows_RI = self.counts_I.expand(len(queries), -1)
        return rows_RI.clone() if out is None else out.copy_(rows_RI)

    def state(self) -> dict[str, Tensor]:
        """The counts."""
        return {"counts": self.counts_I}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load the counts."""
        self.counts_I = get_tensor(state, "counts", None)
