"""Run folders: atomic creation and replacement, locks, and the training log."""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import set_default_mode, sync, write_atomically, write_errors
from shortlist.locks import try_lock

MARK, CHECKPOINT, MANIFEST = "config.json", "checkpoint.safetensors", "manifest.json"
"""Files that identify a finished or unfinished run, and the list of a run's files with their digests."""

TRAINED = "trained.safetensors"
"""The model that was measured, while a run that is to be final is refitted on all data."""

KNOWN = frozenset(
    {
        *(MARK, CHECKPOINT, MANIFEST, "metrics.json", "per_user.parquet", "model.safetensors", "log.jsonl"),
        *("model_card.md", "ids.parquet", "history.parquet", "failed.json", "unmeasured.json", TRAINED),
    }
)
"""Files that the library writes to a run folder; those of other tasks are named in the manifest."""

_INCOMPLETE = re.compile(rf"\.{re.escape(CHECKPOINT)}\.new|\.tmp[0-9A-Za-z]{{6}}")
"""Names of incomplete checkpoints: the draft, and the temporary file that safetensors renames to it."""


def check_target(
    folder: Path, *, overwrite: bool = False, resume: bool = False, inputs: Iterable[str | Path] = ()
) -> None:
    """Check that a run can be written to a folder. Leaves nothing behind.

    ``resume`` allows the folder of an interrupted run, with or without a checkpoint. ``inputs`` are paths that the run
    is made from, which must not lie inside the folder.

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
            _check_is_run(folder)
        for given in inputs:
            _refuse_inside(folder, given)
        place = next(parent for parent in folder.resolve().parents if parent.exists())
        Path(tempfile.mkdtemp(dir=place, prefix=f".{folder.name}.new-")).rmdir()  # permissions are not enough to know


@contextmanager
def new_folder(
    folder: Path,
    *,
    overwrite: bool = False,
    merge: bool = False,
    on_kept: Callable[[list[str]], None] = lambda names: None,
) -> Iterator[Path]:
    """A new folder to write to, which is renamed to its target when the block ends, or removed after an error.

    It is created beside the target. A crash leaves at most the new folder, whose name begins with a dot; the next write
    to the same target removes it. An earlier run, or the checkpoint of this one, stays until it is replaced. Files of
    the target that are not a run's own are moved into the new folder, and ``on_kept`` is called with their names.
    ``merge`` accepts a target that has received other files since it was checked.
    """
    if merge and not (folder / MARK).is_file() and folder.is_dir():
        _restore_with_errors(folder)
    else:
        check_target(folder, overwrite=overwrite)
    with writing(folder):
        folder = folder.resolve()  # keep symbolic links
        folder.parent.mkdir(parents=True, exist_ok=True)
        kept = _remove_leftovers(folder)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.new-"))
        try:
            yield draft
            for path in [*sorted(draft.rglob("*")), draft]:
                set_default_mode(path)
                sync(path)
            # from here on the folder beside the target may hold files of others, which nothing may remove
            aside = draft.with_name(f".{folder.name}.old-{draft.name.rpartition('-')[2]}")
            draft.rename(aside)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        try:
            _swap(aside, folder)
        finally:
            kept += _discard(aside, folder)
    if kept:
        on_kept(sorted(set(kept)))


def kept_message(folder: Path, names: list[str]) -> str:
    """A notice that files of others were kept in a run folder that was replaced.

    >>> kept_message(Path("runs/a"), ["notes.txt"])
    "runs/a: the run was replaced; files that are not part of a run were kept: 'notes.txt'"
    """
    named = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{folder}: the run was replaced; files that are not part of a run were kept: {named}"


def check_places(folder: Path, places: Iterable[tuple[str, str | Path]]) -> None:
    """Refuse output of other kinds inside a run folder, which is replaced as a whole; ``places`` have their flags."""
    for flag, place in places:
        if _is_inside(folder, place):
            raise InputError(f"{flag}: expected a place outside the run folder {folder}, received {place}")


def remove_run(folder: Path) -> None:
    """Remove the files that the library has written to a folder, and the folder if nothing else is in it."""
    for name in _own_names(folder):
        if not (folder / name).is_dir():
            (folder / name).unlink(missing_ok=True)
    (folder / f".{CHECKPOINT}.new").unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file of a run atomically."""
    with writing(path.parent):
        write_atomically(path, content)


def read_log(folder: Path) -> list[Mapping[str, Any]]:
    """The epochs in the log of a run. An incomplete last line is ignored, and so are values that are no numbers."""
    lines: list[Mapping[str, Any]] = []
    try:
        text = (folder / "log.jsonl").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    for line in text.splitlines():
        try:
            entry = json.loads(line, parse_constant=lambda name: None)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and _is_number(entry.get("epoch")) and entry["epoch"] > 0:
            lines.append({name: value for name, value in entry.items() if _is_number(value)})
    return lines


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


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


def _check_is_run(folder: Path) -> None:
    """Refuse to overwrite a folder that is not a finished or unfinished run of this library."""
    if not any((folder / mark).is_file() for mark in (MARK, CHECKPOINT)):
        raise InputError(f"{folder}: expected an earlier run to overwrite, received a folder without {MARK}")
    if not (_is_finished(folder) or _is_checkpoint(folder / CHECKPOINT)):
        mark = MARK if (folder / MARK).is_file() else CHECKPOINT
        raise InputError(f"{folder}: expected an earlier run to overwrite, received a folder whose {mark} is no run's")


def _is_finished(folder: Path) -> bool:
    """Whether the folder has the configuration of a run, and another of its files."""
    try:
        config = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    is_config = isinstance(config, dict) and {"format", "model", "protocol"} <= config.keys()
    return is_config and any((folder / name).is_file() for name in ("model.safetensors", "metrics.json"))


def _is_checkpoint(path: Path) -> bool:
    """Whether the file begins as a checkpoint does; a damaged one is one."""
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            return b'"facts"' in stream.read(min(length, 1 << 20))
    except OSError:
        return False


def _refuse_inside(folder: Path, given: str | Path) -> None:
    if _is_inside(folder, given) and Path(given).exists():
        raise InputError(f"{folder}: expected a folder apart from the data, received one that holds {given}")


def _is_inside(folder: Path, place: str | Path) -> bool:
    try:
        return Path(place).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False


def _own_names(folder: Path) -> frozenset[str]:
    """The files of a folder that the library wrote: the usual ones, and those that its manifest names."""
    try:
        listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return KNOWN | {name for name in listed if isinstance(name, str)}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return KNOWN


def _discard(aside: Path, folder: Path) -> list[str]:
    """Remove a run that was replaced. Files of others are moved to the target first; their names are returned."""
    if not aside.is_dir():
        return []
    own, kept = _own_names(aside), []
    for path in sorted(aside.iterdir()):
        is_draft = path.name.startswith(".") and path.name[1:].removesuffix(".new") in own  # of an interrupted write
        is_draft = is_draft or _INCOMPLETE.fullmatch(path.name) is not None
        if (path.name in own or is_draft) and (path.is_symlink() or not path.is_dir()):
            continue
        folder.mkdir(exist_ok=True)
        target, number = folder / path.name, 0
        while target.exists() or target.is_symlink():
            number += 1
            target = folder / f"{path.name}.kept-{number}"
        path.rename(target)
        kept.append(target.name)
    shutil.rmtree(aside, ignore_errors=True)
    return kept


def _remove_leftovers(folder: Path) -> list[str]:
    """Remove what a crash has left beside a target."""
    for leftover in _beside(folder, "new"):
        shutil.rmtree(leftover, ignore_errors=True)
    return [name for leftover in _beside(folder, "old") for name in _discard(leftover, folder)]


def _restore_with_errors(folder: Path) -> None:
    with writing(folder):
        _restore(folder)


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
        aside.rename(draft)  # as where names are exchanged
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
