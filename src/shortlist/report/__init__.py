"""Pages with pictures that open from disk."""

from shortlist.report.page import Figure, Page, Section, Table, render
from shortlist.report.pictures import curves, dots, groups

__all__ = ["Figure", "Page", "Section", "Table", "curves", "dots", "groups", "render"]
