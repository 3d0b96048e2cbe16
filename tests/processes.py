"""The command in a process of its own, and the processes that it starts."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from attempts import SOURCE

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="needs /proc to find the children of a process"
)


def started(*arguments: object) -> subprocess.Popen[str]:
    """The command, as it goes on while others look."""
    return subprocess.Popen(
        [sys.executable, "-m", "shortlist", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"},
    )


def children(parent: int) -> list[int]:
    """The processes of a process that share its work, but not the one by which Python counts its semaphores."""
    found = [int(each) for path in Path(f"/proc/{parent}/task").glob("*/children") for each in path.read_text().split()]
    return [each for each in found if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def is_alive(number: int) -> bool:
    try:
        return "spawn_main" in Path(f"/proc/{number}/cmdline").read_text()
    except OSError:
        return False


def wait_for(condition: Any, process: subprocess.Popen[str] | None = None, seconds: float = 170) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
