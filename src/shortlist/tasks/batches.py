"""The batches of an epoch: users with the full catalogue, users with a shared sample, or pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import IntArray, Interactions
from shortlist.errors import InputError
from shortlist.negatives import (
    BatchCandidates,
    PairNegatives,
    RowSample,
    Sample,
    SharedCandidates,
    popularity_mass,
)
from shortlist.scores import Batch
from shortlist.tasks.base import Batches
from shortlist.tasks.settings import BatchSettings

LARGEST_ROW = 200_000
"""Maximum catalogue size for which the full catalogue is scored by default."""

Sampling = Callable[[Batch, torch.Generator], Sample]
"""Draws the candidates that the rows of a batch share."""


def user_batch(train: Interactions, users: IntArray, weight_P: Tensor | None = None) -> Batch:
    """The batch whose rows are users with all their positives; ``weight_P`` are weights of all pairs of training."""
    row_P, pair_P = train.positions_of(users)
    user_R, place_P = torch.from_numpy(users), torch.from_numpy(pair_P)
    return Batch(
        rows=user_R,
        n_rows=len(users),
        row_P=torch.from_numpy(row_P),
        item_P=torch.from_numpy(train.indices[pair_P]).long(),
        key_R=user_R,
        pair_P=place_P,
        weight_P=None if weight_P is None else weight_P[place_P],
    )


class UserBatches(Batches):
    """Batches of users with all their positives. Subclasses define the candidates."""

    def __init__(self, train: Interactions, size: int, weight_P: Tensor | None = None) -> None:
        self.train, self.size, self.weight_P = train, size, weight_P
        self.active_users = np.flatnonzero(train.user_counts())

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.active_users) // self.size)

    def complete_rows(self, size: int = 256) -> Iterator[Batch]:
        """Users with interactions in the order of their indices."""
        for start in range(0, len(self.active_users), size):
            yield user_batch(self.train, self.active_users[start : start + size])

    def _shuffled(self, generator: torch.Generator) -> Iterator[Batch]:
        order = self.active_users[torch.randperm(len(self.active_users), generator=generator).numpy()]
        for start in range(0, len(order), self.size):
            yield user_batch(self.train, order[start : start + self.size], self.weight_P)


class WholeCatalogue(UserBatches):
    """Batches of users, ranked among the full catalogue, without sampling."""

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Users in random order."""
        yield from self._shuffled(generator)


class SharedSample(UserBatches):
    """Batches of users, ranked among a sample of the catalogue that is drawn for each batch."""

    reaches_all = False

    def __init__(self, train: Interactions, size: int, sampling: Sampling, weight_P: Tensor | None = None) -> None:
        super().__init__(train, size, weight_P)
        self.sampling = sampling

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Users in random order, with one sample per batch."""
        for batch in self._shuffled(generator):
            yield replace(batch, candidates=self.sampling(batch, generator))


class SampledPairs(UserBatches):
    """Batches of pairs, with N items drawn for each, by default from the user's negatives.

    ``mass_I`` gives items different probabilities, ``exclude=False`` also draws the user's other items, and
    ``weighted`` gives draws the weights with which they represent all items that can be drawn.
    """

    rows_are_complete = False

    def __init__(
        self,
        train: Interactions,
        size: int,
        count: int,
        *,
        mass_I: Tensor | None = None,
        exclude: bool = True,
        weighted: bool = False,
        weight_P: Tensor | None = None,
    ) -> None:
        super().__init__(train, size, weight_P)
        self.count, self.weighted = count, weighted
        self._user_P = torch.from_numpy(train.users_of_pairs()).long()
        self._item_P = torch.tensor(train.indices).long()
        indptr = torch.tensor(train.indptr) if exclude else torch.zeros(train.n_users + 1, dtype=torch.long)
        excluded_P = self._item_P[: int(indptr[-1])]
        self._negatives = PairNegatives(indptr, excluded_P, train.n_items, mass_I)
        self._negatives_U = (train.n_items - indptr.diff()).float()

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        return -(-self.train.n_pairs // self.size)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Pairs in random order."""
        for chosen in torch.randperm(self.train.n_pairs, generator=generator).split(self.size):
            user_B = self._user_P[chosen]
            drawn_BN = self._negatives.draw(user_B, self.count, generator)
            weight_BN = self._negatives.log_weights(user_B, drawn_BN) if self.weighted else None
            yield Batch(
                rows=user_B,
                n_rows=len(chosen),
                row_P=torch.arange(len(chosen), device=chosen.device),
                item_P=self._item_P[chosen],
                key_R=user_B,
                pair_P=chosen,
                weight_P=None if self.weight_P is None else self.weight_P[chosen],
                candidates=RowSample(drawn_BN, weight_BN, self._negatives_U[user_B]),
            )


def collaborative_batches(train: Interactions, settings: BatchSettings, sampled: int | None) -> UserBatches:
    """The batches of the settings; ``sampled`` is the default number of drawn negatives, None for all items."""
    if not train.n_pairs:
        raise InputError("training: expected at least one interaction, received none")
    candidates, weight_P = settings.candidates, positive_weights(train) if settings.use_weights else None
    if candidates == "auto":
        candidates = "pairs" if sampled is not None else "all" if train.n_items <= LARGEST_ROW else "shared"
    count = settings.negatives or sampled or 1000
    if candidates == "all":
        return WholeCatalogue(train, settings.batch or 256, weight_P)
    if candidates == "pairs":
        return _pairs(train, settings, count, weight_P)
    return SharedSample(train, settings.batch or 1024, _sampling(train, settings, count), weight_P)


def _pairs(train: Interactions, settings: BatchSettings, count: int, weight_P: Tensor | None) -> SampledPairs:
    """Batches with negatives drawn for each pair, uniformly or by popularity."""
    mass_I = None
    if settings.distribution == "popularity":
        mass_I = popularity_mass(torch.from_numpy(train.item_counts()), settings.power, train.n_users)
    elif settings.distribution != "uniform":
        raise InputError(
            "training.distribution: expected 'uniform' or 'popularity' if items are drawn for each pair, "
            f"received {settings.distribution!r}"
        )
    weighted = mass_I is not None if settings.weighted is None else settings.weighted
    size = settings.batch or 1024
    options = {"exclude": settings.exclude, "weighted": weighted}
    return SampledPairs(train, size, count, mass_I=mass_I, weight_P=weight_P, **options)


def _sampling(train: Interactions, settings: BatchSettings, count: int) -> Sampling:
    """The sampler of the candidates that a step shares."""
    count_I, distribution, weighted = torch.from_numpy(train.item_counts()), settings.distribution, settings.weighted
    if distribution == "uniform" or distribution == "popularity":
        shared = SharedCandidates(count_I, distribution, settings.power, weighted=weighted)
        return lambda batch, generator: shared.draw(count, generator)
    mixed = distribution == "mixed"
    n_users = int((train.user_counts() > 0).sum())
    in_batch = BatchCandidates(count_I, n_users, settings.uniform_fraction if mixed else 0.0, weighted=weighted)
    most = count if mixed else settings.negatives  # all of the batch's items, unless a number is set
    return lambda batch, generator: in_batch.draw(batch.item_P, batch.n_rows, most, generator)


def positive_weights(train: Interactions) -> Tensor | None:
    """The weights of all pairs; None if there are none.

    >>> train = Interactions.from_pairs(
    ...     [0, 0], [0, 1], user_ids=["ann"], item_ids=["x", "y"], weights=np.array([2.0, -1.0])
    ... )
    >>> positive_weights(train)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: weights: expected numbers of at least 0, not all 0, received -1 for user 'ann', ...
    """
    if train.weights is None:
        return None
    lowest = int(train.weights.argmin())
    if train.weights[lowest] < 0 or not train.weights.any():
        user, item = train.user_ids[int(train.users_of_pairs()[lowest])], train.item_ids[int(train.indices[lowest])]
        raise InputError(
            f"weights: expected numbers of at least 0, not all 0, received {train.weights[lowest]:g} for "
            f"user {user!r}, item {item!r}; training.use_weights=false gives all interactions equal weights"
        )
    return torch.from_numpy(np.array(train.weights, np.float32))
