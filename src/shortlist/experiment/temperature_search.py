"""The temperature found by trying: a few short trainings, judged on validation.

How sharp scores should be depends on the data more than anything else that a softmax loss is told: where choices are
easy to foresee a low temperature is best, where they are noisy a high one. The best value differs by a factor of four
between ordinary sets, and costs a quarter of the accuracy if missed. A few hundred steps are enough to see which it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from shortlist.data import Interactions
from shortlist.errors import ShortlistError
from shortlist.losses import Loss
from shortlist.models import Model, TrainableModel
from shortlist.training import OptimizerSettings, Training, TrainingSettings
from shortlist.training.settings import batches_for

FACTORS = (1.0, 0.5, 2.0, 0.25)
"""What is tried, as multiples of the loss's default: what is sharp for one loss is not for another.

The default comes first, so that a search for which there is little time finds nothing that is worse.
"""

STEPS = 250
"""How many steps a trial takes at least, if the training has so many: on small sets a few epochs show nothing yet."""


class _OutOfTime(Exception):
    """The time is over."""


def find_temperature(
    model: TrainableModel,
    loss: Loss,
    train: Interactions,
    value_of: Callable[[Model], float],
    *,
    training: TrainingSettings,
    optimizer: OptimizerSettings,
    seed: int,
    until: float = math.inf,
    told: Callable[[float, float], None] = lambda tau, value: None,
) -> float:
    """The temperature that reaches the highest validation value within a short trial (:func:`trial_epochs`).

    Model and loss are not touched: each trial trains copies of its own, with a learning rate that falls to its end.
    Once ``time.monotonic()`` says ``until``, the best so far is it, or the default where no trial has come to its end.
    """
    default = float(loss.declared["tau"].default)
    best_tau, best_value = default, float("-inf")
    epochs = trial_epochs(model, loss, train, training)
    short = TrainingSettings(**{**training.settings(), "epochs": epochs})
    falling = OptimizerSettings(**{**optimizer.settings(), "schedule": "linear"})

    def look() -> None:
        if monotonic() > until:
            raise _OutOfTime

    for tau in (factor * default for factor in FACTORS):
        pilot_model = type(model)(**model.settings())
        pilot_loss = type(loss)(**{**loss.settings(), "tau": tau})
        try:
            look()
            trial = Training(pilot_model, pilot_loss, train, training=short, optimizer=falling, seed=seed)
            trial.run(on_step=lambda share: look())
        except ShortlistError:  # not this temperature; should none do, the training itself will say why
            continue
        except _OutOfTime:  # what is left unfinished cannot be compared
            break
        value = value_of(pilot_model)
        told(tau, value)
        if value > best_value:
            best_tau, best_value = tau, value
    return best_tau


def trial_epochs(model: TrainableModel, loss: Loss, train: Interactions, training: TrainingSettings) -> int:
    """How many epochs a trial takes: as many as asked for, or as :data:`STEPS` need, and never more than training."""
    needed = -(-STEPS // batches_for(model, loss, train, training).steps)
    return min(training.epochs, max(training.temperature_epochs, needed))
