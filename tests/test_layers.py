"""The folders form a line: a package imports only from those before it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import shortlist

ROOT = Path(shortlist.__file__).parent
FLOW = [
    "errors", "memory", "files", "locks", "formatting", "progress", "adam", "parameters", "registry",
    "data", "negatives", "scores", "thresholds", "losses", "models", "ranking", "metrics", "tasks", "training",
    "runs", "tracking", "experiment", "recommend",
    "theory", "tuning", "bench", "report", "api", "serving", "cli", "__main__",
]  # fmt: skip
UPWARDS = {"models/base.py": {"training"}}
"""Imports inside a function of what comes later: ``MF().fit(split)`` trains by the loop."""

FORBIDDEN = {
    "models": {"losses", "thresholds"},
    "ranking": {"losses", "models", "training"},
    "metrics": {"losses", "models", "training"},
}


def imports_of(path: Path) -> set[str]:
    """The packages of Shortlist that a file imports, late imports included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "shortlist" else [f"shortlist.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("shortlist.")}
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_imports_only_from_those_before_it(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    assert room in FLOW, f"{room} has no place in the flow"
    allowed = UPWARDS.get(str(path.relative_to(ROOT)), set())
    for other in imports_of(path) - {"__version__"} - allowed:
        assert other == room or FLOW.index(other) < FLOW.index(room), f"{room} must not import {other}"
        assert other not in FORBIDDEN.get(room, set()), f"{room} must not know {other}"


def test_losses_need_torch_and_numpy_only() -> None:
    """A developer with a loop of their own pulls in nothing else."""
    heavy = ["polars", "scipy", "typer", "rich", "safetensors", "altair", "pydantic"]
    program = f"import shortlist.losses, sys; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT.parent)},
    )
    assert answer.stdout.strip() == "[]"
