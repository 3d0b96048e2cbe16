"""The score at which a user's Top-K list ends."""

from shortlist.thresholds.estimators import Estimator, exact, monte_carlo, positives_kept, stratified
from shortlist.thresholds.keeper import Thresholds

__all__ = ["Estimator", "Thresholds", "exact", "monte_carlo", "positives_kept", "stratified"]
