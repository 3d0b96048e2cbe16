"""Experiments: fit a model with a loss on a split, search the temperature, evaluate, and write the run."""

from shortlist.experiment.experiment import SECTIONS, Callbacks, ExperimentConfig, ExperimentResult, fit, plan
from shortlist.experiment.presets import PRESETS, Preset, preset

__all__ = [
    "PRESETS",
    "SECTIONS",
    "Callbacks",
    "ExperimentConfig",
    "ExperimentResult",
    "Preset",
    "fit",
    "plan",
    "preset",
]
