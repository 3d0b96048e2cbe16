"""Shared style of charts: text and lines take the colours of the page, light, dark or printed."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal

import polars as pl

from shortlist.errors import missing_extra

PALETTE = ("#3b82f6", "#d97706", "#059669", "#db2777", "#8b5cf6", "#0891b2", "#dc2626", "#65a30d")
"""Distinguishable on white and near-black; shapes distinguish repeated colours."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")

INK, LINE = "#123456", "#654321"
"""Placeholders that are replaced by the colours of the page."""

WIDTH, HEIGHT = 420, 240

FEW = 10
"""Maximum number of integers with a tick each on an axis."""

LINE_OF_NAMES = 68
"""Approximate width of a legend line, in characters."""


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
    """A legend in one line, or in several if it does not fit."""
    fitting = max(
        1, LINE_OF_NAMES // (max(map(len, names), default=0) + 5)
    )  # a symbol and a gap are about 5 characters wide
    is_one_line = sum(len(name) + 5 for name in names) <= LINE_OF_NAMES
    return alt.Legend(symbolOpacity=1, columns=0 if is_one_line else min(4, fitting), labelLimit=WIDTH)


def _taken(choices: Sequence[str], names: Sequence[str], *, shift: bool = False) -> list[str]:
    """One choice for each name, repeated cyclically; with ``shift`` each repetition starts one further, so that pairs
    of colour and shape are unique."""
    return [choices[(place + shift * (place // len(choices))) % len(choices)] for place in range(len(names))]


def data(values: pl.DataFrame) -> Any:
    """The rows of a table as chart data."""
    return altair().Data(values=values.to_dicts())


def rule(alt: ModuleType, side: Literal["x", "y"], at: float, scale: Any = None) -> Any:
    """A dashed line across the chart; without the ``scale`` of the chart its axis starts at 0."""
    place = (alt.X if side == "x" else alt.Y)("at:Q", scale=alt.Undefined if scale is None else scale)
    return alt.Chart(alt.Data(values=[{"at": at}])).mark_rule(color=INK, strokeDash=[3, 3]).encode(**{side: place})


def at_k(metric: str, k: int | None) -> str:
    """A metric with its K, which logs omit if it is that of the run.

    >>> at_k("ndcg", 20), at_k("ndcg@5", 20), at_k("ndcg", None)
    ('ndcg@20', 'ndcg@5', 'ndcg')
    """
    return metric if "@" in metric or k is None else f"{metric}@{k}"


def from_one(alt: ModuleType, column: str, title: str, last: int) -> Any:
    """A column of whole numbers along the picture, such as epochs, from 1 to the ``last``. Ticks are integers."""
    ticks = {"values": [*range(1, last + 1)]} if last <= FEW else {"tickMinStep": 1}
    scale = alt.Scale(domain=[min(1, last - 1), last], nice=False)
    return alt.X(f"{column}:Q", title=title, axis=alt.Axis(format="d", **ticks), scale=scale)


def svg(chart: Any, *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Render a chart to SVG with the colours of the page."""
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
    """Import Altair, or raise an error that says how to install it."""
    try:
        import altair
    except ImportError as error:
        raise missing_extra("report", "altair", "report", error) from error
    return altair
