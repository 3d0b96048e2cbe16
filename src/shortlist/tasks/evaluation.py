"""Evaluation of models on the parts of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shortlist.data import Split
from shortlist.errors import InputError
from shortlist.metrics import KS, Evaluation, evaluate_set
from shortlist.ranking import Progress, Scorer, catalogue_size
from shortlist.tasks.base import Part, Task
from shortlist.tasks.collaborative import Collaborative


@dataclass(frozen=True, eq=False)
class Evaluations:
    """The evaluations on the validation and on the test part; None for a part that is missing or empty."""

    valid: Evaluation | None
    test: Evaluation | None
    beyond_accuracy: Mapping[str, float] = field(default_factory=dict)
    """Beyond-accuracy metrics of the test lists: coverage, Gini and mean popularity at each K."""

    def test_means(self) -> dict[str, float]:
        """All metrics of the test part, by name."""
        return {} if self.test is None else {**self.test.means(), **self.beyond_accuracy}


def evaluate_task(
    scorer: Scorer,
    task: Task,
    *,
    ks: Sequence[int] | None = None,
    pairwise: bool = False,
    progress: Progress | None = None,
) -> Evaluations:
    """Evaluate on validation and test with the protocol of the task."""
    catalogue_size(scorer)  # raises for a model that was not fitted
    lengths = default_ks(task.n_candidates) if ks is None else checked_ks(ks, task.n_candidates)

    def measured(part: Part) -> Evaluation | None:
        asked = task.evaluation_set(part)
        return None if asked is None else evaluate_set(scorer, asked, lengths, pairwise=pairwise, progress=progress)

    valid, test = measured("valid"), measured("test")
    return Evaluations(valid, test, {} if test is None else task.beyond_accuracy(test, lengths))


def evaluate_split(
    scorer: Scorer,
    split: Split,
    *,
    ks: Sequence[int] | None = None,
    pairwise: bool = False,
    progress: Progress | None = None,
) -> Evaluations:
    """Evaluate over the full catalogue; lists leave out what the split's protocol excludes."""
    return evaluate_task(scorer, Collaborative(split), ks=ks, pairwise=pairwise, progress=progress)


def default_ks(n_items: int) -> list[int]:
    """The default list lengths that do not exceed the catalogue.

    >>> default_ks(30), default_ks(3)
    ([5, 10, 20], [3])
    """
    return [k for k in KS if k <= n_items] or [n_items]


def checked_ks(ks: Sequence[int], n_items: int) -> list[int]:
    """The sorted list lengths; an error if one exceeds the catalogue.

    >>> checked_ks([20, 0], 1000)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: K: expected a whole number from 1 to 1000 (the catalogue), received 0
    """
    for k in ks:
        if not 1 <= k <= n_items:
            raise InputError(f"K: expected a whole number from 1 to {n_items} (the catalogue), received {k}")
    return sorted(set(ks))
