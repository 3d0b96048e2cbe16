"""What all pictures share: text and lines take the colours of the page, in the light, in the dark and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal

import polars as pl

from shortlist.errors import missing_extra

PALETTE = ("#3b82f6", "#d97706", "#059669", "#db2777", "#8b5cf6", "#0891b2", "#dc2626", "#65a30d")
"""Told apart on white and on near-black; shapes tell apart what colours do not."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")

INK, LINE = "#123456", "#654321"
"""Stand for the page's own colours until the picture is drawn."""

WIDTH, HEIGHT = 420, 240

FEW = 10
"""As many whole numbers have room on an axis, each with its mark."""

LINE_OF_NAMES = 68
"""About how many signs of a legend fit beside one another."""


def colour(alt: ModuleType, values: pl.DataFrame) -> Any:
    """A colour for each name of a column ``name``."""
    names = values["name"].unique(maintain_order=True).to_list()
    scale = alt.Scale(domain=names, range=_taken(PALETTE, names))
    return alt.Color("name:N", title=None, sort=names, scale=scale, legend=_legend(alt, names))


def shape(alt: ModuleType, values: pl.DataFrame) -> Any:
    """A shape for each name of a column ``name``."""
    names = values["name"].unique(maintain_order=True).to_list()
    scale = alt.Scale(domain=names, range=_taken(SHAPES, names, shift=True))
    return alt.Shape("name:N", title=None, sort=names, scale=scale, legend=_legend(alt, names))


def _legend(alt: ModuleType, names: Sequence[str]) -> Any:
    """In one line, or in several where names are too many or too long for one."""
    fitting = max(1, LINE_OF_NAMES // (max(map(len, names), default=0) + 5))  # a mark and a gap are as wide as 5 signs
    is_one_line = sum(len(name) + 5 for name in names) <= LINE_OF_NAMES
    return alt.Legend(symbolOpacity=1, columns=0 if is_one_line else min(4, fitting), labelLimit=WIDTH)


def _taken(choices: Sequence[str], names: Sequence[str], *, shift: bool = False) -> list[str]:
    """As many as there are names, from the start again where they run out, one further on if they are to ``shift``:
    then no shape meets the colour again that it has met."""
    return [choices[(place + shift * (place // len(choices))) % len(choices)] for place in range(len(names))]


def data(values: pl.DataFrame) -> Any:
    """The rows of a table as a picture takes them."""
    return altair().Data(values=values.to_dicts())


def rule(alt: ModuleType, side: Literal["x", "y"], at: float, scale: Any = None) -> Any:
    """A dashed line across the picture; without the ``scale`` of the picture its axis begins at 0."""
    place = (alt.X if side == "x" else alt.Y)("at:Q", scale=alt.Undefined if scale is None else scale)
    return alt.Chart(alt.Data(values=[{"at": at}])).mark_rule(color=INK, strokeDash=[3, 3]).encode(**{side: place})


def at_k(metric: str, k: int | None) -> str:
    """A metric with its K, which a log leaves out where it is that of the run.

    >>> at_k("ndcg", 20), at_k("ndcg@5", 20), at_k("ndcg", None)
    ('ndcg@20', 'ndcg@5', 'ndcg')
    """
    return metric if "@" in metric or k is None else f"{metric}@{k}"


def from_one(alt: ModuleType, column: str, title: str, last: int) -> Any:
    """A column of whole numbers along the picture, such as epochs, from 1 to the ``last``. None is named twice."""
    ticks = {"values": [*range(1, last + 1)]} if last <= FEW else {"tickMinStep": 1}
    scale = alt.Scale(domain=[min(1, last - 1), last], nice=False)
    return alt.X(f"{column}:Q", title=title, axis=alt.Axis(format="d", **ticks), scale=scale)


def svg(chart: Any, *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """The picture, drawn; colours of the page are left to the page."""
    alt = altair()
    try:
        from vl_convert import vegalite_to_svg
    except ImportError as error:
        raise missing_extra("report", "vl-convert-python", "report", error) from error
    axis = {"labelColor": INK, "titleColor": INK, "titleFontWeight": "normal", "titlePadding": 12, "labelFontSize": 11,
            "titleFontSize": 12, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE}  # fmt: skip
    legend = {
        "labelColor": INK,
        "labelFontSize": 12,
        "orient": "top",
        "symbolSize": 70,
        "columnPadding": 18,
        "offset": 8,
    }
    whole = (
        chart.properties(width=width, height=height, background="transparent")
        .configure(font="sans-serif")
        .configure_view(stroke=None)
        .configure_axis(**axis)
        .configure_legend(**legend)
    )
    with alt.data_transformers.enable("default", max_rows=None):
        drawn = vegalite_to_svg(whole.to_json())
    return str(drawn).replace(INK, "currentColor").replace(LINE, "var(--line)")


def altair() -> ModuleType:
    """The package that pictures are made with, or how to get it."""
    try:
        import altair
    except ImportError as error:
        raise missing_extra("report", "altair", "report", error) from error
    return altair
