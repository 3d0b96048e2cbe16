"""Tuning: settings found by trials that are judged on validation, in a study that survives a kill."""

from shortlist.tuning.space import Space, space_of
from shortlist.tuning.study import LOCKS, STUDY, Study, Trial, passed_over
from shortlist.tuning.tune import KEPT_BACK, finish, prepare, work

__all__ = [
    "KEPT_BACK",
    "LOCKS",
    "STUDY",
    "Space",
    "Study",
    "Trial",
    "finish",
    "passed_over",
    "prepare",
    "space_of",
    "work",
]
