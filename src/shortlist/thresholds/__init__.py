"""The score at which a row's Top-K list ends."""

from shortlist.thresholds.errors import ThresholdError, judge
from shortlist.thresholds.estimators import (
    Estimator,
    Previous,
    exact,
    incremental,
    monte_carlo,
    positives_kept,
    regression,
    stratified,
)
from shortlist.thresholds.helper import TopKThreshold
from shortlist.thresholds.state import Thresholds

__all__ = [
    "Estimator",
    "Previous",
    "ThresholdError",
    "Thresholds",
    "TopKThreshold",
    "exact",
    "incremental",
    "judge",
    "monte_carlo",
    "positives_kept",
    "regression",
    "stratified",
]
