"""Tasks: data, batches and evaluation."""

from shortlist.tasks.base import Batches, Part, Task, registry
from shortlist.tasks.batches import SampledPairs, SharedSample, UserBatches, WholeCatalogue, user_batch
from shortlist.tasks.collaborative import Collaborative, task_of, test_pairs
from shortlist.tasks.evaluation import Evaluations, checked_ks, default_ks, evaluate_split, evaluate_task
from shortlist.tasks.settings import BatchSettings

__all__ = [
    "BatchSettings",
    "Batches",
    "Collaborative",
    "Evaluations",
    "Part",
    "SampledPairs",
    "SharedSample",
    "Task",
    "UserBatches",
    "WholeCatalogue",
    "checked_ks",
    "default_ks",
    "evaluate_split",
    "evaluate_task",
    "registry",
    "task_of",
    "test_pairs",
    "user_batch",
]
