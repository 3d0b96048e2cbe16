"""Reading tables of all formats as a frame with the columns user, item and optionally weight and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from shortlist.data.bad_rows import BadRows
from shortlist.data.checks import Origin, check_columns
from shortlist.data.columns import Columns, assign
from shortlist.data.formats import read_raw
from shortlist.data.sources import SINGLE, Source, find_parts, readable
from shortlist.errors import InputError


@dataclass(frozen=True)
class Table:
    """A table with the columns user, item and perhaps weight and time."""

    frame: pl.DataFrame
    names: Mapping[str, str] = field(default_factory=dict)
    """The names that its columns have in the source, by role."""

    bad_rows: BadRows | None = None
    """The rows that were skipped, if that was asked for."""


def read(path: str | Path, *, columns: Columns | None = None, delimiter: str | None = None) -> pl.DataFrame:
    """Read one table: a file, or an archive or folder that holds a single one.

    The file name determines the format: ``.csv`` and ``.tsv`` (with a header), ``.parquet``, ``.ndjson``/``.jsonl``,
    RecBole's ``.inter``, LightGCN's ``.txt``, MovieLens' ``.data``, ``.dat`` and ``.zip``; each also gzipped. ``.data``
    and ``.dat`` files without a header are read as user, item, weight, time; for other files without a header, give the
    columns by position, ``Columns(user="1", item="2")``.

    Ids keep their type. Ids of text formats become integers if all of them are integers and are unchanged when written
    back: ``007`` stays text.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "clicks.csv")
    ...     _ = file.write_text("userId,sku,date\\nann,7,2024-05-31\\nbob,9,2024-06-01\\n")
    ...     read(file).rows()
    [('ann', 7, datetime.datetime(2024, 5, 31, 0, 0)), ('bob', 9, datetime.datetime(2024, 6, 1, 0, 0))]
    """
    parts = read_parts(path, columns=columns, delimiter=delimiter)
    if SINGLE not in parts:
        raise InputError(f"{path}: expected one table, received the parts {', '.join(parts)}")
    return parts[SINGLE]


def read_parts(
    path: str | Path, *, columns: Columns | None = None, delimiter: str | None = None
) -> dict[str, pl.DataFrame]:
    """Read every table under a path: train, test and optionally valid, or a single one under the key ``whole``."""
    return {part: table.frame for part, table in read_tables(path, columns=columns, delimiter=delimiter).items()}


def read_tables(
    path: str | Path, *, columns: Columns | None = None, delimiter: str | None = None, skip_bad_rows: bool = False
) -> dict[str, Table]:
    """Like :func:`read_parts`, with the names of the columns; bad rows are refused, or skipped and counted."""
    sources = find_parts(Path(path))
    return {
        part: _read_source(source, columns or Columns(), delimiter, BadRows(source.label) if skip_bad_rows else None)
        for part, source in sources.items()
    }


def _read_source(source: Source, columns: Columns, delimiter: str | None, bad_rows: BadRows | None) -> Table:
    table = read_raw(source, columns, delimiter, bad_rows)
    with readable(source.label, "a table"):
        chosen = assign(table.label, table.frame.collect_schema().names(), table.columns)
        raw = table.frame.select(pl.col(list(chosen.values()))).collect()
        origin = Origin(table.label, table.row_number, table.is_text)
        names = {role: name.partition(":")[0] for role, name in chosen.items() if not name.isdigit()}
        return Table(check_columns(origin, raw, chosen, bad_rows=bad_rows), names, bad_rows)
