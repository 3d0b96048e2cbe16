"""How soon `shortlist --help` answers, beside an interpreter that does nothing.

Both are started anew, in turns; the best of each counts, for a start is short and the machine may be busy.

    python benchmarks/startup.py
    python benchmarks/startup.py --json
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from _common import parser, seconds, show

TRIES, AIM_SECONDS = 10, 0.4


def start(words: list[str]) -> float:
    """Seconds of a new interpreter from its start to its end."""
    command = [sys.executable, *words]
    return seconds(partial(subprocess.run, command, check=True, capture_output=True))


def main() -> None:
    chosen = parser("How soon the command answers, beside an interpreter that does nothing.").parse_args()
    tries = [(start(["-m", "shortlist", "--help"]), start(["-c", ""])) for _ in range(TRIES)]
    helped, bare = (min(column) for column in zip(*tries, strict=True))
    result = {
        "help seconds": round(helped, 3),
        "bare interpreter seconds": round(bare, 3),
        "ratio": round(helped / bare, 1),
        "wanted seconds": AIM_SECONDS,
    }
    show(result, chosen.json)


if __name__ == "__main__":
    main()
