"""Runs: folders that hold a fitted model with all it needs to answer, and what it was measured to do."""

from shortlist.runs.evaluation import Evaluations, checked_ks, default_ks, evaluate_split, known_pairs
from shortlist.runs.folder import check_target, new_folder
from shortlist.runs.ids import Ids
from shortlist.runs.recommend import recommend
from shortlist.runs.run import FILES, Run, open_run, write_run

__all__ = [
    "FILES",
    "Evaluations",
    "Ids",
    "Run",
    "check_target",
    "checked_ks",
    "default_ks",
    "evaluate_split",
    "known_pairs",
    "new_folder",
    "open_run",
    "recommend",
    "write_run",
]
