"""Hyperparameter search: trials judged on validation, in a study that can be resumed."""

from shortlist.tuning.space import Space, space_of
from shortlist.tuning.study import LOCKS, STUDY, Study, Trial, margin_note
from shortlist.tuning.tune import KEPT_BACK, finish, prepare, work

__all__ = [
    "KEPT_BACK",
    "LOCKS",
    "STUDY",
    "Space",
    "Study",
    "Trial",
    "finish",
    "margin_note",
    "prepare",
    "space_of",
    "work",
]
