"""What the loop is told: how steps are cut, for how long, and what counts as better."""

from __future__ import annotations

from typing import Literal

import torch

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.negatives import Distribution, SharedCandidates
from shortlist.parameters import Configured, param
from shortlist.training.batches import Batches, SampledPairs, SharedSample, WholeCatalogue

Against = Literal["auto", "all", "shared", "pairs"]

LARGEST_ROW = 200_000
"""Items up to which a row of the whole catalogue is scored, unless something else is asked for."""


class TrainingSettings(Configured):
    """How a model is trained."""

    epochs: int = param(default=40, at_least=1, help="passes over the training data, at most")
    batch: int | None = param(
        default=None, at_least=1, help="users (or pairs) in a step; none: 256 users, or 1024 pairs"
    )
    against: Against = param(
        default="auto",
        help="who stands against positives: all items, a sample shared by the step, or draws for each pair",
    )
    negatives: int | None = param(
        default=None, at_least=1, help="how many are sampled; none: the loss's usual number, or 1000"
    )
    distribution: Distribution = param(default="uniform", help="how a shared sample is drawn")
    power: float = param(default=0.75, at_least=0, help="exponent of the popularity when the sample is drawn by it")
    validate_every: int = param(default=5, at_least=1, help="epochs from one validation to the next")
    patience: int = param(default=4, at_least=1, help="validations without a better one after which training stops")
    metric: str = param(
        default="ndcg", help="what is better on validation: a metric, at the run's K unless it says @K itself"
    )
    pilot: int = param(default=6, at_least=0, help="epochs of each trial that looks for loss.tau, where it is not set")
    checkpoint_every: float = param(default=20.0, at_least=0, help="seconds from one checkpoint to the next, at least")


def make_batches(train: Interactions, settings: TrainingSettings, sampled: int | None) -> Batches:
    """The batches that the settings ask for; ``sampled`` is the loss's usual number of negatives, none for all."""
    if not train.n_pairs:
        raise InputError("training: expected at least one interaction, received none")
    against = settings.against
    if against == "auto":
        against = "pairs" if sampled is not None else "all" if train.n_items <= LARGEST_ROW else "shared"
    count = settings.negatives or sampled or 1000
    if against == "all":
        return WholeCatalogue(train, settings.batch or 256)
    if against == "pairs":
        return SampledPairs(train, settings.batch or 1024, count)
    popularity_I = torch.from_numpy(train.item_counts())
    candidates = SharedCandidates(popularity_I, settings.distribution, settings.power)
    return SharedSample(train, settings.batch or 1024, candidates, count)
