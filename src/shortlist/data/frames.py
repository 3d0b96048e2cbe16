"""DataFrames of any library that narwhals supports: pandas, polars, Arrow, DuckDB and others.

Internally all frames are polars. Results can be returned in the library of the input (:func:`from_polars`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import polars as pl

from shortlist.errors import InputError, described, missing_extra

OTHER_NAMES = {"duckdb": "DuckDB relation"}


@dataclass(frozen=True)
class AnyFrame:
    """A frame of any library, from which columns can be read."""

    label: str
    """The name of the frame in errors."""

    library: str
    """The narwhals name of the library: ``"pandas"``, ``"polars"``, ``"pyarrow"``, ``"duckdb"``."""

    columns: dict[str, Any]
    """The columns' names as text, each with the frame's own name, which can be a number in pandas."""

    wrapped: Any
    """The frame in narwhals, lazy or not."""

    def read(self, names: Iterable[str]) -> pl.DataFrame:
        """The given columns, in polars. Lazy frames are computed."""
        chosen = {name: self.columns[name] for name in names}
        return self._collect(list(chosen)) if hasattr(self.wrapped, "collect") else self._convert(chosen)

    def _collect(self, names: list[str]) -> pl.DataFrame:
        try:
            frame: pl.DataFrame = self.wrapped.select(names).collect("polars").to_native()
        except ImportError as error:
            raise missing_extra(self.label, "pyarrow", "frames", error) from None
        except Exception as error:  # any error that the library raises for a failing query
            raise InputError(f"{self.label}: expected a computable query, received {described(error)}") from None
        return frame.with_columns(_from_objects(self.label, frame[name]) for name in _object_columns(frame))

    def _convert(self, chosen: dict[str, Any]) -> pl.DataFrame:
        columns = []
        for name, own_name in chosen.items():
            column = self.wrapped.get_column(own_name)
            try:
                if str(column.dtype) == "Object":
                    values = pl.Series(name, column.to_list(), dtype=pl.Object)
                    values = values.set(pl.Series(column.is_null().to_list(), dtype=pl.Boolean), None)
                    columns.append(_from_objects(self.label, values))
                else:
                    columns.append(column.to_polars().alias(name))
            except InputError:
                raise
            except ImportError as error:
                raise missing_extra(self.label, "pyarrow", "frames", error) from None
            except Exception as error:  # errors of pyarrow and of each library for types unknown to polars
                received = f"{column.dtype} ({described(error)})"
                raise InputError(
                    f"{self.label}: column {name!r}: expected text, numbers or times, received {received}"
                ) from None
        return pl.DataFrame(columns)


def open_frame(frame: Any, label: str | None = None) -> AnyFrame:
    """A frame ready to be read; an error for other types.

    >>> open_frame(pl.LazyFrame({"user": ["ann"], "item": [7]})).label
    'polars LazyFrame'
    >>> open_frame([1, 2])
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: data: expected a path, a name or a DataFrame (pandas, polars, Arrow, DuckDB), received
    list
    """
    import narwhals.stable.v2 as nw  # imported late: not needed to read files
    from narwhals.exceptions import DuplicateError

    kind = type(frame).__name__
    try:
        wrapped = nw.from_native(frame)
        names = wrapped.collect_schema().names()
    except TypeError:
        expected = "a path, a name or a DataFrame (pandas, polars, Arrow, DuckDB)"
        raise InputError(f"data: expected {expected}, received {kind}") from None
    except DuplicateError as error:
        raise InputError(f"{label or kind}: expected a name for each column, received {described(error)}") from None
    except Exception as error:  # a lazy frame with an invalid query
        raise InputError(f"{label or kind}: expected a frame with columns, received {described(error)}") from None
    library = str(wrapped.implementation.value)
    label = label or OTHER_NAMES.get(library, f"{library} {kind}")
    columns = {str(name): name for name in names}
    if len(columns) < len(names):
        texts = [str(name) for name in names]
        repeated = next(text for place, text in enumerate(texts) if text in texts[:place])
        raise InputError(f"{label}: expected a name for each column, received {repeated!r} twice")
    return AnyFrame(label, library, columns, wrapped)


def to_polars(frame: Any, label: str | None = None) -> tuple[pl.DataFrame, str]:
    """The frame in polars, and the narwhals name of its library.

    Lazy frames and DuckDB relations are computed. Python objects become text (UUIDs; mixed text and integers) or the
    corresponding polars type (decimals, dates); others are an error. ``label`` names the frame in errors.

    >>> to_polars(pl.LazyFrame({"user": ["ann"], "item": [7]}))[1]
    'polars'
    """
    opened = open_frame(frame, label)
    return opened.read(opened.columns), opened.library


def from_polars(frame: pl.DataFrame, library: str) -> Any:
    """The frame in the library of the input data.

    For DuckDB it is an Arrow table, which any connection can query; a relation would belong to one connection. For
    other libraries than pandas, polars, Arrow and DuckDB it remains a polars frame.

    >>> from_polars(pl.DataFrame({"item": [7]}), "polars").rows()
    [(7,)]
    """
    if library not in ("pandas", "pyarrow", "duckdb"):
        return frame
    try:
        return frame.to_pandas() if library == "pandas" else frame.to_arrow()
    except ImportError as error:
        raise missing_extra(library, "pyarrow", "frames", error) from None


def _object_columns(frame: pl.DataFrame) -> list[str]:
    return [name for name, kind in frame.schema.items() if kind == pl.Object]


def _from_objects(label: str, column: pl.Series) -> pl.Series:
    """A column of Python objects as a polars type."""
    values = column.to_list()
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str, int, UUID} and kinds not in ({str}, {int}):
        values = [None if value is None else str(value) for value in values]
    try:
        plain = pl.Series(column.name, values, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        plain = column
    if plain.dtype == pl.Object or plain.dtype.is_nested():
        received = ", ".join(sorted(kind.__name__ for kind in kinds))
        expected = "text, numbers or times"
        raise InputError(f"{label}: column {column.name!r}: expected {expected}, received objects of type {received}")
    return plain
