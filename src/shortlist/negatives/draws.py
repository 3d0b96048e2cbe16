"""Who stands against the positives: items drawn for a pair, or a sample that a whole batch shares.

Weights correct for how items were drawn: ``Σ_j ω_j·f(j)`` over the negatives drawn is then right on average for the sum
over all negatives of the row, whatever f is (Horvitz and Thompson, 1952). In a softmax, ``ln ω_j`` joins the logit: the
correction by log-Q (Yi et al., RecSys 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Distribution = Literal["uniform", "popularity", "in_batch", "mixed"]


@dataclass(frozen=True)
class Sample:
    """Items that a batch shares as candidates, each once and in order; ``log_weight_C`` is ln ω where it is needed."""

    item_C: Tensor
    log_weight_C: Tensor | None


class PairNegatives:
    """Items for each pair that the user has not met, drawn independently: each with the same probability, or in
    proportion to its ``mass_I``, a whole number.

    No draw is ever rejected. Laid end to end, the masses of the items that user u has not met make a line, and a draw
    is a point on it. Met items p₀ < p₁ < … push the point to the right where it lies beyond them: by the mass of those
    with ``key_k ≤ point``, key_k being the mass of items before p_k that are not met. The keys of all users lie in one
    sorted array, and a draw is one search in it, and where masses differ a second one for the item at the point. All
    are whole numbers, so that no rounding ever draws what was met. With no item met by anyone, every item may be drawn.

    >>> negatives = PairNegatives(torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1]), n_items=4)
    >>> drawn = negatives.draw(torch.tensor([0, 1]), 50, torch.Generator().manual_seed(0))
    >>> sorted(set(drawn[0].tolist())), sorted(set(drawn[1].tolist()))
    ([1, 3], [0, 2, 3])
    """

    def __init__(self, indptr: Tensor, indices: Tensor, n_items: int, mass_I: Tensor | None = None) -> None:
        self.n_items, self._mass_I, self._indptr = n_items, mass_I, indptr
        count_U, met_P = indptr.diff(), indices.long()
        user_P = torch.repeat_interleave(torch.arange(len(count_U)), count_U)
        self._edge_I = torch.arange(1, n_items + 1) if mass_I is None else mass_I.cumsum(0)
        self._total = int(self._edge_I[-1]) if n_items else 0
        mass_P = torch.ones_like(met_P) if mass_I is None else mass_I[met_P]
        self._before_P = torch.cat([mass_P.new_zeros(1), mass_P.cumsum(0)])  # mass of what was met, by place
        self._free_U = self._total - self._before_P[indptr].diff()
        taken_P = self._before_P[:-1] - self._before_P[indptr][user_P]
        self._key_P = self._edge_I[met_P] - mass_P - taken_P + user_P * self._total

    def draw(self, user_B: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """``count`` items for each user, with replacement; a user who has met every item gets item 0."""
        free_B1 = self._free_U[user_B].unsqueeze(1)
        uniform_BN = torch.rand(len(user_B), count, generator=generator, dtype=torch.float64)
        point_BN = (uniform_BN * free_B1).long()
        met_before_BN = torch.searchsorted(self._key_P, point_BN + (user_B * self._total).unsqueeze(1), right=True)
        point_BN += self._before_P[met_before_BN] - self._before_P[self._indptr[user_B]].unsqueeze(1)
        item_BN = point_BN if self._mass_I is None else torch.searchsorted(self._edge_I, point_BN, right=True)
        return torch.where(free_B1 > 0, item_BN, 0)

    def log_weights(self, user_B: Tensor, item_BN: Tensor) -> Tensor:
        """ln ω of draws: ``ω = 1/(N·Q_j)`` with Q_j the probability of the item; −∞ for a user who has met all."""
        mass_BN = torch.ones_like(item_BN) if self._mass_I is None else self._mass_I[item_BN]
        free_B1 = self._free_U[user_B].unsqueeze(1)
        return (free_B1 / (mass_BN * item_BN.shape[1]).double()).log().float()


def popularity_mass(count_I: Tensor, power: float, n_users: int) -> Tensor:
    """``popularity^power`` of each item as a whole number of at least 1; an item that nobody met counts as met once.

    The sum is as large as keys of 63 bits for every user leave room for, 2⁴⁰ at most. A share is right to half a unit
    of it: one of 10⁻⁷ to some millionths of itself, and where there are 50 million users to some ten thousandths.

    >>> popularity_mass(torch.tensor([0, 1, 3]), 1.0, n_users=10).double() / 2**40
    tensor([0.2000, 0.2000, 0.6000], dtype=torch.float64)
    """
    weight_I = count_I.double().clamp(min=1).pow(power)
    bits = min(40, 61 - n_users.bit_length())
    mass_I: Tensor = weight_I / weight_I.sum() * 2.0**bits
    return mass_I.round().clamp(min=1).long()


class SharedCandidates:
    """A sample of the catalogue that all rows of a batch share, uniform or by popularity^α.

    Each item is listed once. Item j, drawn with probability Q_j in each of N draws, carries the weight
    1/(1 − (1 − Q_j)^N), the inverse of its chance to be in the sample. In a uniform sample of C items all have the same
    weight, n/C. It is left out unless ``weighted`` asks for it: a constant cancels in most losses, and sums then run
    over a sample of C items and not over the catalogue that it stands for.

    >>> candidates = SharedCandidates(torch.tensor([5, 1, 1, 1]), distribution="popularity", power=1.0)
    >>> sample = candidates.draw(2, torch.Generator().manual_seed(0))
    >>> len(sample.item_C) <= 2, sample.log_weight_C is not None
    (True, True)
    """

    def __init__(
        self,
        count_I: Tensor,
        distribution: Literal["uniform", "popularity"] = "uniform",
        power: float = 0.75,
        *,
        weighted: bool | None = None,
    ) -> None:
        self.n_items, self.weighted = len(count_I), weighted
        self._share_I: Tensor | None = None
        if distribution == "popularity":
            weight_I = count_I.double().clamp(min=1).pow(power)
            self._share_I = weight_I / weight_I.sum()
            self._edge_I = self._share_I.cumsum(0)

    def draw(self, count: int, generator: torch.Generator) -> Sample:
        """A sample of at most ``count`` items."""
        if self._share_I is None:
            item_C = torch.randint(self.n_items, (count,), generator=generator).unique()
            each = torch.full((len(item_C),), self.n_items / max(1, len(item_C))).log() if self.weighted else None
            return Sample(item_C, each)
        uniform_N = torch.rand(count, generator=generator, dtype=torch.float64)
        item_C = torch.searchsorted(self._edge_I, uniform_N).clamp_(max=self.n_items - 1).unique()
        if self.weighted is False:
            return Sample(item_C, None)
        chance_C = -torch.expm1(count * torch.log1p(-self._share_I[item_C].clamp(max=1 - 1e-12)))
        return Sample(item_C, -chance_C.log().float())


class BatchCandidates:
    """The items of a batch's own positives, each once, alone or mixed with a uniform sample.

    A batch is a random set of R out of U users. Given that user u is in it, an item that c other users have met is in
    it with the chance ``π_j = 1 − C(U−1−c, R−1)/C(U−1, R−1)``, the same for every u that has not met it: popular items
    are there nearly always and rare ones seldom, which the weight 1/π_j corrects. Items that nobody has met never are.

    ``share`` of the ``count`` candidates come from a uniform sample of A out of n items instead, and an item has the
    weight ``([in the batch's part]·B/b + [in the uniform part]) / (π_j + A/n)``, b of the batch's B items having been
    kept. Its mean is 1 for each item, also for those that nobody has met.

    >>> candidates = BatchCandidates(torch.tensor([2, 1, 0]), n_users=3)
    >>> sample = candidates.draw(torch.tensor([0, 0, 1]), 2, None, torch.Generator())
    >>> sample.item_C, sample.log_weight_C.exp()
    (tensor([0, 1]), tensor([1., 2.]))
    """

    def __init__(self, count_I: Tensor, n_users: int, share: float = 0.0, *, weighted: bool | None = None) -> None:
        self.count_I, self.n_users, self.share, self.weighted = count_I, n_users, share, weighted

    def draw(self, item_P: Tensor, rows: int, count: int | None, generator: torch.Generator) -> Sample:
        """A sample for a batch of ``rows`` users with the positives ``item_P``: at most ``count``, or all of these.

        Of a mixed sample ``count`` decides how many are drawn from either part.
        """
        own = item_P.unique()
        uniform = round(self.share * (count or 2 * len(own)))
        kept = own
        if count is not None and len(own) > count - uniform:
            kept = own[torch.randperm(len(own), generator=generator)[: count - uniform]]
        drawn = torch.randint(len(self.count_I), (uniform,), generator=generator).unique()
        item_C = torch.cat([kept, drawn]).unique()
        if self.weighted is False:
            return Sample(item_C, None)
        weight_C = torch.zeros(len(item_C), dtype=torch.float64)
        weight_C[torch.searchsorted(item_C, kept)] += len(own) / max(1, len(kept))
        weight_C[torch.searchsorted(item_C, drawn)] += 1
        chance_C = self._chance(item_C, rows) if len(kept) else torch.zeros_like(weight_C)
        chance_C += len(drawn) / len(self.count_I)
        # alone in its batch a user meets none but the own positives, which are no negatives: their weight is of no use
        return Sample(item_C, torch.where(chance_C > 0, weight_C / chance_C, 1).log().float())

    def _chance(self, item_C: Tensor, rows: int) -> Tensor:
        """π of each item: 1 less the chance that none of the R − 1 other users has met it."""
        others, free_C = self.n_users - 1, (self.n_users - 1 - self.count_I[item_C]).double()
        rest = torch.tensor(float(others - rows + 1), dtype=torch.float64)
        none_C = (free_C + 1).lgamma() + (rest + 1).lgamma() - torch.lgamma(rest.new_tensor(others + 1.0))
        none_C -= (free_C - rows + 2).clamp(min=1).lgamma()
        return torch.where(free_C >= rows - 1, -torch.expm1(none_C), 1.0)
