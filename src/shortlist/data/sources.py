"""The tables under a path: one table, or the parts of a data set that is already split.

Folders and zip archives are treated alike, as a list of named files that includes the parts. Nothing is unpacked to
disk.
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

import polars as pl

from shortlist.errors import InputError
from shortlist.files import check_regular

SUFFIXES = (".csv", ".tsv", ".parquet", ".ndjson", ".jsonl", ".inter", ".txt", ".data", ".dat")
MOVIELENS_TABLES = ("u.data", "ratings.dat", "ratings.csv")
PART_NAMES = {"train": "train", "test": "test", "valid": "valid", "validation": "valid", "val": "valid"}
MAX_UNPACKED, MAX_RATIO, RATIO_FROM, BLOCK = 20_000_000_000, 1000, 100_000_000, 1 << 20
"""Bytes that a packed table may have, how many for each packed byte beyond the first 100 MB, and a step of unpacking.
"""

SINGLE = "whole"
"""Key of the only table of a data set that is not split."""


@dataclass(frozen=True)
class Source:
    """One file with a table, on disk or in an archive."""

    label: str
    """The name of the file in errors."""

    name: str
    """The file's name in lower case, without ``.gz``: its suffix determines the format."""

    content: Path | bytes
    """The file itself, or its bytes if it had to be unpacked."""

    def read_bytes(self) -> bytes:
        """The file's bytes, unpacked."""
        return self.content.read_bytes() if isinstance(self.content, Path) else self.content

    def for_polars(self) -> Path | bytes:
        """The content as polars reads it literally: an absolute path has no ``~`` to expand."""
        return self.content.absolute() if isinstance(self.content, Path) else self.content


@contextmanager
def readable(label: str, expected: str) -> Iterator[None]:
    """Turn a reader's exception for a damaged file into a one-line error with the file's name."""
    try:
        yield
    except InputError:
        raise
    except (
        *(OSError, EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile),
        *(NotImplementedError, RuntimeError, ValueError, OverflowError, MemoryError),
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    ) as problem:
        reason = (getattr(problem, "strerror", None) or str(problem) or type(problem).__name__).strip().split("\n")[0]
        raise InputError(
            f"{label}: expected {expected}, received a file that cannot be read as one ({reason})"
        ) from None


def single(path: Path) -> Source:
    """A file with one table, unpacked if it is gzipped."""
    check_regular(path)
    name = path.name.lower()
    if not name.endswith(".gz"):
        return Source(str(path), name, path)
    with readable(str(path), "a gzip file"), path.open("rb") as stream, gzip.GzipFile(fileobj=stream) as packed:
        content = _unpacked(packed, str(path), lambda: stream.tell())
        return Source(str(path), name.removesuffix(".gz"), content)


def largest_unpacked() -> int:
    """How many bytes a packed table may have, as ``SHORTLIST_MAX_UNPACKED`` says.

    >>> largest_unpacked()
    20000000000
    """
    text = os.environ.get("SHORTLIST_MAX_UNPACKED", "")
    if not text:
        return MAX_UNPACKED
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"SHORTLIST_MAX_UNPACKED: expected a number of bytes, received {text!r}")
    return int(text)


def _unpacked(stream: IO[bytes] | gzip.GzipFile, label: str, packed_size: Callable[[], int]) -> bytes:
    """All bytes of a stream that unpacks, up to the limits of size and ratio."""
    largest, content = largest_unpacked(), bytearray()
    while block := stream.read(BLOCK):
        content += block
        if len(content) > largest:
            raise InputError(
                f"{label}: expected at most {largest:,} bytes when unpacked, received more "
                "(SHORTLIST_MAX_UNPACKED=BYTES in the environment allows them)"
            )
        if len(content) > RATIO_FROM and len(content) > MAX_RATIO * max(1, packed_size()):
            raise InputError(
                f"{label}: expected at most {MAX_RATIO} bytes for each packed one, received more than {len(content):,}"
            )
    return bytes(content)


def find_parts(path: Path) -> dict[str, Source]:
    """The tables under a path: train, test and optionally valid, or one under the key ``whole``."""
    with readable(str(path), "a table, a folder or an archive"):
        check_regular(path)
    if path.is_dir():
        with readable(str(path), "a folder"):
            files = {child.name: child for child in sorted(path.iterdir()) if child.is_file()}
        return {part: single(files[name]) for part, name in _choose(str(path), list(files)).items()}
    if path.suffix.lower() == ".zip":
        return _parts_of_zip(path)
    if not path.exists():
        raise InputError(f"{path}: expected a table, a folder or an archive, received a path that does not exist")
    return {SINGLE: single(path)}


def _parts_of_zip(path: Path) -> dict[str, Source]:
    parts = {}
    with readable(str(path), "a zip archive"), zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        for name in names:
            _refuse_outside(str(path), name)
        for part, name in _choose(str(path), names).items():
            label, packed_size = f"{path}/{name}", archive.getinfo(name).compress_size
            with archive.open(name) as member:
                content = _unpacked(member, label, lambda size=packed_size: size)  # type: ignore[misc]
            if name.lower().endswith(".gz"):
                with gzip.GzipFile(fileobj=BytesIO(content)) as inner:
                    content = _unpacked(inner, label, lambda size=packed_size: size)  # type: ignore[misc]
            parts[part] = Source(label, PurePosixPath(name).name.lower().removesuffix(".gz"), content)
    return parts


def _refuse_outside(label: str, name: str) -> None:
    """Raise an error for archives with paths outside the archive, although nothing is unpacked to disk."""
    parts = PureWindowsPath(name)  # splits at slashes and backslashes
    if parts.is_absolute() or parts.drive or parts.root or ".." in parts.parts:
        raise InputError(f"{label}: expected paths inside the archive, received {name!r}, which points outside")


def _choose(label: str, names: list[str]) -> dict[str, str]:
    """Select the files of the parts: those named train, test, valid; else MovieLens' table; else the only table."""
    parts: dict[str, list[str]] = {}
    for name in names:
        words = PurePosixPath(name).name.lower().removesuffix(".gz").split(".")
        if f".{words[-1]}" in SUFFIXES and len(words) > 1 and words[-2] in PART_NAMES:  # train.csv, ml-1m.train.inter
            parts.setdefault(PART_NAMES[words[-2]], []).append(name)
    for part, found in parts.items():
        if len(found) > 1:
            raise InputError(f"{label}: expected one {part} table, received {_few(found)}")
    if "train" in parts and "test" in parts:
        return {part: parts[part][0] for part in ("train", "valid", "test") if part in parts}
    if len(parts) > 1 or (parts and "train" not in parts):
        raise InputError(f"{label}: expected tables named train and test, received {_few(sorted(parts))} only")
    tables = [name for name in names if name.lower().removesuffix(".gz").endswith(SUFFIXES)]
    known = [name for name in tables if PurePosixPath(name).name in MOVIELENS_TABLES]
    for choice in (known, tables):
        if len(choice) == 1:
            return {SINGLE: choice[0]}
    raise InputError(
        f"{label}: expected tables named train and test, or one table ({', '.join(SUFFIXES)}), received "
        + (_few(tables or names) or "nothing")
    )


def _few(names: list[str]) -> str:
    """The first names of a list."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
