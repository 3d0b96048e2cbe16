"""Who stands against the positives: items drawn for a pair, or a sample that a whole batch shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Distribution = Literal["uniform", "popularity"]


@dataclass(frozen=True)
class Sample:
    """Items that a batch shares as candidates, each once; ``log_weight_C`` corrects for how they were drawn."""

    item_C: Tensor
    log_weight_C: Tensor | None


class UniformNegatives:
    """Items that a user has not met, each with the same probability, drawn independently.

    No draw is ever rejected. The n-th item that user u has not met is ``n + #{k : p_k − k ≤ n}``, where p₀ < p₁ < …
    are the items met: the keys ``p_k − k`` of all users lie in one sorted array, and a draw is one search in it.

    >>> negatives = UniformNegatives(torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1]), n_items=4)
    >>> drawn = negatives.draw(torch.tensor([0, 1]), 50, torch.Generator().manual_seed(0))
    >>> sorted(set(drawn[0].tolist())), sorted(set(drawn[1].tolist()))
    ([1, 3], [0, 2, 3])
    """

    def __init__(self, indptr: Tensor, indices: Tensor, n_items: int) -> None:
        self.n_items, self._indptr = n_items, indptr
        self._free_U = n_items - indptr.diff()
        count_U = indptr.diff()
        user_P = torch.repeat_interleave(torch.arange(len(count_U)), count_U)
        place_P = torch.arange(len(indices)) - indptr[user_P]
        self._key_P = indices.long() - place_P + user_P * n_items

    def draw(self, user_B: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """``count`` items for each user, with replacement; a user who has met every item gets item 0."""
        free_B1 = self._free_U[user_B].unsqueeze(1)
        uniform_BN = torch.rand(len(user_B), count, generator=generator, dtype=torch.float64)
        nth_BN = (uniform_BN * free_B1).long()
        key_BN = nth_BN + (user_B * self.n_items).unsqueeze(1)
        met_before_BN = torch.searchsorted(self._key_P, key_BN, right=True) - self._indptr[user_B].unsqueeze(1)
        return torch.where(free_B1 > 0, nth_BN + met_before_BN, 0)


class SharedCandidates:
    """A sample of the catalogue that all rows of a batch share, uniform or by popularity^α.

    Each item is listed once. For a uniform sample no correction is needed: every negative had the same chance.
    Otherwise item j, drawn with probability Q_j in each of N draws, carries the weight 1/(1 − (1 − Q_j)^N), the
    inverse of its chance to be in the sample, so that a weighted sum over the sample is an unbiased estimate of the
    sum over all items.

    >>> candidates = SharedCandidates(torch.tensor([5, 1, 1, 1]), distribution="popularity", power=1.0)
    >>> sample = candidates.draw(2, torch.Generator().manual_seed(0))
    >>> len(sample.item_C) <= 2, sample.log_weight_C is not None
    (True, True)
    """

    def __init__(self, count_I: Tensor, distribution: Distribution = "uniform", power: float = 0.75) -> None:
        self.n_items = len(count_I)
        self._share_I: Tensor | None = None
        if distribution == "popularity":
            weight_I = count_I.double().clamp(min=1).pow(power)
            self._share_I = weight_I / weight_I.sum()
            self._edge_I = self._share_I.cumsum(0)

    def draw(self, count: int, generator: torch.Generator) -> Sample:
        """A sample of at most ``count`` items."""
        if self._share_I is None:
            return Sample(torch.randint(self.n_items, (count,), generator=generator).unique(), None)
        uniform_N = torch.rand(count, generator=generator, dtype=torch.float64)
        item_C = torch.searchsorted(self._edge_I, uniform_N).clamp_(max=self.n_items - 1).unique()
        chance_C = -torch.expm1(count * torch.log1p(-self._share_I[item_C].clamp(max=1 - 1e-12)))
        return Sample(item_C, -chance_C.log().float())
