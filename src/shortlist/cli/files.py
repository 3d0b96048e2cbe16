"""Files that a command reads and writes, beside runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import overload

import polars as pl

from shortlist.errors import InputError, ShortlistError

FORMATS = (".parquet", ".csv")


@overload
def read_ids(given: None, kind: str) -> None: ...
@overload
def read_ids(given: str, kind: str) -> list[str]: ...
def read_ids(given: str | None, kind: str) -> list[str] | None:
    """Ids from a file (an id a line, or a column ``user_id``/``item_id`` of a CSV or Parquet), or from ``a,b,c``.

    >>> read_ids("x, y", "item")
    ['x', 'y']
    >>> read_ids("", "item")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: item: expected item ids, received none
    """
    if given is None:
        return None
    path = Path(given)
    if _is_file(path):
        ids = _from_file(path, kind)
    elif path.suffix in {".txt", *FORMATS} or kind == "user":
        raise InputError(f"{given}: expected a file of {kind} ids, received nothing")
    else:
        ids = [part.strip() for part in given.split(",")]
    ids = [each for each in ids if each]
    if not ids:
        raise InputError(f"{given.strip() or kind}: expected {kind} ids, received none")
    return ids


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # many ids make a name that is too long for a file
        return False


def _from_file(path: Path, kind: str) -> list[str]:
    try:
        if path.suffix not in FORMATS:
            return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema=False)
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as problem:
        reason = next(iter(str(problem).splitlines()), "")
        raise InputError(f"{path}: expected a file of {kind} ids, received what cannot be read ({reason})") from problem
    column = next((name for name in (f"{kind}_id", kind) if name in table.columns), None)
    if column is None:
        raise InputError(f"{path}: expected a column {kind}_id, received {', '.join(table.columns)}")
    return table[column].drop_nulls().cast(pl.String).to_list()


def check_out(path: Path, suffixes: Sequence[str] = FORMATS) -> None:
    """Find out before any work is done whether a file can be written there."""
    if path.suffix not in suffixes:
        received = repr(path.suffix) if path.suffix else "neither" if len(suffixes) > 1 else "none"
        raise InputError(f"{path}: expected a name that ends in {' or '.join(suffixes)}, received {received}")
    try:
        if path.is_dir():
            raise InputError(f"{path}: expected a file to write, received a folder")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as problem:
        raise InputError(f"{path}: expected a place to write to, received {problem.strerror}") from problem


def write_table(table: pl.DataFrame, path: Path) -> None:
    """Write a table as its name says, Parquet or CSV."""
    content = BytesIO()
    if path.suffix == ".parquet":
        table.write_parquet(content)
    else:
        table.write_csv(content)
    write_whole(path, content.getbuffer())


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file under another name first: under its own it is never half there."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            draft.chmod(0o666 & ~mask)  # as any other file, not private as a temporary one
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as problem:
        raise ShortlistError(f"{path}: cannot be written: {problem.strerror}") from problem
