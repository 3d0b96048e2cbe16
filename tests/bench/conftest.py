"""What the tests of grids share: a small grid over a small table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Write = Callable[..., Path]

QUICK = {"model.dim": 8, "optimizer.lr": 0.03, "training.epochs": 4, "training.batch": 8, "training.validate_every": 1,
         "training.checkpoint_every": 0, "training.temperature_epochs": 0}  # fmt: skip


@pytest.fixture
def data(clicks: Path) -> Path:
    """The folder of the datasets."""
    return clicks.parent


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a small grid with changes; settings are added to those that make it quick."""

    def make(name: str = "grid", settings: tuple[Any, ...] = (), **changes: Any) -> Path:
        rules = [{"when": {"model": "mf"}, "set": QUICK}, *settings]
        plain = {"title": "Small", "datasets": ["clicks.csv"], "losses": ["sl", "bpr"], "seeds": [0, 1], "k": 5,
                 "metrics": ["ndcg@5"]}  # fmt: skip
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**plain, **changes, "settings": rules}, sort_keys=False))
        return path

    return make
