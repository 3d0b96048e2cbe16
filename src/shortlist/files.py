"""Atomic file writes: a reader finds the previous file or the new one, also after a crash, never a part of one."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from shortlist.errors import InputError, WriteError, WriteTargetError


@contextmanager
def atomic_file(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """A path beside ``path`` to write to. When the block ends, the new file is synced and takes the name of ``path``.

    After an error the new file is removed and the previous one stays. A crash leaves at most the new file, whose name
    begins with a dot; the next write replaces it. Where several processes may write the file at once (``shared``),
    each has a name of its own for the new file, and the last one to finish wins.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "table.csv"
    >>> with atomic_file(path) as draft:
    ...     _ = draft.write_text("user,item")
    >>> path.read_text()
    'user,item'
    """
    suffix = f"{secrets.token_hex(4)}.new" if shared else "new"
    draft = path.with_name(f".{path.name}.{suffix}")
    try:
        draft.unlink(missing_ok=True)
        yield draft
        set_default_mode(draft)
        sync(draft)
        draft.replace(path)
        sync(path.parent)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes | memoryview, *, shared: bool = False) -> None:
    """Replace a file by one with this content (:func:`atomic_file`)."""
    with atomic_file(path, shared=shared) as draft:
        draft.write_bytes(content)


def check_regular(path: Path) -> None:
    """Refuse devices, pipes and sockets, which may have no end or block for ever.

    >>> check_regular(Path(os.devnull))
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: ...: expected a regular file, received a device, a pipe or a socket
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"{path}: expected a regular file, received a device, a pipe or a socket")


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file. The path is read literally, whatever characters it has."""
    check_regular(path)
    return path.read_bytes()


def json_text(content: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """JSON as it is written to files, indented and with a newline at the end.

    >>> json_text({"k": 20})
    '{\\n  "k": 20\\n}\\n'
    """
    return json.dumps(content, indent=2, ensure_ascii=ascii_only) + "\n"


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk. Windows flushes folders by itself and cannot be asked to."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def set_default_mode(path: Path) -> None:
    """Give a file or a folder the permissions that the umask leaves: temporary ones are private to their owner."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())


@contextmanager
def write_errors(path: Path, what: str = "") -> Iterator[None]:
    """Turn an ``OSError`` into one line: a wrong place is bad input, a full or broken disk is a failure.

    >>> with write_errors(Path("runs/a"), "run"):
    ...     raise PermissionError(13, "Permission denied")
    Traceback (most recent call last):
    ...
    shortlist.errors.WriteTargetError: runs/a: expected a place to write a run to, received Permission denied
    """
    try:
        yield
    except (PermissionError, NotADirectoryError, IsADirectoryError, FileNotFoundError, FileExistsError) as problem:
        target = f"a {what} to" if what else "to"
        raise WriteTargetError(f"{path}: expected a place to write {target}, received {problem.strerror}") from problem
    except OSError as problem:
        subject = f"the {what} " if what else ""
        raise WriteError(f"{path}: {subject}cannot be written: {problem.strerror or problem}") from problem


def _umask() -> int:
    """The umask of the process. It can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
