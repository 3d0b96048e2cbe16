"""Benchmarks: grids of datasets, models, losses and seeds under one protocol, compared with published results."""

from shortlist.bench.cells import Cell, cells, select
from shortlist.bench.estimates import most_epochs, seconds_of_epoch
from shortlist.bench.published import TABLES, Published
from shortlist.bench.results import Row, published_figures, summarise
from shortlist.bench.runner import Bench, Failure, Result, work
from shortlist.bench.spec import SHIPPED, Spec, read_spec
from shortlist.bench.tables import to_csv, to_latex, to_markdown

__all__ = [
    "SHIPPED",
    "TABLES",
    "Bench",
    "Cell",
    "Failure",
    "Published",
    "Result",
    "Row",
    "Spec",
    "cells",
    "most_epochs",
    "published_figures",
    "read_spec",
    "seconds_of_epoch",
    "select",
    "summarise",
    "to_csv",
    "to_latex",
    "to_markdown",
    "work",
]
