"""The score at which a user's Top-K list ends."""

from shortlist.thresholds.estimators import (
    Estimator,
    Last,
    exact,
    incremental,
    monte_carlo,
    positives_kept,
    regression,
    stratified,
)
from shortlist.thresholds.keeper import Thresholds

__all__ = [
    "Estimator",
    "Last",
    "Thresholds",
    "exact",
    "incremental",
    "monte_carlo",
    "positives_kept",
    "regression",
    "stratified",
]
