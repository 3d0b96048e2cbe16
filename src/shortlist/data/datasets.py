"""Download public data sets by name, and find those already downloaded.

A data set is stored in its folder as published, next to a receipt (``FILE.receipt.json``) with its source and the check
that it passed. A file without a receipt is not a data set.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

from shortlist.data.builtin import DEBIAN_NAME
from shortlist.data.download import Partial, Progress, digest_of, fetch, make_folder
from shortlist.data.public_sets import SETS, PublicSet
from shortlist.errors import InputError, ShortlistError, unknown
from shortlist.files import json_text, sync, write_atomically, write_errors

AS_PUBLISHED = "the file has the published MD5"
SAME_TABLE = "the archive was repacked, its interactions have the known SHA-256"
RECORDED = "no checksum is published; the SHA-256 was recorded at the first download"


@dataclass(frozen=True)
class Receipt:
    """The source of a stored data set, and how it was checked."""

    name: str
    origin: str
    size: int
    sha256: str
    checked: str


def default_folder() -> Path:
    """The folder of data sets: under ``SHORTLIST_HOME`` if it is set, else in the platform's user data folder."""
    if home := os.environ.get("SHORTLIST_HOME"):
        return Path(home).expanduser() / "data"
    if sys.platform == "darwin":
        base = Path("~/Library/Application Support")
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local")
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    return base.expanduser() / "shortlist" / "data"


def named(name: str) -> PublicSet:
    """The registered data set of this name.

    >>> named("ml-1m").page
    'https://grouplens.org/datasets/movielens/1m/'
    """
    if name == DEBIAN_NAME:
        raise InputError(f"data sets: expected a set to download, received {name!r}, which comes with the library")
    if name not in SETS:
        raise unknown("data sets", "name", name, SETS)
    return SETS[name]


def find(name: str, *, folder: Path | None = None) -> Path | None:
    """The file of a downloaded data set, or None."""
    path = (folder or default_folder()) / named(name).file_name
    receipt = receipt_of(path)
    return path if receipt is not None and path.is_file() and path.stat().st_size == receipt.size else None


def get(
    name: str, *, folder: Path | None = None, from_file: Path | None = None, progress: Progress | None = None
) -> Path:
    """The file of a registered data set, downloaded if missing, or copied from a local file.

    A file gets its final name only after the check. An interrupted download resumes; an altered download is removed, as
    is a stored file that does not match its receipt.
    """
    known = named(name)
    path = (folder or default_folder()) / known.file_name
    if from_file is not None:
        receipt = _inspect(known, from_file, path)
        return _keep(path, _copy(from_file, path), receipt)
    if (found := find(name, folder=folder)) is not None:
        if _is_whole(found):
            return found
        found.unlink()
    part = fetch(known.address, path, progress, most_bytes=known.most_bytes)
    try:
        receipt = _check(known, part, known.address, receipt_of(path))
    except _AlteredError as altered:
        Partial.of(path).remove()
        raise ShortlistError(str(altered)) from None
    return _keep(path, part, receipt)


def receipt_of(path: Path) -> Receipt | None:
    """The receipt of a downloaded file; None if it cannot be read."""
    try:
        return Receipt(**json.loads(_receipt_path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


class _AlteredError(Exception):
    """The received file is not the expected one."""


def _inspect(known: PublicSet, given: Path, path: Path) -> Receipt:
    """Check a local file before anything is written."""
    try:
        return _check(known, given, str(given), receipt_of(path))
    except _AlteredError as altered:
        raise InputError(str(altered)) from None
    except OSError as problem:
        raise InputError(f"{given}: expected the file of a data set, received {problem.strerror}") from None


def _check(known: PublicSet, file: Path, origin: str, before: Receipt | None) -> Receipt:
    """The receipt of a file; an error if it is not the expected file."""
    sha256 = _digest(file, "sha256")
    if known.md5 is None:
        if before is not None and before.sha256 != sha256:
            raise _AlteredError(
                f"{known.name}: expected SHA-256 {before.sha256} as recorded, received {sha256} from {origin}; "
                f"if the data set was updated, remove {known.file_name}.receipt.json"
            )
        checked = RECORDED
    elif (received := _digest(file, "md5")) == known.md5:
        checked = AS_PUBLISHED
    elif known.table_sha256 is not None and _table_digest(file, known.table) == known.table_sha256:
        checked = SAME_TABLE
    else:
        raise _AlteredError(f"{known.name}: expected a file with MD5 {known.md5}, received {received} from {origin}")
    return Receipt(known.name, origin, file.stat().st_size, sha256, checked)


def _keep(path: Path, part: Path, receipt: Receipt) -> Path:
    """Rename the checked file to its final name, as the last step."""
    target = _receipt_path(path)
    with write_errors(target):
        write_atomically(target, json_text(asdict(receipt), ascii_only=True).encode())
        sync(part)
        part.replace(path)
        sync(path.parent)
    Partial.of(path).remove()
    return path


def _copy(source: Path, path: Path) -> Path:
    """Copy a file to the path of a partial download."""
    make_folder(path.parent)
    partial = Partial.of(path)
    with write_errors(partial.data):
        partial.remove()
        shutil.copyfile(source, partial.data)
    return partial.data


def _is_whole(path: Path) -> bool:
    """Whether the file still matches its receipt."""
    receipt = receipt_of(path)
    return receipt is not None and _digest(path, "sha256") == receipt.sha256


def _receipt_path(path: Path) -> Path:
    return path.with_name(path.name + ".receipt.json")


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return digest_of(stream, algorithm)


def _table_digest(file: Path, table: str | None) -> str | None:
    """SHA-256 of the table inside an archive; None without one."""
    if table is None or not zipfile.is_zipfile(file):
        return None
    try:
        with zipfile.ZipFile(file) as archive, archive.open(table) as stream:
            return digest_of(stream, "sha256")
    except (zipfile.BadZipFile, zlib.error, KeyError, OSError, EOFError, RuntimeError, NotImplementedError):
        return None
