"""Experiments: fit a model with a loss on a split, search the temperature, evaluate, and write the run."""

from shortlist.experiment.config import SECTIONS, ExperimentConfig, configure, plan
from shortlist.experiment.experiment import Callbacks, ExperimentResult, fit
from shortlist.experiment.presets import PRESETS, Preset, preset
from shortlist.experiment.progress import progress_callbacks

__all__ = [
    "PRESETS",
    "SECTIONS",
    "Callbacks",
    "ExperimentConfig",
    "ExperimentResult",
    "Preset",
    "configure",
    "fit",
    "plan",
    "preset",
    "progress_callbacks",
]
