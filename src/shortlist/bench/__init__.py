"""Benchmarks: grids of datasets, models, losses and seeds, measured under one protocol beside published figures."""

from shortlist.bench.cells import Cell, cells
from shortlist.bench.published import Published
from shortlist.bench.results import Row, summarise, to_csv, to_latex, to_markdown
from shortlist.bench.runner import Bench, Failure
from shortlist.bench.spec import SHIPPED, Spec, read_spec, restrict

__all__ = [
    "SHIPPED",
    "Bench",
    "Cell",
    "Failure",
    "Published",
    "Row",
    "Spec",
    "cells",
    "read_spec",
    "restrict",
    "summarise",
    "to_csv",
    "to_latex",
    "to_markdown",
]
