"""Figures that papers have published, shipped as tables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

import polars as pl

from shortlist.errors import unknown

_FOLDER = files("shortlist.bench") / "published"

TABLES: tuple[str, ...] = tuple(sorted(entry.name.removesuffix(".csv") for entry in _FOLDER.iterdir()))
"""Names of the tables: paper, number, subject."""

_METRICS = {"NDCG": "ndcg", "Recall": "recall"}


class Published:
    """One published table with values by dataset, backbone, loss and metric.

    >>> Published("slatk_table02_top20").value("Health", "MF", "SL@20", "ndcg@20")
    0.139
    """

    def __init__(self, table: str, where: Mapping[str, str] | None = None) -> None:
        if table not in TABLES:
            raise unknown("published", "table", table, TABLES)
        frame = pl.read_csv((_FOLDER / f"{table}.csv").read_bytes(), infer_schema_length=None)
        for column, text in (where or {}).items():
            frame = frame.filter(pl.col(column).cast(str) == text)
        self.frame = frame

    def value(self, dataset: str, model: str, loss: str, metric: str) -> float | None:
        """The figure, if the table has one."""
        name, _, k = metric.partition("@")
        for row in self.frame.iter_rows(named=True):
            same = (row["dataset"], row["backbone"], row["loss"]) == (dataset, model, loss)
            if same and _METRICS.get(row["metric"]) == name and row["k"] == int(k):
                return float(row["value"])
        return None
