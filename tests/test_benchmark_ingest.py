"""The benchmark itself, on a few rows."""

import json
import subprocess
import sys
from pathlib import Path

import shortlist

SOURCE = Path(shortlist.__file__).parents[1]


def test_it_prints_one_object() -> None:
    command = [sys.executable, str(SOURCE.parent / "benchmarks" / "ingest.py"), "--rows", "2000", "--json"]
    answer = subprocess.run(command, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True)
    result = json.loads(answer.stdout)
    assert result["rows"] == 2000
    assert result["seconds"] > 0
    assert result["floor_seconds"] > 0
    assert result["ratio"] > 0
    assert 0 < result["peak_gigabytes"] < 4
