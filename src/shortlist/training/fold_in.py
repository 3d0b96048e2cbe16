"""Users who arrive after training: they are trained by the same loop, with everything else held as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from shortlist.data import IntArray, Interactions
from shortlist.losses import Loss
from shortlist.models.base import Factored
from shortlist.models.fold_in import Arrival, mean_vectors, rows_of
from shortlist.scores import Factors
from shortlist.training.loop import Training
from shortlist.training.optimizers import OptimizerSettings
from shortlist.training.settings import TrainingSettings

STEPS, RATE = 30, 0.1
"""Adam steps, and the length of the first as a share of the vector; the last has length 0."""

DRAWS = 256
"""Negatives that a step draws for a user at least, where the run draws any: its own few would leave much to chance."""

_TOGETHER = 256  # users that are fitted at once


def fold_in(
    model: Factored, loss: Loss, histories: Sequence[IntArray], settings: TrainingSettings | None = None
) -> Tensor:
    r"""Vectors of users who were not there in training, from the items of their histories, a row for each.

    .. math:: x = f + g\,e,\qquad e = \arg\min_{|e| = \ell} L(x \cdot Y + b)

    The model says what it makes of a history, f, and how much a vector of the user's own counts, g. That vector
    is found by the run's loss L against whom the run has trained with (``settings``), items held; its length ℓ is
    the mean of the trained users', since most losses of inner products would have it grow for ever. Whatever the loss
    remembers it learns anew, from these users alone. A sample that steps share stands for the whole catalogue, and so
    do draws with weights; draws without are uniform. The same histories give the same vectors.

    How near that comes to training with the user is measured in ``tests/models/test_fold_in.py``.

    >>> import numpy as np
    >>> from shortlist.losses import SL
    >>> from shortlist.models import MF
    >>> train = Interactions.from_pairs([0, 1], [0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> model = MF(dim=8)
    >>> model.start(train, torch.Generator().manual_seed(0))
    >>> vectors = fold_in(model, SL(), [np.array([2]), np.array([0, 1])])
    >>> model.score_vectors(vectors).argmax(1)[0]
    tensor(2)
    """
    row_P, item_P = rows_of(histories, model.n_items)
    found = [model.vectors().item_ID.new_empty(0, model.vectors().item_ID.shape[1])]
    for start in range(0, len(histories), _TOGETHER):
        n_rows = min(_TOGETHER, len(histories) - start)
        mine_P = (row_P >= start) & (row_P < start + n_rows)
        arrival = model.arrival(row_P[mine_P] - start, item_P[mine_P], n_rows)
        if arrival.own:
            newcomers = _Newcomers(model, arrival, row_P[mine_P] - start, item_P[mine_P])
            found.append(newcomers.trained(type(loss)(**loss.settings()), settings or TrainingSettings()))
        else:
            found.append(arrival.vectors())
    return torch.cat(found)


class _Newcomers(Factored):
    """A model of new users alone: the directions of their own vectors are all that can be learned.

    Where negatives are drawn, each user is there several times, with other draws.
    """

    def __init__(self, model: Factored, arrival: Arrival, row_P: Tensor, item_P: Tensor) -> None:
        super().__init__()
        self._fixed, self._arrival, self._row_P, self._item_P, self._copies = model.vectors(), arrival, row_P, item_P, 1

    def trained(self, loss: Loss, settings: TrainingSettings) -> Tensor:
        """The vectors that the loop comes to, in one step an epoch."""
        drawn = _draws(loss, settings)
        n_rows, n_pairs = len(self._arrival.fixed_ND), len(self._row_P)
        self._copies = 1 if drawn is None else -(-DRAWS * n_rows // (n_pairs * drawn))
        copy_C1 = torch.arange(self._copies).unsqueeze(1)
        histories = Interactions.from_pairs(
            (self._row_P + n_rows * copy_C1).flatten().numpy(),
            self._item_P.repeat(self._copies).numpy(),
            user_ids=range(n_rows * self._copies),
            item_ids=range(len(self._fixed.item_ID)),
        )
        training = TrainingSettings(
            epochs=STEPS,
            batch=histories.n_pairs,
            against="all" if drawn is None else "pairs",
            negatives=drawn,
            exclude=settings.exclude,
        )
        optimizer = OptimizerSettings(lr=RATE, schedule="linear", final=0.0)
        Training(self, loss, histories, training=training, optimizer=optimizer).run()
        return self._arrival.vectors(self.direction.detach())

    def start(self, train: Interactions, generator: torch.Generator) -> None:
        """Towards the mean of the history."""
        mean_ND = mean_vectors(self._fixed.item_ID, self._row_P, self._item_P, len(self._arrival.fixed_ND))
        self.direction = nn.Parameter(torch.nn.functional.normalize(mean_ND))

    def factors(self) -> Factors:
        """The users as they stand, and the items as they are."""
        user_ND = self._arrival.vectors(self.direction).repeat(self._copies, 1)
        return Factors(user_ND, self._fixed.item_ID, "dot", self._fixed.bias_I)

    def arrival(self, row_P: Tensor, item_P: Tensor, n_rows: int) -> Arrival:
        """The same for everybody."""
        return self._arrival

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over directions."""
        self.direction = nn.Parameter(state["direction"])


def _draws(loss: Loss, settings: TrainingSettings) -> int | None:
    """How many negatives the run has drawn for a pair; none where what it saw stands for the whole catalogue."""
    weighted = settings.distribution != "uniform" if settings.weighted is None else settings.weighted
    by_pairs = settings.against == "pairs" or (settings.against == "auto" and loss.sampled is not None)
    return settings.negatives or loss.sampled or 1000 if by_pairs and not weighted else None
