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
from shortlist.thresholds.judging import Judgement, judge
from shortlist.thresholds.keeper import Thresholds

__all__ = [
    "Estimator",
    "Judgement",
    "Last",
    "Thresholds",
    "exact",
    "incremental",
    "judge",
    "monte_carlo",
    "positives_kept",
    "regression",
    "stratified",
]
