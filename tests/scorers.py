"""Small scorers for tests."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import IntArray


@dataclass(frozen=True)
class Factors:
    """The product of user and item vectors."""

    user_UD: Tensor
    item_ID: Tensor

    @property
    def n_items(self) -> int:
        return len(self.item_ID)

    def score(self, queries: IntArray, out: Tensor | None = None) -> Tensor:
        return torch.mm(self.user_UD[torch.from_numpy(queries)], self.item_ID.T, out=out)


@dataclass(frozen=True)
class Given:
    """Scores from a table."""

    score_UI: Tensor

    @property
    def n_items(self) -> int:
        return self.score_UI.shape[1]

    def score(self, queries: IntArray, out: Tensor | None = None) -> Tensor:
        return self.score_UI[torch.from_numpy(queries)]


def random_factors(n_users: int, n_items: int, d: int, seed: int = 0) -> Factors:
    generator = torch.Generator().manual_seed(seed)
    return Factors(torch.randn(n_users, d, generator=generator), torch.randn(n_items, d, generator=generator))
