"""The loop that joins a loss to a model."""

from shortlist.training.fold_in import fold_in
from shortlist.training.loop import Collapsed, Progress, Training
from shortlist.training.optimizers import OptimizerSettings
from shortlist.training.settings import TrainingSettings

__all__ = ["Collapsed", "OptimizerSettings", "Progress", "Training", "TrainingSettings", "fold_in"]
