"""Titles of items, for display."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from shortlist.data.builtin import DEBIAN_NAME, load_debian_titles
from shortlist.data.columns import USUAL_NAMES, normalize_name
from shortlist.data.sources import readable
from shortlist.errors import InputError
from shortlist.files import read_regular

TITLES = ("title", "name", "itemname", "itemtitle", "producttitle", "productname", "movietitle", "label", "description")
"""Usual names of a column of titles, in lower case and without punctuation."""


def item_titles(source: str, table: Path | None = None) -> dict[str, str]:
    """Titles by item id, as text: of the given table, or of a built-in data set; empty for other sources.

    >>> item_titles("debian")["python3-jinja2"]
    'small but fast and easy to use stand-alone template engine'
    """
    if table is not None:
        return read_titles(table)
    return _by_id(load_debian_titles()) if source == DEBIAN_NAME else {}


def read_titles(path: Path) -> dict[str, str]:
    """Titles by item id from a CSV, TSV or Parquet table with an item column and a column ``title`` or ``name``."""
    if path.suffix not in (".csv", ".tsv", ".parquet"):
        raise InputError(f"{path}: expected a table of titles (.csv, .tsv or .parquet), received {path.suffix!r}")
    with readable(str(path), "a table of titles"):
        content = read_regular(path)
        if path.suffix == ".parquet":
            frame = pl.read_parquet(content)
        else:
            frame = pl.read_csv(content, separator="\t" if path.suffix == ".tsv" else ",", infer_schema=False)
    by_name = {normalize_name(name): name for name in reversed(frame.columns)}
    item = next((by_name[usual] for usual in USUAL_NAMES["item"] if usual in by_name), None)
    title = next((by_name[usual] for usual in TITLES if usual in by_name), None)
    if item is None or title is None:
        what = "an item column (item_id, movieId, …)" if item is None else "a column title or name"
        raise InputError(f"{path}: expected {what}, received the columns {', '.join(frame.columns[:12])}")
    return _by_id(frame.select(item, title))


def _by_id(frame: pl.DataFrame) -> dict[str, str]:
    return dict(frame.cast(pl.String).drop_nulls().iter_rows())
