"""Run folders: atomic creation and replacement, locks, and the training log."""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import set_default_mode, sync, write_atomically, write_errors
from shortlist.locks import try_lock

MARK, CHECKPOINT = "config.json", "checkpoint.safetensors"
"""Files that identify a finished or unfinished run: only a folder with one of them is ever overwritten."""

_INCOMPLETE = re.compile(rf"\.{re.escape(CHECKPOINT)}\.new|\.tmp[0-9A-Za-z]{{6}}")
"""Names of incomplete checkpoints: the draft, and the temporary file that safetensors renames to it."""


def check_target(folder: Path, *, overwrite: bool = False, resume: bool = False) -> None:
    """Check that a run can be written to a folder. Leaves nothing behind.

    ``resume`` allows the folder of an interrupted run, with or without a checkpoint.

    >>> check_target(Path(__file__) / "run")
    Traceback (most recent call last):
    ...
    shortlist.errors.WriteTargetError: ...folder.py/run: expected a place to write a run to, received Not a directory
    """
    with writing(folder):
        _restore(folder)
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
        Path(tempfile.mkdtemp(dir=place, prefix=f".{folder.name}.new-")).rmdir()  # permissions are not enough to know


@contextmanager
def new_folder(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A new folder to write to, which is renamed to its target when the block ends, or removed after an error.

    It is created beside the target. A crash leaves at most the new folder, whose name begins with a dot; the next write
    to the same target removes it. An earlier run, or the checkpoint of this one, stays until it is replaced.
    """
    check_target(folder, overwrite=overwrite)
    with writing(folder):
        folder = folder.resolve()  # keep symbolic links
        folder.parent.mkdir(parents=True, exist_ok=True)
        for leftover in [*_beside(folder, "new"), *_beside(folder, "old")]:
            shutil.rmtree(leftover, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.new-"))
        try:
            yield draft
            for path in [*sorted(draft.rglob("*")), draft]:
                set_default_mode(path)
                sync(path)
            _swap(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file of a run atomically."""
    with writing(path.parent):
        write_atomically(path, content)


def read_log(folder: Path) -> list[Mapping[str, Any]]:
    """The epochs in the log of a run; an incomplete last line is ignored."""
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
    """The run is locked: another process trains it."""


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock a folder while a run is trained there: two trainings would overwrite each other's checkpoints.

    The lock ends with the process, however that ends (:mod:`shortlist.locks`).
    """
    with ExitStack() as stack:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            is_free = stack.enter_context(try_lock(folder))
        if not is_free:
            raise RunLocked(f"{folder}: expected a run that nobody trains, received one that is in training")
        yield


def _is_free(folder: Path) -> bool:
    """Whether the folder does not exist, is empty, or holds only an incomplete first checkpoint."""
    return not folder.is_dir() or all(_INCOMPLETE.fullmatch(path.name) for path in folder.iterdir())


def _beside(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.parent.glob(f".{glob.escape(folder.name)}.{kind}-*"))


def _swap(draft: Path, folder: Path) -> None:
    """Rename the draft to its target. An existing target takes the name of the draft, to be removed with it.

    Where the system cannot exchange two names atomically, the target is renamed first. A crash between the two
    renames leaves no target; :func:`check_target` restores it.
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
    sync(folder.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders atomically. False where the system does not support it."""
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of <fcntl.h> and <linux/fs.h>
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # not Linux
        return False
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _restore(folder: Path) -> None:
    """Restore the target of an interrupted swap."""
    aside = [path for path in _beside(folder, "old") if any(path.iterdir())]
    if aside and not folder.exists():
        aside[-1].rename(folder)


def writing(folder: Path) -> AbstractContextManager[None]:
    """Turn an ``OSError`` while a run is written into one line (:func:`shortlist.files.write_errors`)."""
    return write_errors(folder, "run")
