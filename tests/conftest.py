"""What the tests share."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["command", "attempts"]

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """The place of a public data set that lies beside the repository; skips the test if it is not there."""
    folder = Path(os.environ.get("SHORTLIST_DATA", REPOSITORY.parent / "shared" / "data"))

    def place(name: str) -> Path:
        path = folder / name
        if not path.exists():
            pytest.skip(f"{path} is not here")
        return path

    return place
