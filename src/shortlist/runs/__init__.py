"""Runs: folders that hold a fitted model with all it needs to answer, and what it was measured to do."""

from shortlist.runs.evaluation import Evaluations, checked_ks, default_ks, evaluate_split, known_pairs
from shortlist.runs.experiment import SECTIONS, Outcome, Plan, Watch, fit, plan
from shortlist.runs.folder import CHECKPOINT, Busy, check_target, new_folder, read_log
from shortlist.runs.identity import deciding, difference, fingerprint
from shortlist.runs.ids import Ids
from shortlist.runs.presets import PRESETS, Preset, preset
from shortlist.runs.recommend import recommend, recommend_to
from shortlist.runs.run import FILES, FORMAT, Run, open_run, remeasure, write_run
from shortlist.runs.sinks import MLflow, TensorBoard, sink
from shortlist.runs.telling import Sink

__all__ = [
    "CHECKPOINT",
    "FILES",
    "FORMAT",
    "PRESETS",
    "SECTIONS",
    "Busy",
    "Evaluations",
    "Ids",
    "MLflow",
    "Outcome",
    "Plan",
    "Preset",
    "Run",
    "Sink",
    "TensorBoard",
    "Watch",
    "check_target",
    "checked_ks",
    "deciding",
    "default_ks",
    "difference",
    "evaluate_split",
    "fingerprint",
    "fit",
    "known_pairs",
    "new_folder",
    "open_run",
    "plan",
    "preset",
    "read_log",
    "recommend",
    "recommend_to",
    "remeasure",
    "sink",
    "write_run",
]
