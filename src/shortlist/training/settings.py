"""What the loop is told: how steps are cut, for how long, and what counts as better."""

from __future__ import annotations

from typing import Literal

import torch

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.losses import Loss
from shortlist.models.base import TrainableModel
from shortlist.negatives import BatchCandidates, Distribution, SharedCandidates, popularity_mass
from shortlist.parameters import Configured, Search, param
from shortlist.training.batches import Batches, SampledPairs, Sampling, SharedSample, WholeCatalogue

Candidates = Literal["auto", "all", "shared", "pairs"]

LARGEST_ROW = 200_000
"""Items up to which a row of the whole catalogue is scored, unless something else is asked for."""


class TrainingSettings(Configured):
    """How a model is trained."""

    epochs: int = param(
        default=40,
        at_least=1,
        help="passes over the training data, at most",
        search=Search(choices=(20, 40, 80)),
    )
    batch: int | None = param(
        default=None, at_least=1, help="users (or pairs) in a step; none: 256 users with all items, else 1024"
    )
    candidates: Candidates = param(
        default="auto",
        help="candidates of a row: all items, a sample shared by the batch, or negatives drawn for each pair",
        aliases=("against",),
    )
    negatives: int | None = param(
        default=None, at_least=1, help="how many are sampled; none: the loss's or the model's usual number, or 1000"
    )
    distribution: Distribution = param(
        default="uniform",
        help="how samples are drawn; in_batch and mixed, of which a part is uniform, only where the step shares one",
    )
    power: float = param(default=0.75, at_least=0, help="exponent of the popularity when the sample is drawn by it")
    uniform_fraction: float = param(
        default=0.5, above=0, below=1, help="fraction of a mixed sample that is uniform", aliases=("share",)
    )
    exclude: bool = param(default=True, help="whether draws for a pair leave out items that the user has met")
    weighted: bool | None = param(
        default=None,
        help="whether a sample is weighted to stand for all items; none: where items had different chances",
    )
    validate_every: int = param(default=5, at_least=1, help="epochs from one validation to the next")
    patience: int = param(default=4, at_least=1, help="validations without a better one after which training stops")
    metric: str = param(
        default="ndcg", help="what is better on validation: a metric, at the run's K unless it says @K itself"
    )
    beat_popularity: bool = param(default=True, help="whether a model that never gets past popularity is refused")
    temperature_epochs: int = param(
        default=6,
        at_least=0,
        help="epochs of each trial that looks for loss.tau, where it is not set; on small sets as many as 250 steps "
        "need, and never more than training.epochs; 0 for no trials",
        aliases=("pilot",),
    )
    checkpoint_every: float = param(default=20.0, at_least=0, help="seconds from one checkpoint to the next, at least")


def batches_for(model: TrainableModel, loss: Loss, train: Interactions, settings: TrainingSettings) -> Batches:
    """The batches that the settings ask for, or else those that suit the loss and the model."""
    if model.sampled is not None and settings.candidates not in ("auto", "pairs"):
        raise InputError(
            f"training.candidates: expected 'pairs' for a model that scores user and item together "
            f"({type(model).__name__}), received {settings.candidates!r}"
        )
    return make_batches(train, settings, model.sampled if loss.sampled is None else loss.sampled)


def make_batches(train: Interactions, settings: TrainingSettings, sampled: int | None) -> Batches:
    """The batches that the settings ask for; ``sampled`` is the usual number of negatives, none for all."""
    if not train.n_pairs:
        raise InputError("training: expected at least one interaction, received none")
    candidates = settings.candidates
    if candidates == "auto":
        candidates = "pairs" if sampled is not None else "all" if train.n_items <= LARGEST_ROW else "shared"
    count = settings.negatives or sampled or 1000
    if candidates == "all":
        return WholeCatalogue(train, settings.batch or 256)
    if candidates == "pairs":
        return _pairs(train, settings, count)
    return SharedSample(train, settings.batch or 1024, _sampling(train, settings, count))


def _pairs(train: Interactions, settings: TrainingSettings, count: int) -> SampledPairs:
    """Draws for each pair, uniform or by popularity."""
    mass_I = None
    if settings.distribution == "popularity":
        mass_I = popularity_mass(torch.from_numpy(train.item_counts()), settings.power, train.n_users)
    elif settings.distribution != "uniform":
        raise InputError(
            "training.distribution: expected 'uniform' or 'popularity' where items are drawn for each pair, "
            f"received {settings.distribution!r}"
        )
    weighted = mass_I is not None if settings.weighted is None else settings.weighted
    size = settings.batch or 1024
    return SampledPairs(train, size, count, mass_I=mass_I, exclude=settings.exclude, weighted=weighted)


def _sampling(train: Interactions, settings: TrainingSettings, count: int) -> Sampling:
    """How the candidates that a step shares are drawn."""
    count_I, distribution, weighted = torch.from_numpy(train.item_counts()), settings.distribution, settings.weighted
    if distribution == "uniform" or distribution == "popularity":
        shared = SharedCandidates(count_I, distribution, settings.power, weighted=weighted)
        return lambda step, generator: shared.draw(count, generator)
    mixed = distribution == "mixed"
    n_users = int((train.user_counts() > 0).sum())
    batch = BatchCandidates(count_I, n_users, settings.uniform_fraction if mixed else 0.0, weighted=weighted)
    most = count if mixed else settings.negatives  # all of the batch's own items, unless a number was asked for
    return lambda step, generator: batch.draw(step.item_P, len(step.user_R), most, generator)
