"""How a model is measured on a split: one rule for every model, stated here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shortlist.data import Interactions, Split
from shortlist.errors import InputError
from shortlist.metrics import KS, Evaluation, catalogue, evaluate
from shortlist.ranking import Progress, Scorer


@dataclass(frozen=True, eq=False)
class Evaluations:
    """What a model does on the validation and on the test part; a part that is not there has no evaluation."""

    valid: Evaluation | None
    test: Evaluation | None
    catalogue: Mapping[str, float] = field(default_factory=dict)
    """What the test lists do to the catalogue: coverage, Gini and mean popularity at each K."""

    def test_means(self) -> dict[str, float]:
        """Everything that is measured on the test part, by name."""
        return {} if self.test is None else {**self.test.means(), **self.catalogue}


def known_pairs(split: Split, protocol: str) -> list[Interactions]:
    """What is not recommended any more when a model is asked for the test items.

    The items of training and of validation; only the former under the protocol of SL@K's authors, ``irbenchmark``.
    """
    if split.valid is None or protocol == "irbenchmark":
        return [split.train]
    return [split.train, split.valid]


def evaluate_split(
    scorer: Scorer,
    split: Split,
    *,
    protocol: str = "shortlist",
    ks: Sequence[int] | None = None,
    pairwise: bool = False,
    progress: Progress | None = None,
) -> Evaluations:
    """Evaluate over the whole catalogue: validation with the training items left out, test with :func:`known_pairs`."""
    lengths = default_ks(scorer.n_items) if ks is None else checked_ks(ks, scorer.n_items)

    def measured(truth: Interactions | None, exclude: Sequence[Interactions]) -> Evaluation | None:
        if truth is None or truth.n_pairs == 0:
            return None
        return evaluate(scorer, truth, exclude, lengths, pairwise=pairwise, progress=progress)

    valid, test = measured(split.valid, [split.train]), measured(split.test, known_pairs(split, protocol))
    return Evaluations(valid, test, {} if test is None else catalogue(test.ranking, lengths, split.train.item_counts()))


def default_ks(n_items: int) -> list[int]:
    """The usual lengths of list, as far as the catalogue can fill them.

    >>> default_ks(30), default_ks(3)
    ([5, 10, 20], [3])
    """
    return [k for k in KS if k <= n_items] or [n_items]


def checked_ks(ks: Sequence[int], n_items: int) -> list[int]:
    """The lengths of list in order, if the catalogue can fill each of them.

    >>> checked_ks([20, 0], 1000)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: K: expected a whole number from 1 to 1000 (the catalogue), received 0
    """
    for k in ks:
        if not 1 <= k <= n_items:
            raise InputError(f"K: expected a whole number from 1 to {n_items} (the catalogue), received {k}")
    return sorted(set(ks))
