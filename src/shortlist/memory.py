"""How much memory there is, and refusals before more than that is asked for."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from shortlist.errors import InputError


def available_memory() -> int | None:
    """The bytes that a process can still get, by the system and the limits of a container; None where unknown."""
    known = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        largest, used = ((group / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        known.append(max(0, int(largest) - int(used)))
    if not known:
        with suppress(OSError, ValueError, AttributeError):
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=None)


def check_memory(owner: str, n_bytes: int) -> None:
    """Refuse what needs more memory than there is.

    >>> check_memory("mf", 10**18)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: mf: expected a need of at most ... bytes of memory, which are available, received
    1,000,000,000,000,000,000
    """
    available = available_memory()
    if available is not None and n_bytes > available:
        raise InputError(
            f"{owner}: expected a need of at most {available:,} bytes of memory, which are available, "
            f"received {n_bytes:,}"
        )
