"""What the suite has to be told about each loss. A new loss needs an entry in its family's file, and nothing else."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from losses import entries
from losses.oracle import Values
from shortlist.losses import registry

FAMILIES = [import_module(f"losses.entries.{module.name}") for module in iter_modules(entries.__path__)]
VALUES: dict[str, Values] = {name: values for family in FAMILIES for name, values in family.VALUES.items()}


def values_of(name: str) -> Values:
    """The entry of a loss, or a failed test that says what to add."""
    if name not in VALUES:
        pytest.fail(f"the loss {name!r} is registered but has no entry in VALUES of tests/losses/entries: add one")
    return VALUES[name]


def registered() -> list[str]:
    """Every loss of this library; what other installed packages register is theirs to test."""
    return sorted(name for name in registry if registry[name].__module__.startswith("shortlist."))
