"""Reading ids, and writing tables and pages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import overload

import polars as pl
from polars.io.plugins import register_io_source

from shortlist.data.columns import USUAL_NAMES, normalize_name
from shortlist.errors import InputError, WriteError
from shortlist.files import atomic_file, read_regular, write_atomically

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
        content = read_regular(path)
        if path.suffix != ".parquet":
            text = content.decode("utf-8-sig")
            if path.suffix not in FORMATS:
                return [line.strip() for line in text.splitlines()]
        table = pl.read_parquet(content) if path.suffix == ".parquet" else pl.read_csv(content, infer_schema=False)
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as problem:
        reason = next(iter(str(problem).splitlines()), "")
        raise InputError(f"{path}: expected a file of {kind} ids, received what cannot be read ({reason})") from problem
    column = _id_column(kind, table.columns)
    if column is None:
        raise InputError(f"{path}: expected a column {kind}_id, received {', '.join(table.columns)}")
    return table[column].drop_nulls().cast(pl.String).to_list()


def _id_column(kind: str, names: Sequence[str]) -> str | None:
    """The column of ids: ``user_id`` or ``user``, else one of the usual names, as in the data."""
    by_name = {normalize_name(name): name for name in reversed(names)}
    usual = [*(name for name in (f"{kind}_id", kind) if name in names)]
    return next(iter([*usual, *(by_name[name] for name in USUAL_NAMES[kind] if name in by_name)]), None)


def check_out(path: Path, suffixes: Sequence[str] = FORMATS, *, run: Path | None = None) -> None:
    """Check that a file can be written, before any work. It must not lie inside the folder of ``run``."""
    if run is not None and path.resolve().is_relative_to(run.resolve()):
        raise InputError(f"{path}: expected a place outside the run folder {run}, received one inside it")
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


def write_parts(parts: Iterator[pl.DataFrame], path: Path) -> int:
    """Write tables of the same columns one after another to a file, as Parquet or CSV, and return the number of rows.

    One part is held at a time. The first is read at once; a single one gives the same file as :func:`write_table`.
    """
    first, second = next(parts), next(parts, None)
    if second is None:
        write_table(first, path)
        return first.height
    counts = [0]

    def counted() -> Iterator[pl.DataFrame]:
        nonlocal first, second
        for part in (first, second, None):
            first = second = pl.DataFrame()  # not held longer than needed
            if part is not None:
                counts[0] += part.height
                yield part
        for part in parts:
            counts[0] += part.height
            yield part

    schema = first.schema
    try:
        with atomic_file(path, shared=True) as draft:
            if path.suffix == ".csv":
                with draft.open("wb") as stream:
                    for number, part in enumerate(counted()):
                        part.write_csv(stream, include_header=number == 0)
            else:
                source = register_io_source(lambda *options: counted(), schema=schema)
                source.sink_parquet(draft.absolute(), engine="streaming")
    except OSError as problem:
        raise WriteError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
    return counts[0]


def write_file(path: Path, content: bytes | memoryview) -> None:
    """Write a file atomically."""
    try:
        write_atomically(path, content, shared=True)
    except OSError as problem:
        raise WriteError(f"{path}: cannot be written: {problem.strerror}") from problem
