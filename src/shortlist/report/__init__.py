"""Self-contained HTML reports with charts."""

from shortlist.report.charts import against, curves, dots, groups, heat, lines, sweep
from shortlist.report.page import Figure, Page, Section, Table, render

__all__ = [
    "Figure",
    "Page",
    "Section",
    "Table",
    "against",
    "curves",
    "dots",
    "groups",
    "heat",
    "lines",
    "render",
    "sweep",
]
