"""Locks of folders between processes. A lock ends with the process that holds it, however that process ends.

There are three mechanisms, of which the first that the platform has is used:

- POSIX: ``flock`` on the folder itself. Nothing is written.
- Windows: ``msvcrt.locking`` on the empty file ``.NAME.lock`` beside the folder: a folder cannot be locked there, nor
  renamed while a file in it is open. The file is kept, for removing it while others wait could give the lock to two.
- Elsewhere: claims. A process creates a claim, the empty file ``.NAME.lock-HOST-PID-TOKEN`` beside the folder, then
  lists the claims, and withdraws its own if another process has one. Each claim is created before its owner lists them,
  so of two processes the one that lists last sees the other's claim: at most one holds the lock. Names are unique, so
  that anyone may remove the claim of a process that has ended. The process of another host counts as running.

A file system that supports no locks locks nothing: every lock is granted.
"""

from __future__ import annotations

import hashlib
import os
import platform
import random
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any


def _module(name: str) -> Any:
    """A module of the standard library that not every platform has."""
    try:
        return import_module(name)
    except ImportError:
        return None


fcntl, msvcrt = _module("fcntl"), _module("msvcrt")

CHECK_SECONDS, ATTEMPTS = 0.01, 3
"""How long checking a lock may hold it, in seconds, and how often taking it is therefore attempted."""


@contextmanager
def try_lock(folder: Path) -> Iterator[bool]:
    """Lock an existing folder for the length of the block; False where another process, or this one, has it locked.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> with try_lock(folder) as first, try_lock(folder) as second:
    ...     first, second
    (True, False)
    """
    lock = _lock_of(folder)
    try:
        yield _take(lock)
    finally:
        lock.release()


@contextmanager
def wait_for_lock(folder: Path) -> Iterator[None]:
    """Lock an existing folder for the length of the block, as soon as it is free."""
    lock = _lock_of(folder)
    try:
        lock.wait()
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a process has the folder locked, this one or another. A folder that does not exist is not locked."""
    try:
        lock = _lock_of(folder)
        try:
            return lock.is_held()
        finally:
            lock.release()
    except OSError:
        return False


class _Lock(ABC):
    """One process's handle on the lock of a folder."""

    @abstractmethod
    def take(self) -> bool:
        """Take the lock if it is free, without waiting."""

    @abstractmethod
    def is_held(self) -> bool:
        """Whether the lock is held, by whichever handle."""

    @abstractmethod
    def release(self) -> None:
        """Give the lock back, if it was taken, and close the handle."""

    def wait(self) -> None:
        """Take the lock, waiting until it is free."""
        while not self.take():
            _pause()


class _Flock(_Lock):
    """POSIX. ``flock`` locks belong to the descriptor: two handles of one process exclude each other."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY)

    def take(self) -> bool:
        return self._flock(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def wait(self) -> None:
        self._flock(fcntl.LOCK_EX)

    def is_held(self) -> bool:
        return not self._flock(fcntl.LOCK_SH | fcntl.LOCK_NB)

    def release(self) -> None:
        os.close(self._descriptor)

    def _flock(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor, kind)
        except BlockingIOError:
            return False
        except OSError:  # no locks on this file system
            pass
        return True


class _LockFile(_Lock):
    """Windows. The first byte of the file is locked, which need not exist."""

    def __init__(self, folder: Path) -> None:
        self._path = _beside(folder, ".lock")
        self._descriptor: int | None = None

    def take(self) -> bool:
        return self._take(os.O_RDWR | os.O_CREAT)

    def is_held(self) -> bool:
        try:
            return not self._take(os.O_RDWR)
        except FileNotFoundError:  # it was never locked
            return False

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _take(self, flags: int) -> bool:
        descriptor = os.open(self._path, flags)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True


class _Claim(_Lock):
    """Platforms without locks. A claim is a file with a unique name; it holds the lock if there is no other claim."""

    def __init__(self, folder: Path) -> None:
        host = hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()
        self._path = _beside(folder, f".lock-{host}-{os.getpid()}-{secrets.token_hex(4)}")
        self._any, self._own_host = _beside(folder, ".lock-").name, _beside(folder, f".lock-{host}-").name

    def take(self) -> bool:
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        if self.is_held():
            self.release()
            return False
        return True

    def is_held(self) -> bool:
        found = [path for path in self._path.parent.iterdir() if path.name.startswith(self._any)]
        return any(self._is_alive(path) for path in found if path != self._path)

    def release(self) -> None:
        self._path.unlink(missing_ok=True)

    def _is_alive(self, claim: Path) -> bool:
        """Whether the process of a claim may still run; if it has ended, its claim is removed."""
        process = claim.name.removeprefix(self._own_host).partition("-")[0]
        if not claim.name.startswith(self._own_host) or not process.isdecimal() or _is_running(int(process)):
            return True
        claim.unlink(missing_ok=True)
        return False


def _lock_of(folder: Path) -> _Lock:
    kind: type[_Lock] = _Flock if fcntl is not None else _LockFile if msvcrt is not None else _Claim
    return kind(folder)  # type: ignore[call-arg]


def _take(lock: _Lock) -> bool:
    """Take a lock, past processes that check it just then."""
    for attempt in range(ATTEMPTS):
        if attempt:
            _pause()
        if lock.take():
            return True
    return False


def _pause() -> None:
    """A random length of time, so that two processes that are in each other's way do not stay so."""
    sleep(CHECK_SECONDS * random.uniform(1, 2))


def _beside(folder: Path, suffix: str) -> Path:
    folder = folder.resolve()
    return folder.with_name(f".{folder.name}{suffix}")


def _is_running(process: int) -> bool:
    """Whether there is a process of this number. On Windows asking would end it; there it counts as running."""
    if os.name == "nt" or process == os.getpid():
        return True
    with suppress(PermissionError, AttributeError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True
