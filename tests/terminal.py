"""A program that is looked at: what it writes to stderr goes to a terminal."""

import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from attempts import SOURCE


def watched(
    arguments: Sequence[object], *, columns: int, meanwhile: Callable[[], object] = lambda: None
) -> tuple[int, str, str]:
    """How Python with these arguments ends, what it prints, and what it shows on the terminal."""
    leader, follower = pty.openpty()
    environment = {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": str(columns)}
    words = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=follower, text=True, env={**os.environ, **environment}
    ) as process:
        os.close(follower)
        shown: list[bytes] = []
        reader = threading.Thread(target=_read_all, args=(leader, shown))
        reader.start()
        while process.poll() is None:
            meanwhile()
            time.sleep(0.02)
        printed, _ = process.communicate()
    reader.join()
    os.close(leader)
    return process.returncode, printed, b"".join(shown).decode()


def _read_all(terminal: int, into: list[bytes]) -> None:
    try:
        while part := os.read(terminal, 65536):
            into.append(part)
    except OSError:  # the other end is closed
        pass
