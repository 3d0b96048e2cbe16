"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shortlist.errors import InputError, ShortlistError

MARK, CHECKPOINT = "config.json", "checkpoint.safetensors"
"""The files by which a run is known, finished or not: only a folder that holds one of them is ever overwritten."""


def check_target(folder: Path, *, overwrite: bool = False) -> None:
    """Find out before any work is done whether a run can be written there. Leaves nothing behind.

    >>> check_target(Path(__file__) / "run")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: ...folder.py/run: expected a place to write a run to, received Not a directory
    """
    with _writing(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: expected a folder to write a run to, received a file")
        if folder.is_dir() and any(folder.iterdir()):
            if not overwrite:
                flags = "--resume or --overwrite" if (folder / CHECKPOINT).is_file() else "--overwrite"
                raise InputError(f"{folder}: expected a new or empty folder, received one with files ({flags}?)")
            if not any((folder / mark).is_file() for mark in (MARK, CHECKPOINT)):
                raise InputError(f"{folder}: expected an earlier run to overwrite, received a folder without {MARK}")
        place = next(parent for parent in folder.absolute().parents if parent.exists())
        Path(tempfile.mkdtemp(dir=place, prefix=".shortlist-")).rmdir()  # permissions alone do not tell


@contextmanager
def new_folder(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill, which gets its name when it is complete and on the disk, or disappears after an error.

    It is filled under another name beside its target and then renamed. A crash leaves at most that other folder, whose
    name begins with a dot. An earlier run is moved aside, not removed, until the new one stands in its place.
    """
    check_target(folder, overwrite=overwrite)
    with _writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.new-"))
        try:
            yield draft
            for path in [*sorted(draft.rglob("*")), draft]:
                path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())  # as others are, not private as drafts are
                _sync(path)
            _swap(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _swap(draft: Path, folder: Path) -> None:
    """Give the draft its name. Onto an empty folder a rename is one step; an earlier run has to make room first."""
    if folder.is_dir() and any(folder.iterdir()):
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old-"))
        folder.rename(aside)
        try:
            draft.rename(folder)
        except BaseException:
            aside.rename(folder)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    else:
        draft.rename(folder)
    _sync(folder.parent)


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
def _writing(folder: Path) -> Iterator[None]:
    """Say in one line why a folder cannot be written: a wrong place is bad input, a full disk is a failure."""
    try:
        yield
    except (PermissionError, NotADirectoryError, FileNotFoundError) as problem:
        raise InputError(f"{folder}: expected a place to write a run to, received {problem.strerror}") from problem
    except OSError as problem:
        raise ShortlistError(f"{folder}: the run cannot be written: {problem.strerror or problem}") from problem
