"""Fixtures of the loss suite."""

import pytest

from shortlist.losses import Loss


@pytest.fixture
def thresholds_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every loss take a threshold, so that one test can call all losses; `test_own_loop.py` tests the refusal."""
    monkeypatch.setattr(Loss, "reads_thresholds", True)
