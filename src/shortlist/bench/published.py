"""Published results, shipped as tables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

import polars as pl

from shortlist.errors import InputError, unknown

_FOLDER = files("shortlist.bench") / "published"

TABLES: tuple[str, ...] = tuple(sorted(entry.name.removesuffix(".csv") for entry in _FOLDER.iterdir()))
"""Names of the tables: paper, number, subject."""

_METRICS = {"ndcg": "NDCG", "recall": "Recall", "hit_rate": "Hit", "mrr": "MRR"}
"""Names of the metrics in the papers."""

_UNITS = {None: 1, "%": 100, "s": 1}
"""Divisor of each unit: shares are published as fractions or percentages, seconds as they are."""


class Published:
    """A published table with values by dataset, backbone, loss and metric.

    >>> table = Published("slatk_table02_top20")
    >>> table.value({"dataset": "Health", "backbone": "MF", "loss": "SL@20"}, "ndcg@20")
    0.139

    Values with the unit ``%`` are returned as fractions.
    """

    def __init__(self, table: str, where: Mapping[str, str] | None = None) -> None:
        if table not in TABLES:
            raise unknown("published", "table", table, TABLES)
        frame = pl.read_csv((_FOLDER / f"{table}.csv").read_bytes(), infer_schema=False)
        self.table, self.columns = table, frame.columns
        if not {"metric", "k", "value"} <= set(frame.columns):
            raise InputError(f"published: expected a table of measured values, received {table}")
        self._rows = [row for row in frame.iter_rows(named=True) if self._matches(row, where or {})]
        for row in self._rows:
            if (unit := row.get("unit")) not in _UNITS:
                raise InputError(f"published: {table}: expected values in %, s or no unit, received {unit!r}")

    def value(self, where: Mapping[str, str], metric: str) -> float | None:
        """The value of a metric such as ``ndcg@20`` in the row that matches ``where``, if there is one."""
        name, _, k = metric.partition("@")
        cell = {**where, "metric": _METRICS.get(name, name), "k": k}
        found = [float(row["value"]) / _UNITS[row.get("unit")] for row in self._rows if self._matches(row, cell)]
        if len(found) > 1:
            raise InputError(f"published: expected one value of {self.table} for {cell}, received {len(found)}")
        return found[0] if found else None

    def knows(self, where: Mapping[str, str]) -> bool:
        """Whether any row matches."""
        return any(self._matches(row, where) for row in self._rows)

    def _matches(self, row: Mapping[str, str], where: Mapping[str, str]) -> bool:
        for column in where:
            if column not in self.columns:
                raise unknown(f"published: {self.table}", "column", column, self.columns)
        return all(row[column] == text for column, text in where.items())
