"""Pictures as SVG that follow the page: text and lines take its colours, in the light, in the dark and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import polars as pl

from shortlist.report.page import missing_extra

PALETTE = ("#3b82f6", "#d97706", "#059669", "#db2777", "#8b5cf6", "#0891b2", "#dc2626", "#65a30d")
"""Told apart on white and on near-black; shapes tell apart what colours do not."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")

INK, LINE = "#123456", "#654321"
"""Stand for the page's own colours until the picture is drawn."""

WIDTH, HEIGHT = 420, 240

LINE_OF_NAMES = 68
"""About how many signs of a legend fit beside one another."""

FAR = 0.1
"""A ratio that is this far from 1 has the full colour of its side."""

WIDE = 50
"""Positive numbers this many times apart are drawn on a log scale."""


def curves(values: pl.DataFrame, *, title: str) -> str:
    """Means against K with bands: columns ``name``, ``k``, ``mean``, ``low``, ``high``. K is on a log scale."""
    alt = _altair()
    ks = values["k"].unique().sort().to_list()
    scale = alt.Scale(type="log", domain=[ks[0], ks[-1]], nice=False)
    k = alt.X("k:Q", title="K, length of the list", scale=scale, axis=alt.Axis(values=ks, format="d"))
    return _banded(alt, values, k, alt.Y("low:Q", title=title))


def sweep(values: pl.DataFrame, *, title: str, axis: str, percent: bool = False) -> str:
    """Means against a setting with bands: columns ``name``, ``at``, ``mean``, ``low``, ``high`` and ``flat``.

    Names whose rows are ``flat`` do not have the setting: theirs is a dashed line from end to end.
    """
    alt = _altair()
    ats = values["at"].unique().sort().to_list()
    is_wide = ats[0] > 0 and ats[-1] / ats[0] >= WIDE
    scale = alt.Scale(type="log" if is_wide else "linear", domain=[ats[0], ats[-1]], nice=False, zero=False)
    label = alt.Axis(values=ats, format="~%" if percent else ".4~g", labelOverlap=True)
    x, y = alt.X("at:Q", title=axis, scale=scale, axis=label), alt.Y("low:Q", title=title, scale=alt.Scale(zero=False))
    return _banded(alt, values, x, y, alt.StrokeDash("flat:N", legend=None, scale=_dashed(alt)))


def _dashed(alt: ModuleType) -> Any:
    """What is flagged is dashed."""
    return alt.Scale(domain=[False, True], range=[[1, 0], [5, 4]])


def _banded(alt: ModuleType, values: pl.DataFrame, x: Any, y: Any, dash: Any = None) -> str:
    """Lines of means with a mark at each and a band from ``low`` to ``high``; ``y`` is that of ``low``."""
    base = alt.Chart(_rows(values))
    marked = base if dash is None else alt.Chart(_rows(values.filter(~pl.col("flat"))))
    mean, colour = y.copy(), _colour(alt, values)
    mean.shorthand = "mean:Q"
    band = base.mark_area(opacity=0.18).encode(x=x, y=y, y2="high:Q", color=colour)
    line = base.mark_line(strokeWidth=2).encode(
        x=x, y=mean, color=colour, **({} if dash is None else {"strokeDash": dash})
    )
    point = marked.mark_point(filled=True, size=55, opacity=1).encode(
        x=x, y=mean, color=colour, shape=_shape(alt, values)
    )
    return _svg(band + line + point)


def heat(values: pl.DataFrame, *, rows: str, columns: str) -> str:
    """Ratios as fields: columns ``row``, ``column`` (texts, in the order of the rows) and ``ratio``.

    Colour tells above from below 1 and its strength how far, the same in all pictures; the number stands in each field.
    """
    alt = _altair()
    order = {name: values[name].unique(maintain_order=True).to_list() for name in ("row", "column")}
    drawn = values.with_columns(
        side=pl.when(pl.col("ratio") >= 1).then(pl.lit("above")).otherwise(pl.lit("below")),
        far=((pl.col("ratio") - 1).abs() / FAR).clip(upper_bound=1),
        text=pl.col("ratio").map_elements(lambda ratio: f"{ratio:.3f}", return_dtype=pl.String),
    )
    base = alt.Chart(_rows(drawn)).encode(
        x=alt.X("column:N", title=columns, sort=order["column"], axis=alt.Axis(labelAngle=0, grid=False)),
        y=alt.Y("row:N", title=rows, sort=order["row"], axis=alt.Axis(labelLimit=160)),
    )
    field = base.mark_rect(stroke=LINE).encode(
        color=alt.Color("side:N", legend=None, scale=alt.Scale(domain=["above", "below"], range=[*PALETTE[:2]])),
        fillOpacity=alt.FillOpacity("far:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.03, 0.7])),
    )
    text = base.mark_text(color=INK, fontSize=11).encode(text="text:N")
    return _svg(field + text, height=max(90, 30 * len(order["row"])))


def groups(values: pl.DataFrame, *, title: str, axis: str, zero: bool = True) -> str:
    """Values of ordered groups: columns ``name``, ``group`` (a text, in the order of the rows) and ``value``.

    The scale begins at 0, unless it is small differences that are to be seen.
    """
    alt = _altair()
    order = values["group"].unique(maintain_order=True).to_list()
    angle = 0 if len("".join(order)) < 60 else -40  # so that they do not run into one another
    x = alt.X("group:N", title=axis or None, sort=order, axis=alt.Axis(labelAngle=angle, labelLimit=140))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=zero))
    base = alt.Chart(_rows(values)).encode(x=x, y=y, color=_colour(alt, values))
    line = base.mark_line(strokeWidth=1.5, opacity=0.65)
    return _svg(line + base.mark_point(filled=True, size=65, opacity=1).encode(shape=_shape(alt, values)))


def dots(values: pl.DataFrame, *, title: str, zero: bool = False) -> str:
    """A row for each mean with its interval: columns ``name``, ``mean``, ``low``, ``high``; a line at 0 if asked.

    Without that line, positive values that are far apart are on a log scale.
    """
    alt = _altair()
    order = values["name"].unique(maintain_order=True).to_list()
    base = alt.Chart(_rows(values)).encode(y=alt.Y("name:N", title=None, sort=order, axis=alt.Axis(labelLimit=220)))
    low, high = values["low"].min(), values["high"].max()
    is_wide = not zero and low > 0 and high / low >= WIDE  # type: ignore[operator]
    scale = alt.Scale(type="log") if is_wide else alt.Scale(zero=zero)
    rule = base.mark_rule(strokeWidth=3, opacity=0.45, color=PALETTE[0]).encode(
        x=alt.X("low:Q", title=title, scale=scale), x2="high:Q"
    )
    point = base.mark_point(filled=True, size=75, opacity=1, color=PALETTE[0]).encode(x=alt.X("mean:Q", scale=scale))
    layers = rule + point
    if zero:
        at_zero = alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule(color=INK, strokeDash=[3, 3]).encode(x="at:Q")
        layers = at_zero + layers
    return _svg(layers, height=max(60, 34 * len(order)))


def functions(values: pl.DataFrame, reach: float) -> str:
    """Small lines of functions from −reach to reach: columns ``name``, ``x``, ``y``; all but the first are dashed."""
    alt = _altair()
    names = values["name"].unique(maintain_order=True).to_list()
    dash = alt.Scale(domain=names, range=[[1, 0], *([5, 3] for _ in names[1:])])
    chart = (
        alt.Chart(_rows(values))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("x:Q", title="x", scale=alt.Scale(domain=[-reach, reach], nice=False), axis=alt.Axis(format="d")),
            y=alt.Y("y:Q", title=None, axis=alt.Axis(tickCount=5)),
            color=_colour(alt, values),
            strokeDash=alt.StrokeDash("name:N", title=None, sort=names, scale=dash),
        )
    )
    return _svg(chart, width=260, height=150)


def for_file(svg: str) -> str:
    """A picture that stands in a file of its own, where no page lends it colours: grey, seen on white and on black."""
    return svg.replace("currentColor", "#7d8590").replace("var(--line)", "#7d859059")


def lines(values: pl.DataFrame, *, title: str, axis: str) -> str:
    """Values along a number: columns ``name``, ``at`` and ``value``."""
    alt = _altair()
    names = values["name"].unique(maintain_order=True).to_list()
    dashes = [[1, 0] if place < len(PALETTE) else [5, 3] for place in range(len(names))]  # colours come again
    drawn = alt.Chart(_rows(values)).mark_line(strokeWidth=1.8).encode(
        x=alt.X("at:Q", title=axis, axis=alt.Axis(format="d", tickMinStep=1)),
        y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
        color=_colour(alt, values),
        strokeDash=alt.StrokeDash("name:N", legend=None, sort=names, scale=alt.Scale(domain=names, range=dashes)),
    )  # fmt: skip
    return _svg(drawn)


def against(values: pl.DataFrame, *, title: str, axis: str) -> str:
    """One value against another, with the line on which they are equal: columns ``name``, ``x`` and ``y``."""
    alt = _altair()
    ends = values.select(
        low=pl.min_horizontal(pl.col("x").min(), pl.col("y").min()),
        high=pl.max_horizontal(pl.col("x").max(), pl.col("y").max()),
    ).row(0)
    room = 0.05 * (ends[1] - ends[0]) or 0.05 * abs(ends[1]) or 1.0
    scale = alt.Scale(domain=[ends[0] - room, ends[1] + room], nice=False, zero=False)
    diagonal = alt.Chart(alt.Data(values=[{"x": end, "y": end} for end in scale.domain]))
    line = diagonal.mark_line(color=INK, strokeDash=[3, 3], strokeWidth=1).encode(x="x:Q", y="y:Q")
    point = alt.Chart(_rows(values)).mark_point(filled=True, size=70, opacity=0.9).encode(
        x=alt.X("x:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=6)),
        y=alt.Y("y:Q", title=title, scale=scale),
        color=_colour(alt, values),
        shape=_shape(alt, values),
    )  # fmt: skip
    return _svg(line + point, height=WIDTH * 3 // 4)


def _colour(alt: ModuleType, values: pl.DataFrame) -> Any:
    names = values["name"].unique(maintain_order=True).to_list()
    scale = alt.Scale(domain=names, range=_taken(PALETTE, names))
    return alt.Color("name:N", title=None, sort=names, scale=scale, legend=_legend(alt, names))


def _shape(alt: ModuleType, values: pl.DataFrame) -> Any:
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


def _rows(values: pl.DataFrame) -> Any:
    return _altair().Data(values=values.to_dicts())


def _svg(chart: Any, *, width: int = WIDTH, height: int = HEIGHT) -> str:
    alt = _altair()
    try:
        from vl_convert import vegalite_to_svg
    except ImportError as error:
        raise missing_extra("vl-convert-python", error) from error
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
        svg = vegalite_to_svg(whole.to_json())
    return str(svg).replace(INK, "currentColor").replace(LINE, "var(--line)")


def _altair() -> ModuleType:
    try:
        import altair
    except ImportError as error:
        raise missing_extra("altair", error) from error
    return altair
