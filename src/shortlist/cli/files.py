"""Reading ids, and writing tables and pages."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import overload

import polars as pl

from shortlist.errors import InputError, WriteError
from shortlist.files import write_atomically

FORMATS = (".parquet", ".csv")


@overload
def read_ids(given: None, kind: str) -> None: ...
@overload
def read_ids(given: str, kind: str) -> list[str]: ...
def read_ids(given: str | None, kind: str) -> list[str] | None:
    """Read ids from a file (one per line, or a column ``user_id``/``item_id`` of CSV or Parquet), or from ``a,b,c``.

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
    except OSError:  # a long list of ids is not a valid file name
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
    """Check that a file can be written, before any work."""
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
    """Write a table as Parquet or CSV, by the suffix of the path."""
    content = BytesIO()
    if path.suffix == ".parquet":
        table.write_parquet(content)
    else:
        table.write_csv(content)
    write_file(path, content.getbuffer())


def write_file(path: Path, content: bytes | memoryview) -> None:
    """Write a file atomically."""
    try:
        write_atomically(path, content, shared=True)
    except OSError as problem:
        raise WriteError(f"{path}: cannot be written: {problem.strerror}") from problem
