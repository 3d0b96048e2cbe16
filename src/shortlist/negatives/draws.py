"""Negative sampling: items drawn for each pair, or a sample shared by a batch.

Weights correct for the sampling distribution: ``Σ_j ω_j·f(j)`` over the negatives drawn is an unbiased estimate of the
sum over all negatives of the row, for every f (Horvitz and Thompson, 1952). In a softmax, ``ln ω_j`` is added to the
logit: the log-Q correction (Yi et al., RecSys 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Distribution = Literal["uniform", "popularity", "in_batch", "mixed"]


@dataclass(frozen=True, eq=False)
class Sample:
    """Items that a batch shares as candidates, unique and sorted; ``log_weight_C`` is ln ω, or None."""

    item_C: Tensor
    log_weight_C: Tensor | None

    def to(self, device: torch.device) -> Sample:
        """The same sample on a device."""
        return Sample(self.item_C.to(device), _moved(self.log_weight_C, device))


@dataclass(frozen=True, eq=False)
class RowSample:
    """N items drawn for each row, which has exactly one positive; ``log_weight_RN`` is ln ω, or None.

    ``n_negatives_R`` is the number of negatives of each row in the catalogue.
    """

    item_RN: Tensor
    log_weight_RN: Tensor | None
    n_negatives_R: Tensor

    def to(self, device: torch.device) -> RowSample:
        """The same sample on a device."""
        return RowSample(self.item_RN.to(device), _moved(self.log_weight_RN, device), self.n_negatives_R.to(device))


@dataclass(frozen=True, eq=False)
class RowLists:
    """Each row has its own list of candidates, padded to the longest: ``present_RC`` is false at padding.

    The positives' items are columns of their row's list.
    """

    present_RC: Tensor

    def to(self, device: torch.device) -> RowLists:
        """The same lists on a device."""
        return RowLists(self.present_RC.to(device))


Candidates = Sample | RowSample | RowLists | None
"""The candidates of the rows of a batch; None: the full catalogue."""


def _moved(tensor: Tensor | None, device: torch.device) -> Tensor | None:
    return None if tensor is None else tensor.to(device)


def _uniform(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Numbers from 0 to 1 in double precision, drawn where the generator is: they are the same on every device."""
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device).to(device)


def _items(n_items: int, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Items, each with the same chance, drawn where the generator is."""
    return torch.randint(n_items, (count,), generator=generator, device=generator.device).to(device)


class PairNegatives:
    """Items for each pair that the user has not interacted with, drawn independently: uniformly, or in proportion to
    an integer ``mass_I``.

    No draw is rejected. A draw is a random point in the cumulative mass of the items that user u has not interacted
    with. To map it to all items, the mass of the user's items p₀ < p₁ < … with ``key_k ≤ point`` is added, where key_k
    is the mass of the other items before p_k. The keys of all users are one sorted array, so a draw is one binary
    search in it, and a second one for the item at the point if masses differ. All masses are integers, so that no
    rounding error draws an excluded item. With no interactions, every item can be drawn.

    >>> negatives = PairNegatives(torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1]), n_items=4)
    >>> drawn = negatives.draw(torch.tensor([0, 1]), 50, torch.Generator().manual_seed(0))
    >>> sorted(set(drawn[0].tolist())), sorted(set(drawn[1].tolist()))
    ([1, 3], [0, 2, 3])
    """

    def __init__(self, indptr: Tensor, indices: Tensor, n_items: int, mass_I: Tensor | None = None) -> None:
        self.n_items, self._mass_I, self._indptr = n_items, mass_I, indptr
        count_U, item_P = indptr.diff(), indices.long()
        user_P = torch.repeat_interleave(torch.arange(len(count_U), device=indptr.device), count_U)
        self._edge_I = torch.arange(1, n_items + 1, device=indptr.device) if mass_I is None else mass_I.cumsum(0)
        self._total = int(self._edge_I[-1]) if n_items else 0
        mass_P = torch.ones_like(item_P) if mass_I is None else mass_I[item_P]
        self._before_P = torch.cat([mass_P.new_zeros(1), mass_P.cumsum(0)])  # cumulative mass of the users' items
        self._free_U = self._total - self._before_P[indptr].diff()
        taken_P = self._before_P[:-1] - self._before_P[indptr][user_P]
        self._key_P = self._edge_I[item_P] - mass_P - taken_P + user_P * self._total

    def draw(self, user_B: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """``count`` items for each user, with replacement; a user who has interacted with every item gets item 0."""
        free_B1 = self._free_U[user_B].unsqueeze(1)
        uniform_BN = _uniform((len(user_B), count), generator, user_B.device)
        point_BN = (uniform_BN * free_B1).long()
        position_BN = torch.searchsorted(self._key_P, point_BN + (user_B * self._total).unsqueeze(1), right=True)
        point_BN += self._before_P[position_BN] - self._before_P[self._indptr[user_B]].unsqueeze(1)
        item_BN = point_BN if self._mass_I is None else torch.searchsorted(self._edge_I, point_BN, right=True)
        return torch.where(free_B1 > 0, item_BN, 0)

    def log_weights(self, user_B: Tensor, item_BN: Tensor) -> Tensor:
        """ln ω of draws: ``ω = 1/(N·Q_j)`` with Q_j the probability of the item; −∞ for a user with all items."""
        mass_BN = torch.ones_like(item_BN) if self._mass_I is None else self._mass_I[item_BN]
        free_B1 = self._free_U[user_B].unsqueeze(1)
        return (free_B1 / (mass_BN * item_BN.shape[1]).double()).log().float()


def popularity_mass(count_I: Tensor, power: float, n_users: int) -> Tensor:
    """``popularity^power`` of each item as an integer of at least 1; an item without users counts as having one.

    The sum is as large as 63-bit keys for all users allow, at most 2⁴⁰. Rounding changes a mass by at most half a unit:
    a probability of 10⁻⁷ has a relative error of some millionths, and of some ten-thousandths with 50 million users.

    >>> popularity_mass(torch.tensor([0, 1, 3]), 1.0, n_users=10).double() / 2**40
    tensor([0.2000, 0.2000, 0.6000], dtype=torch.float64)
    """
    weight_I = count_I.double().clamp(min=1).pow(power)
    bits = min(40, 61 - n_users.bit_length())
    mass_I: Tensor = weight_I / weight_I.sum() * 2.0**bits
    return mass_I.round().clamp(min=1).long()


class SharedCandidates:
    """A sample of the catalogue that all rows of a batch share, uniform or by popularity^α.

    Each item is listed once. Item j, drawn with probability Q_j in each of N draws, has the weight
    1/(1 − (1 − Q_j)^N), the inverse of its inclusion probability. In a uniform sample of C items all have the same
    weight n/C, which is omitted unless ``weighted`` is set: a constant cancels in most losses, and sums then refer to
    the sample of C items, not to the catalogue that it represents.

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
        self.n_items, self.weighted, self._device = len(count_I), weighted, count_I.device
        self._prob_I: Tensor | None = None
        if distribution == "popularity":
            weight_I = count_I.double().clamp(min=1).pow(power)
            self._prob_I = weight_I / weight_I.sum()
            self._edge_I = self._prob_I.cumsum(0)

    def draw(self, count: int, generator: torch.Generator) -> Sample:
        """A sample of at most ``count`` items."""
        if self._prob_I is None:
            item_C = _items(self.n_items, count, generator, self._device).unique()
            weight_C = torch.full((len(item_C),), self.n_items / max(1, len(item_C)), device=item_C.device)
            return Sample(item_C, weight_C.log() if self.weighted else None)
        uniform_N = _uniform((count,), generator, self._device)
        item_C = torch.searchsorted(self._edge_I, uniform_N).clamp_(max=self.n_items - 1).unique()
        if self.weighted is False:
            return Sample(item_C, None)
        prob_C = -torch.expm1(count * torch.log1p(-self._prob_I[item_C].clamp(max=1 - 1e-12)))
        return Sample(item_C, -prob_C.log().float())


class BatchCandidates:
    """The items of a batch's own positives, each once, alone or mixed with a uniform sample.

    A batch is a random set of R out of U users. Given that user u is in it, an item of c other users is among the
    batch's items with the probability ``π_j = 1 − C(U−1−c, R−1)/C(U−1, R−1)``, the same for every u without the item:
    popular items are included almost always and rare ones seldom, which the weight 1/π_j corrects. Items without users
    are never included.

    A fraction ``uniform_fraction`` of the ``count`` candidates comes from a uniform sample of A out of n items instead.
    An item then has the weight ``([in the batch's part]·B/b + [in the uniform part]) / (π_j + A/n)``, where b of the
    batch's B items are kept. The expected weight of each item is 1, also without users.

    >>> candidates = BatchCandidates(torch.tensor([2, 1, 0]), n_users=3)
    >>> sample = candidates.draw(torch.tensor([0, 0, 1]), 2, None, torch.Generator())
    >>> sample.item_C, sample.log_weight_C.exp()
    (tensor([0, 1]), tensor([1., 2.]))
    """

    def __init__(
        self, count_I: Tensor, n_users: int, uniform_fraction: float = 0.0, *, weighted: bool | None = None
    ) -> None:
        self.count_I, self.n_users, self.uniform_fraction, self.weighted = count_I, n_users, uniform_fraction, weighted

    def draw(self, item_P: Tensor, rows: int, count: int | None, generator: torch.Generator) -> Sample:
        """A sample for a batch of ``rows`` users with the positives ``item_P``: at most ``count`` items, or all.

        In a mixed sample ``count`` determines the size of both parts.
        """
        own = item_P.unique()
        uniform = round(self.uniform_fraction * (count or 2 * len(own)))
        from_batch = own
        if count is not None and len(own) > count - uniform:
            order = torch.randperm(len(own), generator=generator, device=generator.device)
            from_batch = own[order[: count - uniform].to(own.device)]
        drawn = _items(len(self.count_I), uniform, generator, own.device).unique()
        item_C = torch.cat([from_batch, drawn]).unique()
        if self.weighted is False:
            return Sample(item_C, None)
        weight_C = torch.zeros(len(item_C), dtype=torch.float64, device=item_C.device)
        weight_C[torch.searchsorted(item_C, from_batch)] += len(own) / max(1, len(from_batch))
        weight_C[torch.searchsorted(item_C, drawn)] += 1
        prob_C = self._chance(item_C, rows) if len(from_batch) else torch.zeros_like(weight_C)
        prob_C += len(drawn) / len(self.count_I)
        # with one user in the batch all its items are the user's positives, whose weights are not used
        return Sample(item_C, torch.where(prob_C > 0, weight_C / prob_C, 1).log().float())

    def _chance(self, item_C: Tensor, rows: int) -> Tensor:
        """π of each item: 1 minus the probability that none of the R − 1 other users has it."""
        others, free_C = self.n_users - 1, (self.n_users - 1 - self.count_I[item_C]).double()
        rest = free_C.new_tensor(float(others - rows + 1))
        none_C = (free_C + 1).lgamma() + (rest + 1).lgamma() - torch.lgamma(rest.new_tensor(others + 1.0))
        none_C -= (free_C - rows + 2).clamp(min=1).lgamma()
        return torch.where(free_C >= rows - 1, -torch.expm1(none_C), 1.0)
