"""Validation of columns, with one-line errors that name the invalid row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from shortlist.data.bad_rows import NAMED, BadRows
from shortlist.errors import InputError

ISO_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S%.f%:z")
MAX_SECONDS = 9e12  # larger values overflow 64 bits in microseconds
INT64_TEXT = r"^(0|-?[1-9][0-9]{0,18})$"  # canonical integers only: 007 and +7 are text


TIME = "a number or an ISO date such as 2024-05-31 or 2024-05-31T08:30:00Z"
MAX_WEIGHT = 3.4028234663852886e38  # the largest 32-bit float
MAX_EXACT_FLOAT = 2**53  # beyond it, different integers are the same float


@dataclass(frozen=True)
class Origin:
    """The source of a column, for errors."""

    label: str
    row_number: Callable[[int], int] = int
    """The number of a row by its position: the position in a frame, the row counted from 1 in a file."""

    is_text: bool = False
    """Whether all fields are text with types to be inferred."""


def check_columns(
    origin: Origin,
    frame: pl.DataFrame,
    chosen: Mapping[str, str],
    *,
    texts: bool = True,
    bad_rows: BadRows | None = None,
) -> pl.DataFrame:
    """The selected columns under the names of their roles, each checked.

    With ``texts=False`` the caller runs :func:`check_texts` on the distinct ids. Rows with a bad value are refused, or
    counted in ``bad_rows`` and dropped; a table without a valid row is refused.
    """
    if bad_rows is not None:
        frame = _good_rows(origin, frame, chosen, bad_rows)
    if frame.is_empty():
        raise InputError(f"{origin.label}: expected rows, received none")
    columns = []
    for role, name in chosen.items():
        column = frame[name] if frame.schema[name] != pl.Null else frame[name].cast(pl.String)
        column = _CHECKS[role](origin, column)
        if column.dtype == pl.String and texts:
            check_texts(origin, column)
            column = _as_numbers(column) if origin.is_text else column
        columns.append(column.alias(role))
    return pl.DataFrame(columns)


def _good_rows(origin: Origin, frame: pl.DataFrame, chosen: Mapping[str, str], bad_rows: BadRows) -> pl.DataFrame:
    """The rows without a bad value, or all if there is no such row."""
    problems = {role: _BAD[role](frame[name]) for role, name in chosen.items()}
    is_bad = pl.Series([False]).new_from_index(0, frame.height)
    for mask, _ in problems.values():
        is_bad = is_bad | mask.fill_null(True)
    if not is_bad.any() or is_bad.all():
        return frame
    rows = is_bad.arg_true()
    for row in rows.head(NAMED).to_list():
        role = next(role for role, (mask, _) in problems.items() if mask[row] is not False)
        column, expected = frame[chosen[role]], problems[role][1]
        is_missing = column[row] is None or column[row] == ""
        bad_rows.add(_problem(origin, column, row, expected.partition(" without")[0] if is_missing else expected))
    bad_rows.count += max(len(rows) - NAMED, 0)
    return frame.filter(~is_bad)


def _bad_ids(column: pl.Series) -> tuple[pl.Series, str]:
    """Where ids are missing, or not text or whole numbers."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype.is_float():
        is_whole = (column == column.round()) & (column.abs() <= MAX_EXACT_FLOAT) & ~column.is_nan()
        return ~is_whole.fill_null(False), "an id"
    if column.dtype == pl.String:
        is_bad = column.is_null() | (column == "") | (column.str.strip_chars() != column)
        return is_bad.fill_null(True), "an id without spaces around it"
    return column.is_null(), "an id"


def _bad_weights(column: pl.Series) -> tuple[pl.Series, str]:
    """Where weights are no finite numbers."""
    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean)):
        return column.is_null() & False, "a number"
    numbers = column.cast(pl.Float64, strict=False)
    return ~(numbers.abs() <= MAX_WEIGHT).fill_null(False), "a number"


def _bad_times(column: pl.Series) -> tuple[pl.Series, str]:
    """Where times do not parse: as numbers or as dates, whichever more of them are."""
    if column.dtype == pl.String:
        numbers, dates = column.cast(pl.Float64, strict=False), _parse_iso(column)
        parsed = numbers if numbers.null_count() <= dates.null_count() else dates
    else:
        found = parse_times(column)
        if found is None:
            return column.is_null() & False, TIME
        parsed = found
    is_bad = parsed.is_null()
    if parsed.dtype.is_float():
        is_bad = is_bad | ~parsed.is_finite().fill_null(False)
    return is_bad, TIME


_BAD: Mapping[str, Callable[[pl.Series], tuple[pl.Series, str]]] = {
    "user": _bad_ids,
    "item": _bad_ids,
    "weight": _bad_weights,
    "time": _bad_times,
}
"""Where the values of a column are bad, and what was expected, by role."""


def distinct(column: pl.Series) -> pl.Series:
    """The distinct values in any order; several times faster than ``column.unique()``, which uses one thread."""
    return column.to_frame().lazy().select(pl.all().unique()).collect(engine="streaming").to_series()


def ids(origin: Origin, column: pl.Series) -> pl.Series:
    """Ids as text or integers, none missing. :func:`check_texts` checks the content of texts."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype.is_float():
        return _whole_ids(origin, column)
    if not column.dtype.is_integer() and column.dtype != pl.String:
        expected = "text or whole numbers"
        raise InputError(f"{origin.label}: column {column.name!r}: expected {expected}, received {column.dtype}")
    _refuse(origin, column, column.is_null(), "an id")
    return column if column.dtype not in (pl.Int128, pl.UInt128) else column.cast(pl.String)


def _whole_ids(origin: Origin, column: pl.Series) -> pl.Series:
    """Integers that are floats because the column had missing values, as in pandas."""
    _refuse(origin, column, column.is_null() | column.is_nan(), "an id")
    is_whole = (column == column.round()) & (column.abs() <= MAX_EXACT_FLOAT)
    _refuse(origin, column, ~is_whole, "text or whole numbers")
    return column.cast(pl.Int64)


def weights(origin: Origin, column: pl.Series) -> pl.Series:
    """Weights or ratings as finite numbers in the range of 32-bit floats."""
    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean)):
        raise InputError(f"{origin.label}: column {column.name!r}: expected numbers, received {column.dtype}")
    numbers = column.cast(pl.Float64, strict=False)
    _refuse(origin, column, ~(numbers.abs() <= MAX_WEIGHT).fill_null(False), "a number")
    return numbers


def times(origin: Origin, column: pl.Series) -> pl.Series:
    """Times as integers (Int64), numbers with fractions (Float64) or dates (Datetime in microseconds)."""
    parsed = parse_times(column)
    if parsed is None:
        raise InputError(f"{origin.label}: column {column.name!r}: expected times, received {column.dtype}")
    _refuse(origin, column, parsed.is_null(), TIME)
    return parsed


def check_texts(origin: Origin, column: pl.Series, distinct_ids: pl.Series | None = None) -> None:
    """Raise an error for text ids that are empty or surrounded by spaces. Only distinct ids are examined if given."""
    text = pl.all().str
    is_bad = (text.len_bytes() == 0) | (text.strip_chars().str.len_bytes() != text.len_bytes())
    examined = column if distinct_ids is None else distinct_ids
    if examined.to_frame().lazy().select(is_bad.any()).collect(engine="streaming").item():
        _refuse(origin, column, column == "", "an id")
        _refuse(origin, column, column.str.strip_chars() != column, "an id without spaces around it")


def _as_numbers(column: pl.Series) -> pl.Series:
    """Texts as numbers if all are numbers and are unchanged when written back."""
    if not bool(distinct(column).str.contains(INT64_TEXT).all()):
        return column
    numbers = column.cast(pl.Int64, strict=False)
    return column if numbers.null_count() else numbers


def parse_times(column: pl.Series) -> pl.Series | None:
    """Times of any type in one of the three forms, null where a value does not parse; None for unsupported types."""
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
    """Integers for floats without fractions, as in tables that had missing values; else floats."""
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


def _refuse(origin: Origin, column: pl.Series, bad: pl.Series, expected: str) -> None:
    """Raise for the first bad row, if there is one."""
    position = bad.arg_true().head(1)
    if len(position):
        raise InputError(f"{origin.label}: {_problem(origin, column, position[0], expected)}")


def _problem(origin: Origin, column: pl.Series, row: int, expected: str) -> str:
    """What is wrong with a value, with its row and column."""
    value = "nothing" if column[row] is None or column[row] == "" else repr(column[row])
    shown = value if len(value) <= 60 else value[:59] + "…"
    return f"row {origin.row_number(row)}, column {column.name!r}: expected {expected}, received {shown}"


_CHECKS: Mapping[str, Callable[[Origin, pl.Series], pl.Series]] = {
    "user": ids,
    "item": ids,
    "weight": weights,
    "time": times,
}
