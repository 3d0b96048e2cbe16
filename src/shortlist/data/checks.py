"""What a column must hold, and the one line that names the row that does not."""

from __future__ import annotations

import polars as pl

from shortlist.data.formats import RawTable
from shortlist.errors import InputError

ISO_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S%.f%:z")
MAX_SECONDS = 9e12  # more, in microseconds, is no 64-bit number
INT64_TEXT = r"^(0|-?[1-9][0-9]{0,18})$"  # as a program would write the number: 007 and +7 are names


def ids(table: RawTable, column: pl.Series) -> pl.Series:
    """Ids as text or whole numbers: none missing, none empty, no spaces around them."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if not column.dtype.is_integer() and column.dtype != pl.String:
        expected = "text or whole numbers"
        raise InputError(f"{table.label}: column {column.name!r}: expected {expected}, received {column.dtype}")
    _refuse(table, column, column.is_null(), "an id")
    if column.dtype == pl.String:
        _check_texts(table, column)
        return _as_numbers(column) if table.is_text else column
    return column if column.dtype not in (pl.Int128, pl.UInt128) else column.cast(pl.String)


def weights(table: RawTable, column: pl.Series) -> pl.Series:
    """Weights or ratings as finite numbers."""
    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean)):
        raise InputError(f"{table.label}: column {column.name!r}: expected numbers, received {column.dtype}")
    numbers = column.cast(pl.Float64, strict=False)
    _refuse(table, column, ~numbers.is_finite().fill_null(False), "a number")
    return numbers


def times(table: RawTable, column: pl.Series) -> pl.Series:
    """Times as whole numbers (Int64), numbers with fractions (Float64) or dates (Datetime in microseconds)."""
    parsed = parse_times(column)
    if parsed is None:
        raise InputError(f"{table.label}: column {column.name!r}: expected times, received {column.dtype}")
    _refuse(table, column, parsed.is_null(), "a number or an ISO date such as 2024-05-31 or 2024-05-31T08:30:00Z")
    return parsed


def _check_texts(table: RawTable, column: pl.Series) -> None:
    """Look at each distinct text once; find the row only if there is something to say about it."""
    distinct = column.unique()
    if bool((distinct == "").any()):
        _refuse(table, column, column == "", "an id")
    if bool((distinct.str.strip_chars() != distinct).any()):
        _refuse(table, column, column.str.strip_chars() != column, "an id without spaces around it")


def _as_numbers(column: pl.Series) -> pl.Series:
    """Texts as numbers if every one of them is a number and reads the same when written back."""
    if not bool(column.unique().str.contains(INT64_TEXT).all()):
        return column
    numbers = column.cast(pl.Int64, strict=False)
    return column if numbers.null_count() else numbers


def parse_times(column: pl.Series) -> pl.Series | None:
    """Times of any kind in one of the three forms, null where a value does not parse; nothing if none could."""
    if column.dtype == pl.String:
        numbers = column.cast(pl.Float64, strict=False)
        if numbers.null_count() > column.null_count():
            return _parse_iso(column)
        whole = column.cast(pl.Int64, strict=False)
        return parse_times(numbers if whole.null_count() > column.null_count() else whole)
    if column.dtype.is_integer():
        return column.cast(pl.Int64, strict=False)
    if column.dtype.is_float() or column.dtype.is_decimal():
        return _whole_if_possible(column.cast(pl.Float64))
    if column.dtype == pl.Date or isinstance(column.dtype, pl.Datetime):
        return column.cast(pl.Datetime("us"))
    return None


def _whole_if_possible(column: pl.Series) -> pl.Series:
    """Whole numbers that came as floats, as they do from tables that once had gaps, are whole numbers again."""
    whole = column.cast(pl.Int64, strict=False)
    if column.equals(whole.cast(pl.Float64)):
        return whole
    return column.set(~(column.abs() <= MAX_SECONDS).fill_null(False) | column.is_nan(), None)


def _parse_iso(column: pl.Series) -> pl.Series:
    text = column.str.replace("T", " ", literal=True).str.replace("Z$", "+00:00")
    parsed = pl.Series(column.name, [None] * len(column), dtype=pl.Datetime("us"))
    for form in ISO_FORMATS:
        zone = "UTC" if form.endswith("%:z") else None
        found = text.str.to_datetime(form, time_unit="us", time_zone=zone, strict=False)
        parsed = parsed.fill_null(found.dt.replace_time_zone(None))
    return parsed


def _refuse(table: RawTable, column: pl.Series, bad: pl.Series, expected: str) -> None:
    """Raise for the first bad row, if there is one."""
    position = bad.arg_true().head(1)
    if len(position):
        row = position[0]
        value = "nothing" if column[row] is None or column[row] == "" else repr(column[row])
        shown = value if len(value) <= 60 else value[:59] + "…"
        raise InputError(
            f"{table.label}: row {table.row_number(row)}, column {column.name!r}: expected {expected}, received {shown}"
        )
