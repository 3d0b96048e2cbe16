"""The training loop."""

from shortlist.training.fold_in import fold_in
from shortlist.training.loop import Collapsed, Progress, Training, fit_model
from shortlist.training.optimizers import OptimizerSettings
from shortlist.training.settings import TrainingSettings

__all__ = ["Collapsed", "OptimizerSettings", "Progress", "Training", "TrainingSettings", "fit_model", "fold_in"]
