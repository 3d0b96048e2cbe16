"""The run format: a folder that holds a fitted model, its configuration, its data and its metrics."""

from shortlist.runs.evaluation import Evaluations, checked_ks, default_ks, evaluate_split, known_pairs
from shortlist.runs.folder import CHECKPOINT, RunLocked, check_target, new_folder, read_log
from shortlist.runs.identity import difference, fingerprint, result_config
from shortlist.runs.ids import Ids
from shortlist.runs.run import FILES, FORMAT, Run, open_run, remeasure, write_run

__all__ = [
    "CHECKPOINT",
    "FILES",
    "FORMAT",
    "Evaluations",
    "Ids",
    "Run",
    "RunLocked",
    "check_target",
    "checked_ks",
    "default_ks",
    "difference",
    "evaluate_split",
    "fingerprint",
    "known_pairs",
    "new_folder",
    "open_run",
    "read_log",
    "remeasure",
    "result_config",
    "write_run",
]
