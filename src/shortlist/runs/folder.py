"""Folders and files that appear whole or not at all, and the log of a run on its way."""

from __future__ import annotations

import ctypes
import fcntl
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

from shortlist.errors import InputError, WriteError, WriteTargetError

MARK, CHECKPOINT = "config.json", "checkpoint.safetensors"
"""The files by which a run is known, finished or not: only a folder that holds one of them is ever overwritten."""

LOOK, LOOKS = 0.01, 3
"""Seconds for which somebody may look whether a folder is held, and how often that is waited for to hold it."""


def check_target(folder: Path, *, overwrite: bool = False, resume: bool = False) -> None:
    """Find out before any work is done whether a run can be written there. Leaves nothing behind.

    ``resume`` is for a run that stopped on its way, also before there was a checkpoint to find.

    >>> check_target(Path(__file__) / "run")
    Traceback (most recent call last):
    ...
    shortlist.errors.WriteTargetError: ...folder.py/run: expected a place to write a run to, received Not a directory
    """
    with writing(folder):
        _put_back(folder)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: expected a folder to write a run to, received a file")
        if folder.is_mount():
            raise InputError(f"{folder}: expected a folder that can be renamed, received a mount point (one below it?)")
        if resume and not ((folder / CHECKPOINT).is_file() or _is_free(folder)):
            received = "a finished run" if (folder / MARK).is_file() else "other files"
            raise InputError(f"{folder}: expected a checkpoint to resume from, received {received}")
        if not (resume or _is_free(folder)):
            if not overwrite:
                flags = "--resume or --overwrite" if (folder / CHECKPOINT).is_file() else "--overwrite"
                raise InputError(f"{folder}: expected a new or empty folder, received one with files ({flags}?)")
            if not any((folder / mark).is_file() for mark in (MARK, CHECKPOINT)):
                raise InputError(f"{folder}: expected an earlier run to overwrite, received a folder without {MARK}")
        place = next(parent for parent in folder.resolve().parents if parent.exists())
        Path(tempfile.mkdtemp(dir=place, prefix=f".{folder.name}.new-")).rmdir()  # permissions alone do not tell


@contextmanager
def new_folder(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill, which gets its name when it is complete and on the disk, or disappears after an error.

    It is filled under another name beside its target and then renamed. A crash leaves at most that other folder, whose
    name begins with a dot, and the next one who writes there removes it. An earlier run, or the checkpoint of this
    one, keeps its name up to the moment in which the new one takes it.
    """
    check_target(folder, overwrite=overwrite)
    with writing(folder):
        folder = folder.resolve()  # a link stays one
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left_over in [*_beside(folder, "new"), *_beside(folder, "old")]:
            shutil.rmtree(left_over, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.new-"))
        try:
            yield draft
            for path in [*sorted(draft.rglob("*")), draft]:
                path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())  # as others are, not private as drafts are
                _sync(path)
            _swap(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file of a run so that it is there as it was or as it will be, and nothing in between."""
    draft = path.with_name(f".{path.name}.new")
    with writing(path.parent):
        try:
            draft.write_bytes(content)
            _sync(draft)
            draft.replace(path)
            _sync(path.parent)
        finally:
            draft.unlink(missing_ok=True)


def read_log(folder: Path) -> list[Mapping[str, Any]]:
    """The lines of a run's log that tell of epochs; a line that is just being written is left for later."""
    lines = []
    try:
        text = (folder / "log.jsonl").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if "epoch" in entry:
            lines.append(entry)
    return lines


class RunLocked(InputError):
    """Another process trains the run."""


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold a folder while a run is trained there: two trainings would write over each other's checkpoints.

    The lock ends with the process, however that ends. A file system without locks holds nobody off.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not _takes(descriptor, fcntl.LOCK_EX, LOOKS):
            raise RunLocked(f"{folder}: expected a run that nobody trains, received one that is in training")
        yield
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Whether somebody holds a folder, in this process or in another one. To look is to share it for a moment."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _takes(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _takes(descriptor: int, kind: int, tries: int = 1) -> bool:
    """Whether a lock can be had, or there are none."""
    for again in range(tries):
        if again:
            sleep(LOOK)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError:
            pass
        return True
    return False


def _is_free(folder: Path) -> bool:
    """Whether nothing is there, but perhaps a first checkpoint that was never completed."""
    return not folder.is_dir() or all(path.name == f".{CHECKPOINT}.new" for path in folder.iterdir())


def _beside(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.parent.glob(f".{glob.escape(folder.name)}.{kind}-*"))


def _swap(draft: Path, folder: Path) -> None:
    """Give the draft its name; what stood there gets the draft's, to be removed with it.

    Where the system cannot do this in one step, what stood there is moved aside first. A crash just then leaves the
    name free; whoever comes to write there next puts it back.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        draft.rename(folder)
    elif not _exchange(draft, folder):
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old-"))
        folder.rename(aside)
        try:
            draft.rename(folder)
        except BaseException:
            aside.rename(folder)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    _sync(folder.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change names in one step, which a crash cannot cut in two. False where that is not to be had."""
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of <fcntl.h> and <linux/fs.h>
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # not Linux
        return False
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _put_back(folder: Path) -> None:
    """Undo the half of a swap that a crash cut in two."""
    aside = [path for path in _beside(folder, "old") if any(path.iterdir())]
    if aside and not folder.exists():
        aside[-1].rename(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say in one line why a folder cannot be written: a wrong place is bad input, a full disk is a failure."""
    try:
        yield
    except (PermissionError, NotADirectoryError, FileNotFoundError) as problem:
        raise WriteTargetError(
            f"{folder}: expected a place to write a run to, received {problem.strerror}"
        ) from problem
    except OSError as problem:
        raise WriteError(f"{folder}: the run cannot be written: {problem.strerror or problem}") from problem
