"""The run format: a folder that holds a fitted model, its configuration, its data and its metrics."""

from shortlist.runs.fitted import FittedModel
from shortlist.runs.folder import CHECKPOINT, RunLocked, check_target, new_folder, read_log
from shortlist.runs.identity import difference, fingerprint, result_config
from shortlist.runs.ids import Ids
from shortlist.runs.run import FILES, FORMAT, Fitted, Run, copy_run, open_run, remeasure, write_run
from shortlist.tasks import Evaluations, checked_ks, default_ks, evaluate_split, evaluate_task

__all__ = [
    "CHECKPOINT",
    "FILES",
    "FORMAT",
    "Evaluations",
    "Fitted",
    "FittedModel",
    "Ids",
    "Run",
    "RunLocked",
    "check_target",
    "checked_ks",
    "copy_run",
    "default_ks",
    "difference",
    "evaluate_split",
    "evaluate_task",
    "fingerprint",
    "new_folder",
    "open_run",
    "read_log",
    "remeasure",
    "result_config",
    "write_run",
]
