"""Keep freed memory: where page faults are dear, giving blocks back to the system costs more than the arithmetic."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the names of these options in <malloc.h>


def tune_malloc() -> None:
    """Ask glibc to keep large blocks for the next step instead of returning them at once. Elsewhere, do nothing.

    By default every tensor above some megabytes is mapped anew, its pages zeroed one fault at a time. Training
    allocates the same sizes in every step, so that kept blocks are always used again.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return
    mallopt(_MMAP_THRESHOLD, 1 << 30)
    mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
