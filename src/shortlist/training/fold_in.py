"""Fold-in of users who were not in training: the training loop learns their embeddings, all else constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.data import IntArray, Interactions
from shortlist.errors import InputError, ShortlistError
from shortlist.losses import Loss
from shortlist.models import Factored, Model
from shortlist.models.folded import FoldInUsers, mean_vectors, rows_of
from shortlist.scores import Embeddings
from shortlist.training.loop import Training
from shortlist.training.optimizers import OptimizerSettings
from shortlist.training.settings import TrainingSettings

STEPS, RATE = 30, 0.4
"""Adam steps, and the length of the first relative to that of the embedding; the length decreases linearly."""

DRAWS = 256
"""Minimum negatives that a step draws per user, if the run samples negatives, to limit the sampling noise."""

_MAX_USERS, _MAX_NUMBERS = 256, 1 << 24
"""Maximum users fitted at once, and maximum size of their scores or drawn embeddings; a single user may exceed it."""


def fold_in(
    model: Model, loss: Loss | None, histories: Sequence[IntArray], settings: TrainingSettings | None = None
) -> Any:
    r"""Queries for ``model.score`` of users who were not in training, from the items of their histories.

    If the model computes complete queries from histories (baselines, models without free user embeddings), these are
    the result. Otherwise embeddings are learned:

    .. math:: x = f + g\,e,\qquad e = \arg\min_{|e| = \ell} L(x \cdot Y + b)

    The model gives f, its encoding of a history, and g, the weight of a free user embedding e. The embedding e
    minimizes the run's loss L with constant items and the candidates of the run's training (``settings``). Its length ℓ
    is the mean over the trained users, since most losses of inner products would let it grow without bound. The state
    of the loss is initialized for these users only. Shared samples and weighted draws are replaced by the full
    catalogue, which they represent; draws without weights are uniform. The same histories give the same embeddings.

    ``tests/training/test_fold_in.py`` compares fold-in with training that includes the user.

    >>> import numpy as np
    >>> from shortlist.losses import SL
    >>> from shortlist.models import MF
    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = MF(dim=8)
    >>> model.initialize(train, torch.Generator().manual_seed(0))
    >>> vectors = fold_in(model, SL(), [np.array([2]), np.array([0, 1])])
    >>> model.score(vectors).argmax(1)[0]
    tensor(2)
    """
    folded = model.fold_in(histories)
    users = folded.learned
    if users is None:
        return folded.queries()
    if loss is None:
        raise InputError(f"fold_in: expected the loss that trained {type(model).__name__}, received none")
    settings = settings or TrainingSettings()
    fixed, drawn = model.catalogue(), _draws(loss, settings)
    n_items, dim = fixed.item_ID.shape
    longest = max(len(np.unique(history)) for history in histories) if histories else 0
    size = min(_MAX_USERS, max(1, _MAX_NUMBERS // (n_items if drawn is None else (longest * drawn + DRAWS) * dim)))
    found = [fixed.item_ID.new_empty(0, dim)]
    for start in range(0, len(histories), size):
        part, rows = users.part(slice(start, start + size)), rows_of(histories[start : start + size], n_items)
        found.append(part.vectors(_trained(fixed, part, *rows, loss, drawn, settings.exclude)))
    return torch.cat(found)


def _trained(
    fixed: Embeddings, users: FoldInUsers, row_P: Tensor, item_P: Tensor, loss: Loss, drawn: int | None, exclude: bool
) -> Tensor:
    """The directions of the free user embeddings after training with one step per epoch.

    If negatives are drawn, a user has several copies with different draws.
    """
    n_rows, (n_items, dim) = len(users.fixed_ND), fixed.item_ID.shape
    once = Interactions.from_pairs(row_P.numpy(), item_P.numpy(), user_ids=range(n_rows), item_ids=range(n_items))
    copies_R = np.ones(n_rows, np.int64) if drawn is None else -(-DRAWS // (once.user_counts() * drawn))
    owner_N = np.repeat(np.arange(n_rows), copies_R)
    copy_P, pair_P = once.positions_of(owner_N)
    histories = Interactions.from_pairs(
        copy_P, once.indices[pair_P], user_ids=range(len(owner_N)), item_ids=range(n_items)
    )
    start_ND, device = mean_vectors(fixed.item_ID, row_P, item_P, n_rows), fixed.item_ID.device
    model = _OwnVectors(fixed, users, start_ND, torch.from_numpy(owner_N).to(device))
    training = TrainingSettings(
        epochs=STEPS,
        batch=histories.n_pairs,
        candidates="all" if drawn is None else "pairs",
        negatives=drawn,
        exclude=exclude,
    )
    optimizer = OptimizerSettings(lr=RATE / dim**0.5, schedule="linear", final_lr_factor=0.0)
    try:
        Training(model, _without_state(loss), histories, training=training, optimizer=optimizer, device=device).run()
    except InputError:
        raise
    except ShortlistError as problem:  # its advice concerns training
        raise ShortlistError("fold_in: the loss of the histories is not finite; is the model damaged?") from (problem)
    return model.direction.detach()


def _without_state(loss: Loss) -> Loss:
    """The same loss without its state; its Top-K threshold is estimated in every step."""
    settings = loss.settings()
    if "refresh" in settings:
        settings["refresh"] = 1
    return type(loss)(**settings)


class _OwnVectors(Factored):
    """A model of new users only: the directions of their free embeddings are its parameters."""

    def __init__(self, fixed: Embeddings, users: FoldInUsers, start_ND: Tensor, owner_N: Tensor) -> None:
        super().__init__()
        self._fixed, self._users, self._start_ND, self._owner_N = fixed, users, start_ND, owner_N

    def initialize(self, data: Interactions, generator: torch.Generator) -> None:
        """The direction of the history's mean."""
        self.direction = nn.Parameter(torch.nn.functional.normalize(self._start_ND))

    def embeddings(self) -> Embeddings:
        """The current user embeddings, repeated for each copy, and the constant items."""
        user_ND = self._users.vectors(self.direction).index_select(0, self._owner_N)
        return Embeddings(user_ND, self._fixed.item_ID, "dot", self._fixed.bias_I)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load directions."""
        self.direction = nn.Parameter(state["direction"])


def _draws(loss: Loss, settings: TrainingSettings) -> int | None:
    """The number of negatives that the run drew per pair; None if its candidates represent the full catalogue."""
    weighted = settings.distribution != "uniform" if settings.weighted is None else settings.weighted
    by_pairs = settings.candidates == "pairs" or (settings.candidates == "auto" and loss.sampled is not None)
    return settings.negatives or loss.sampled or 1000 if by_pairs and not weighted else None
