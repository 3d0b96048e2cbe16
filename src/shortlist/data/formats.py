"""The file formats: from a file's bytes to a table with its own column names.

Fields of text formats remain text here, to preserve ids such as ``007``; :mod:`shortlist.data.checks` converts the
selected columns.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from shortlist.data.bad_rows import BadRows
from shortlist.data.columns import ROLES, Columns, looks_like_header
from shortlist.data.sources import SUFFIXES, Source, readable
from shortlist.errors import InputError

DELIMITERS = (",", "\t", ";", "|", "::")
UNIT_SEPARATOR = "\x1f"  # replaces delimiters of several characters, which polars does not support
QUOTE = '"'
WITHOUT_HEADER = (".data", ".dat")


@dataclass(frozen=True)
class RawTable:
    """A table as read from its file."""

    label: str
    frame: pl.LazyFrame
    columns: Columns
    """The caller's columns, with the positions filled in if the file has no header."""

    first_row: int = 1
    """Number of the first data row, counted from 1: 2 with a header."""

    kept_rows: pl.Series | None = None
    """Positions of the rows in the file, if blank lines were left out."""

    is_text: bool = False
    """Whether the fields are text with types to be inferred."""

    def row_number(self, position: int) -> int:
        """The row's number in the file, counted from 1."""
        return self.first_row + (position if self.kept_rows is None else int(self.kept_rows[position]))


def read_raw(source: Source, columns: Columns, delimiter: str | None, bad_rows: BadRows | None = None) -> RawTable:
    """Read a file by its suffix; a given delimiter makes it a delimited table.

    Rows with a different number of fields than the first, or that are not JSON objects, are refused, or counted in
    ``bad_rows`` and dropped.
    """
    suffix = "." + source.name.rpartition(".")[2]
    if delimiter is not None:
        if not delimiter or set(delimiter) & set('"\r\n'):
            raise InputError(f"delimiter: expected characters other than quotes and line ends, received {delimiter!r}")
        return _delimited(source, columns, "\t" if delimiter == r"\t" else delimiter, bad_rows)
    if suffix not in _READERS:
        raise InputError(
            f"{source.label}: expected a name that ends in {', '.join(SUFFIXES)} (or these with .gz) or .zip, or a "
            f"delimiter, received {source.name!r}"
        )
    return _READERS[suffix](source, columns, bad_rows)


def _parquet(source: Source, columns: Columns, bad_rows: BadRows | None) -> RawTable:
    with readable(source.label, "a Parquet file"):
        frame = pl.scan_parquet(source.for_polars(), glob=False, hive_partitioning=False)
        frame.collect_schema()
    return RawTable(source.label, frame, columns)


def _ndjson(source: Source, columns: Columns, bad_rows: BadRows | None) -> RawTable:
    content, kept = source.read_bytes().removeprefix(codecs.BOM_UTF8), None
    if bad_rows is not None:
        content, kept = _json_objects(content, bad_rows)
    _text(source.label, content)
    if not content.strip():
        raise InputError(f"{source.label}: expected rows, received an empty file")
    _refuse_lone_surrogates(source.label, content)
    try:
        with readable(source.label, "NDJSON"):
            frame = pl.read_ndjson(content, infer_schema_length=None)
    except InputError:
        _blame_json_line(source.label, content)
        raise
    return RawTable(source.label, frame.lazy(), columns, kept_rows=kept)


def _json_objects(content: bytes, bad_rows: BadRows) -> tuple[bytes, pl.Series]:
    """The lines that are JSON objects, and their positions; all lines if none is."""
    kept = []
    found = BadRows(bad_rows.label)
    lines = content.split(b"\n")
    for position, line in enumerate(lines):
        if not line.strip():
            continue
        if _is_object(line):
            kept.append(position)
        else:
            shown = _excerpt(line.decode(errors="replace"))
            found.add(f"row {position + 1}: expected a JSON object, received {shown}")
    if not kept:
        return content, pl.Series(range(len(lines)))
    bad_rows.count, bad_rows.first = found.count, found.first
    return b"\n".join(lines[position] for position in kept), pl.Series(kept)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_lone_surrogates(label: str, content: bytes) -> None:
    r"""Refuse escapes such as ``\ud800`` without their other half: all of them would be read as one character."""
    if re.search(rb"\\u[dD][89a-fA-F]", content) is None:
        return
    for number, line in enumerate(content.split(b"\n"), start=1):
        if re.search(rb"\\u[dD][89a-fA-F]", line) is None:
            continue
        try:
            json.dumps(json.loads(line), ensure_ascii=False).encode()
        except UnicodeEncodeError:
            expected = "text, received half of a pair of escapes (a lone surrogate)"
            raise InputError(f"{label}: row {number}: expected {expected} in {_excerpt(line.decode())}") from None
        except (ValueError, RecursionError):  # said by the reader itself
            continue


def _blame_json_line(label: str, content: bytes) -> None:
    """Raise an error for the first line that is not a JSON object."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip() and not _is_object(line):
            raise InputError(f"{label}: row {number}: expected a JSON object, received {_excerpt(line.decode())}")


def _inter(source: Source, columns: Columns, bad_rows: BadRows | None) -> RawTable:
    return _delimited(source, columns, "\t", bad_rows, quote=None)


def _sniffed(source: Source, columns: Columns, bad_rows: BadRows | None) -> RawTable:
    """A delimited table whose delimiter is inferred from its first line."""
    preferred = {"csv": ",", "tsv": "\t", "data": "\t", "dat": "::"}[source.name.rpartition(".")[2]]
    line = _first_line(source)
    return _delimited(source, columns, next((d for d in (preferred, *DELIMITERS) if d in line), preferred), bad_rows)


def _text_table(source: Source, columns: Columns, bad_rows: BadRows | None) -> RawTable:
    """A ``.txt``: a delimited table if its first line is a header, else LightGCN's ``user item item …``."""
    line = _first_line(source)
    for delimiter in (*DELIMITERS, " "):
        if delimiter in line and (columns.given() or looks_like_header(line.split(delimiter), columns)):
            return _delimited(source, columns, delimiter, bad_rows)
    return _adjacency(source)


def _adjacency(source: Source) -> RawTable:
    """LightGCN's format: each line has a user and its items, separated by spaces; a user may have no items."""
    lines = [line.split() for line in _text(source.label, source.read_bytes()).split("\n")]
    users_of_lines = Counter(line[0] for line in lines if line)
    is_pairs = all(len(line) in (0, 2) for line in lines)  # one pair per line with repeated users: read the same way
    if not is_pairs and users_of_lines and max(users_of_lines.values()) > 1:
        repeated = users_of_lines.most_common(1)[0][0]
        raise InputError(
            f"{source.label}: expected one line for each user (user item item …), received several for "
            f"{_excerpt(repeated)}; for a table without a header give its delimiter"
        )
    users = pl.Series("user", [line[0] for line in lines if line], dtype=pl.String)
    items = pl.Series("item", [line[1:] for line in lines if line], dtype=pl.List(pl.String))
    frame = pl.DataFrame([users, items]).explode("item").drop_nulls()
    if frame.is_empty():
        raise InputError(f"{source.label}: expected lines of a user and items, received none")
    return RawTable(source.label, frame.lazy(), Columns(user="user", item="item"), is_text=True)


def _delimited(
    source: Source, columns: Columns, delimiter: str, bad_rows: BadRows | None = None, quote: str | None = QUOTE
) -> RawTable:
    has_header = not columns.are_positions() and _has_header(source, columns, delimiter)
    content: Path | bytes = source.for_polars()
    separator, numbers = delimiter, None
    if bad_rows is not None:
        content, numbers = _with_equal_fields(source, delimiter, quote, bad_rows)
    if len(delimiter.encode()) > 1:
        content, separator, quote = _with_single_separator(source, delimiter, content), UNIT_SEPARATOR, None
    try:
        with readable(source.label, "a delimited table"):
            frame = pl.read_csv(
                content, separator=separator, quote_char=quote, has_header=has_header, infer_schema=False, glob=False
            )
    except InputError:
        _blame_line(source, delimiter, quote)
        raise
    if frame.width and frame[:, -1].null_count():  # polars pads short rows with nulls
        _blame_line(source, delimiter, quote)
    if not has_header:
        frame.columns = [str(position) for position in range(1, frame.width + 1)]
        columns = columns if columns.given() else Columns(**dict(zip(ROLES, frame.columns, strict=False)))
    first_row = 2 if has_header else 1
    if numbers is not None:  # the rows' numbers in the file, without those of blank and bad rows
        kept = pl.Series(numbers[first_row - 1 :]) - first_row
        return RawTable(source.label, frame.lazy(), columns, first_row, kept, is_text=True)
    is_blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    if not is_blank.any():
        return RawTable(source.label, frame.lazy(), columns, first_row, is_text=True)
    kept = (~is_blank).arg_true()
    return RawTable(source.label, frame.filter(~is_blank).lazy(), columns, first_row, kept, is_text=True)


def _has_header(source: Source, columns: Columns, delimiter: str) -> bool:
    """Whether the first row is a header; only MovieLens' formats may have none."""
    fields = [field.strip(QUOTE) for field in _first_line(source).split(delimiter)]
    return looks_like_header(fields, columns) or not source.name.endswith(WITHOUT_HEADER)


def _with_single_separator(source: Source, delimiter: str, given: Path | bytes) -> bytes:
    content = given if isinstance(given, bytes) else source.read_bytes()
    if UNIT_SEPARATOR.encode() in content:
        raise InputError(f"{source.label}: expected text without the control character 0x1f beside {delimiter!r}")
    return content.replace(delimiter.encode(), UNIT_SEPARATOR.encode())


def _first_line(source: Source) -> str:
    """The first line that is not empty, without a byte order mark."""
    with readable(source.label, "a text file"):
        stream = io.BytesIO(source.content) if isinstance(source.content, bytes) else source.content.open("rb")
        with stream:
            line = next((line for line in stream if line.strip()), b"")
    if not line:
        raise InputError(f"{source.label}: expected rows, received an empty file")
    return _text(source.label, line).removeprefix("\ufeff").strip("\r\n")


def _text(label: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        row = content.count(b"\n", 0, problem.start) + 1
        raise InputError(
            f"{label}: row {row}: expected UTF-8 text, received the byte 0x{content[problem.start]:02x}"
        ) from None


def _blame_line(source: Source, delimiter: str, quote: str | None) -> None:
    """Raise an error for the first row that is not UTF-8 or has another number of fields than the first row."""
    text = _text(source.label, source.read_bytes())
    rows: Iterable[list[str]]
    if quote is None or len(delimiter) > 1:
        rows = (line.split(delimiter) if line.strip() else [] for line in text.split("\n"))
    else:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quotechar=quote)
    width = 0
    with readable(source.label, "a delimited table"):
        for number, row in enumerate(rows, start=1):
            width = width or len(row)
            if row and len(row) != width:
                raise InputError(
                    f"{source.label}: row {number}: expected {width} fields, received {len(row)} "
                    f"({_excerpt(delimiter.join(row))})"
                )


def _with_equal_fields(source: Source, delimiter: str, quote: str | None, bad_rows: BadRows) -> tuple[bytes, list[int]]:
    """The rows of text with as many fields as the first, as a file of their own, and their numbers."""
    text = source.read_bytes().decode(errors="surrogateescape").removeprefix("\ufeff")
    is_plain = quote is None or len(delimiter) > 1
    rows: Iterable[list[str]]
    if is_plain:
        rows = (line.rstrip("\r").split(delimiter) if line.strip() else [] for line in text.split("\n"))
    else:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quotechar=quote)
    kept, numbers, width = io.StringIO(newline=""), [], 0
    writer = None if is_plain else csv.writer(kept, delimiter=delimiter, quotechar=quote, lineterminator="\n")
    with readable(source.label, "a delimited table"):
        for number, row in enumerate(rows, start=1):
            width = width or len(row)
            if not row:
                continue
            line = delimiter.join(row)
            if len(row) != width:
                shown = _excerpt(line.encode(errors="replace").decode())
                bad_rows.add(f"row {number}: expected {width} fields, received {len(row)} ({shown})")
            elif not _is_unicode(line):
                bad_rows.add(f"row {number}: expected UTF-8 text, received other bytes")
            else:
                numbers.append(number)
                if writer is None:
                    kept.write(line + "\n")
                else:
                    writer.writerow(row)
    return kept.getvalue().encode(), numbers


def _is_unicode(text: str) -> bool:
    """Whether no byte of the text was left undecoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")


_READERS: dict[str, Callable[[Source, Columns, BadRows | None], RawTable]] = {
    ".parquet": _parquet,
    ".ndjson": _ndjson,
    ".jsonl": _ndjson,
    ".inter": _inter,
    ".txt": _text_table,
    **dict.fromkeys((".csv", ".tsv", ".data", ".dat"), _sniffed),
}
