"""Specifications that tests write."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from shortlist.bench import Cell, cells, read_spec

PLAIN: dict[str, Any] = {"title": "t", "datasets": ["clicks.csv"], "losses": ["sl", "slatk"], "seeds": [0]}


def write(folder: Path, others: Mapping[Any, Any] = MappingProxyType({}), **changes: Any) -> Path:
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({**PLAIN, **others, **changes}, sort_keys=False))
    return path


def grid(folder: Path, **changes: Any) -> list[Cell]:
    return list(cells(read_spec(write(folder, **changes))))
