"""Pages with pictures that open from disk."""

from shortlist.report.page import Figure, Page, Section, Table, render
from shortlist.report.pictures import against, curves, dots, groups, heat, lines, sweep

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
