"""Users who arrive after training: they are trained by the same loop, with everything else held as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.data import IntArray, Interactions
from shortlist.errors import InputError, ShortlistError
from shortlist.losses import Loss
from shortlist.models.base import Factored
from shortlist.models.history_lookup import FoldInUsers, mean_vectors, rows_of
from shortlist.scores import Factors
from shortlist.training.loop import Training
from shortlist.training.optimizers import OptimizerSettings
from shortlist.training.settings import TrainingSettings

STEPS, RATE = 30, 0.4
"""Adam steps, and the length of the first as a share of the vector's; they become shorter and shorter."""

DRAWS = 256
"""Negatives that a step draws for a user at least, where the run draws any: its own few would leave much to chance."""

_TOGETHER, _ROOM = 256, 1 << 24
"""Users that are fitted at once at most, and how many numbers their scores, or the vectors drawn for them, may be;
one user may take more alone."""


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

    How near that comes to training with the user is measured in ``tests/training/test_newcomers.py``.

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
    settings = settings or TrainingSettings()
    fixed, drawn = model.vectors(), _draws(loss, settings)
    n_items, dim = fixed.item_ID.shape
    longest = int(torch.bincount(row_P).max()) if len(row_P) else 0
    together = min(_TOGETHER, max(1, _ROOM // (n_items if drawn is None else (longest * drawn + DRAWS) * dim)))
    found = [fixed.item_ID.new_empty(0, dim)]
    for start in range(0, len(histories), together):
        n_rows = min(together, len(histories) - start)
        mine_P = (row_P >= start) & (row_P < start + n_rows)
        mine = row_P[mine_P] - start, item_P[mine_P]
        arrival = model.arrival(*mine, n_rows)
        own_ND = _trained(fixed, arrival, *mine, loss, drawn, settings.exclude) if arrival.own else None
        found.append(arrival.vectors(own_ND))
    return torch.cat(found)


def _trained(
    fixed: Factors, arrival: FoldInUsers, row_P: Tensor, item_P: Tensor, loss: Loss, drawn: int | None, exclude: bool
) -> Tensor:
    """The directions of the users' own vectors that the loop comes to, in one step an epoch.

    Where negatives are drawn, a user is there several times, with other draws.
    """
    n_rows, (n_items, dim) = len(arrival.fixed_ND), fixed.item_ID.shape
    once = Interactions.from_pairs(row_P.numpy(), item_P.numpy(), user_ids=range(n_rows), item_ids=range(n_items))
    copies_R = np.ones(n_rows, np.int64) if drawn is None else -(-DRAWS // (once.user_counts() * drawn))
    owner_N = np.repeat(np.arange(n_rows), copies_R)
    place_P, pair_P = once.positions_of(owner_N)
    histories = Interactions.from_pairs(
        place_P, once.indices[pair_P], user_ids=range(len(owner_N)), item_ids=range(n_items)
    )
    newcomers = _Newcomers(
        fixed, arrival, mean_vectors(fixed.item_ID, row_P, item_P, n_rows), torch.from_numpy(owner_N)
    )
    training = TrainingSettings(
        epochs=STEPS,
        batch=histories.n_pairs,
        candidates="all" if drawn is None else "pairs",
        negatives=drawn,
        exclude=exclude,
    )
    optimizer = OptimizerSettings(lr=RATE / dim**0.5, schedule="linear", final_lr_factor=0.0)
    try:
        Training(newcomers, _afresh(loss), histories, training=training, optimizer=optimizer).run()
    except InputError:
        raise
    except ShortlistError as problem:  # whose advice is for those who train
        raise ShortlistError("fold_in: the loss of these histories is no number: the model may be damaged") from problem
    return newcomers.direction.detach()


def _afresh(loss: Loss) -> Loss:
    """The same loss without what it remembers; a threshold that it has is looked up in every step."""
    settings = loss.settings()
    if "refresh" in settings:
        settings["refresh"] = 1
    return type(loss)(**settings)


class _Newcomers(Factored):
    """A model of new users alone: the directions of their own vectors are all that can be learned."""

    def __init__(self, fixed: Factors, arrival: FoldInUsers, start_ND: Tensor, owner_N: Tensor) -> None:
        super().__init__()
        self._fixed, self._arrival, self._start_ND, self._owner_N = fixed, arrival, start_ND, owner_N

    def start(self, train: Interactions, generator: torch.Generator) -> None:
        """Towards the mean of the history."""
        self.direction = nn.Parameter(torch.nn.functional.normalize(self._start_ND))

    def factors(self) -> Factors:
        """The users as they stand, each as often as it is there, and the items as they are."""
        user_ND = self._arrival.vectors(self.direction).index_select(0, self._owner_N)
        return Factors(user_ND, self._fixed.item_ID, "dot", self._fixed.bias_I)

    def arrival(self, row_P: Tensor, item_P: Tensor, n_rows: int) -> FoldInUsers:
        """The same for everybody."""
        return self._arrival

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over directions."""
        self.direction = nn.Parameter(state["direction"])


def _draws(loss: Loss, settings: TrainingSettings) -> int | None:
    """How many negatives the run has drawn for a pair; none where what it saw stands for the whole catalogue."""
    weighted = settings.distribution != "uniform" if settings.weighted is None else settings.weighted
    by_pairs = settings.candidates == "pairs" or (settings.candidates == "auto" and loss.sampled is not None)
    return settings.negatives or loss.sampled or 1000 if by_pairs and not weighted else None
