"""Temperature search: a few short trials, compared on validation.

The best temperature depends on the data more than any other setting of a softmax loss: it is low for data that is easy
to predict and high for noisy data. It differs by a factor of four between common data sets, and a wrong one costs up to
a quarter of the accuracy. A few hundred steps are enough to find it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from shortlist.errors import ShortlistError

FACTORS = (1.0, 0.5, 2.0, 0.25)
"""The temperatures of the trials, as multiples of the loss's default, because the scale differs between losses.

The default is tried first, so that a search with a short time limit does not end below it.
"""

STEPS = 250
"""Minimum steps of a trial, if the training has as many: on small data sets a few epochs are not enough."""


class OutOfTime(Exception):
    """The time limit of the search is reached."""


def check_time(until: float) -> None:
    """Raise :class:`OutOfTime` if ``time.monotonic()`` exceeds ``until``."""
    if monotonic() > until:
        raise OutOfTime


def best_temperature(default: float, trial: Callable[[float], float], until: float = math.inf) -> float:
    """The temperature with the highest validation value.

    Once ``time.monotonic()`` exceeds ``until``, the result is the best so far, or the default if no trial has finished.

    >>> best_temperature(0.2, lambda tau: -abs(tau - 0.11))
    0.1
    """
    best_tau, best_value = default, -math.inf
    for tau in (factor * default for factor in FACTORS):
        try:
            check_time(until)
            value = trial(tau)
        except ShortlistError:  # skip this temperature; if all fail, the training reports the error
            continue
        except OutOfTime:  # an unfinished trial is not comparable
            break
        if value > best_value:
            best_tau, best_value = tau, value
    return best_tau


def trial_epochs(steps_per_epoch: int, temperature_epochs: int, epochs: int) -> int:
    """Epochs of a trial: the given number, or as many as :data:`STEPS` need, but at most those of the training.

    >>> trial_epochs(steps_per_epoch=10, temperature_epochs=6, epochs=40), trial_epochs(1000, 6, 5)
    (25, 5)
    """
    return min(epochs, max(temperature_epochs, -(-STEPS // steps_per_epoch)))
