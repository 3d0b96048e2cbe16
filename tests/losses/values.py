"""What the suite has to be told about each loss. A new loss needs an entry in its family's file, and nothing else."""

from __future__ import annotations

import pytest

from losses.entries import (
    auc,
    guided,
    hard,
    lambdas,
    listwise,
    pairwise,
    pointwise,
    recall,
    relaxed_sorts,
    softmax,
    surrogates,
)
from losses.oracle import Values
from shortlist.losses import registry

VALUES: dict[str, Values] = {
    **auc.VALUES,
    **guided.VALUES,
    **hard.VALUES,
    **lambdas.VALUES,
    **listwise.VALUES,
    **pairwise.VALUES,
    **pointwise.VALUES,
    **recall.VALUES,
    **relaxed_sorts.VALUES,
    **softmax.VALUES,
    **surrogates.VALUES,
}


def values_of(name: str) -> Values:
    """The entry of a loss, or a failed test that says what to add."""
    if name not in VALUES:
        pytest.fail(f"the loss {name!r} is registered but has no entry in VALUES of tests/losses/entries: add one")
    return VALUES[name]


def registered() -> list[str]:
    """Every loss of this library; what other installed packages register is theirs to test."""
    return sorted(name for name in registry if registry[name].__module__.startswith("shortlist."))
