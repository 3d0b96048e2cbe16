"""Keep freed memory: returning blocks to the system can cost more, by page faults, than the arithmetic."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the names of these options in <malloc.h>


def tune_malloc() -> None:
    """Configure glibc to keep large blocks for the next step instead of returning them. Does nothing elsewhere.

    By default every tensor above some megabytes is mapped anew, and each page fault zeroes a page. Training allocates
    the same sizes in every step, so kept blocks are always reused.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return
    mallopt(_MMAP_THRESHOLD, 1 << 30)
    mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
