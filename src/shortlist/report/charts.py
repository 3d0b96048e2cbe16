"""Charts shared by several reports: functions from a table to SVG."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import polars as pl

from shortlist.report.theme import INK, LINE, PALETTE, WIDTH, altair, colour, data, from_one, rule, shape, svg

FAR = 0.1
"""Distance of a ratio from 1 at which the colour is saturated."""

SHORT = 15
"""Maximum number of values for which a line has point marks."""

WIDE = 50
"""Ratio of the largest to the smallest value above which the scale is logarithmic."""


def curves(values: pl.DataFrame, *, title: str) -> str:
    """Means against K with bands: columns ``name``, ``k``, ``mean``, ``low``, ``high``. K is on a log scale."""
    alt = altair()
    ks = values["k"].unique().sort().to_list()
    scale = alt.Scale(type="log", domain=[ks[0], ks[-1]], nice=False)
    k = alt.X("k:Q", title="K, length of the list", scale=scale, axis=alt.Axis(values=ks, format="d"))
    return _banded(alt, values, k, alt.Y("low:Q", title=title))


def sweep(values: pl.DataFrame, *, title: str, axis: str, percent: bool = False) -> str:
    """Means against a setting with bands: columns ``name``, ``at``, ``mean``, ``low``, ``high`` and ``flat``.

    Rows with ``flat`` do not have the setting and are drawn as a dashed line from end to end.
    """
    alt = altair()
    ats = values["at"].unique().sort().to_list()
    is_wide = ats[0] > 0 and ats[-1] / ats[0] >= WIDE
    scale = alt.Scale(type="log" if is_wide else "linear", domain=[ats[0], ats[-1]], nice=False, zero=False)
    label = alt.Axis(values=ats, format="~%" if percent else ".4~g", labelOverlap=True)
    x, y = alt.X("at:Q", title=axis, scale=scale, axis=label), alt.Y("low:Q", title=title, scale=alt.Scale(zero=False))
    return _banded(alt, values, x, y, alt.StrokeDash("flat:N", legend=None, scale=_dashed(alt)))


def _dashed(alt: ModuleType) -> Any:
    """Dashes for flagged rows."""
    return alt.Scale(domain=[False, True], range=[[1, 0], [5, 4]])


def _banded(alt: ModuleType, values: pl.DataFrame, x: Any, y: Any, dash: Any = None) -> str:
    """Lines of means with a mark at each and a band from ``low`` to ``high``; ``y`` is that of ``low``."""
    base = alt.Chart(data(values))
    marked = base if dash is None else alt.Chart(data(values.filter(~pl.col("flat"))))
    mean, hue = y.copy(), colour(alt, values)
    mean.shorthand = "mean:Q"
    band = base.mark_area(opacity=0.18).encode(x=x, y=y, y2="high:Q", color=hue)
    line = base.mark_line(strokeWidth=2).encode(
        x=x, y=mean, color=hue, **({} if dash is None else {"strokeDash": dash})
    )
    point = marked.mark_point(filled=True, size=55, opacity=1).encode(x=x, y=mean, color=hue, shape=shape(alt, values))
    return svg(band + line + point)


def heat(values: pl.DataFrame, *, rows: str, columns: str) -> str:
    """A heat map of ratios: columns ``row``, ``column`` (texts, in the order of the rows) and ``ratio``.

    The hue shows whether a ratio is above 1, its strength the distance, on the same scale in all charts.
    """
    alt = altair()
    order = {name: values[name].unique(maintain_order=True).to_list() for name in ("row", "column")}
    drawn = values.with_columns(
        side=pl.when(pl.col("ratio") >= 1).then(pl.lit("above")).otherwise(pl.lit("below")),
        far=((pl.col("ratio") - 1).abs() / FAR).clip(upper_bound=1),
        text=pl.col("ratio").map_elements(lambda ratio: f"{ratio:.3f}", return_dtype=pl.String),
    )
    base = alt.Chart(data(drawn)).encode(
        x=alt.X("column:N", title=columns, sort=order["column"], axis=alt.Axis(labelAngle=0, grid=False)),
        y=alt.Y("row:N", title=rows, sort=order["row"], axis=alt.Axis(labelLimit=160)),
    )
    field = base.mark_rect(stroke=LINE).encode(
        color=alt.Color("side:N", legend=None, scale=alt.Scale(domain=["above", "below"], range=[*PALETTE[:2]])),
        fillOpacity=alt.FillOpacity("far:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.03, 0.7])),
    )
    text = base.mark_text(color=INK, fontSize=11).encode(text="text:N")
    return svg(field + text, height=max(90, 30 * len(order["row"])))


def groups(values: pl.DataFrame, *, title: str, axis: str, zero: bool = True) -> str:
    """Values of ordered groups: columns ``name``, ``group`` (a text, in the order of the rows) and ``value``.

    The scale starts at 0 unless ``zero`` is false.
    """
    alt = altair()
    order = values["group"].unique(maintain_order=True).to_list()
    angle = 0 if len("".join(order)) < 60 else -40  # avoid overlapping labels
    x = alt.X("group:N", title=axis or None, sort=order, axis=alt.Axis(labelAngle=angle, labelLimit=140))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=zero))
    base = alt.Chart(data(values)).encode(x=x, y=y, color=colour(alt, values))
    line = base.mark_line(strokeWidth=1.5, opacity=0.65)
    return svg(line + base.mark_point(filled=True, size=65, opacity=1).encode(shape=shape(alt, values)))


def dots(values: pl.DataFrame, *, title: str, zero: bool = False) -> str:
    """A row for each mean with its interval: columns ``name``, ``mean``, ``low``, ``high``; optionally a line at 0.

    Without that line, positive values of very different size are drawn on a log scale.
    """
    alt = altair()
    order = values["name"].unique(maintain_order=True).to_list()
    base = alt.Chart(data(values)).encode(y=alt.Y("name:N", title=None, sort=order, axis=alt.Axis(labelLimit=220)))
    low, high = values["low"].min(), values["high"].max()
    is_wide = not zero and low > 0 and high / low >= WIDE  # type: ignore[operator]
    scale = alt.Scale(type="log") if is_wide else alt.Scale(zero=zero)
    interval = base.mark_rule(strokeWidth=3, opacity=0.45, color=PALETTE[0]).encode(
        x=alt.X("low:Q", title=title, scale=scale), x2="high:Q"
    )
    point = base.mark_point(filled=True, size=75, opacity=1, color=PALETTE[0]).encode(x=alt.X("mean:Q", scale=scale))
    layers = interval + point
    return svg(rule(alt, "x", 0) + layers if zero else layers, height=max(60, 34 * len(order)))


def functions(values: pl.DataFrame, reach: float) -> str:
    """Small lines of functions from −reach to reach: columns ``name``, ``x``, ``y``; all but the first are dashed."""
    alt = altair()
    names = values["name"].unique(maintain_order=True).to_list()
    dash = alt.Scale(domain=names, range=[[1, 0], *([5, 3] for _ in names[1:])])
    chart = (
        alt.Chart(data(values))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("x:Q", title="x", scale=alt.Scale(domain=[-reach, reach], nice=False), axis=alt.Axis(format="d")),
            y=alt.Y("y:Q", title=None, axis=alt.Axis(tickCount=5)),
            color=colour(alt, values),
            strokeDash=alt.StrokeDash("name:N", title=None, sort=names, scale=dash),
        )
    )
    return svg(chart, width=260, height=150)


def for_file(picture: str) -> str:
    """A chart for a file of its own, in grey that is visible on white and on black."""
    return picture.replace("currentColor", "#7d8590").replace("var(--line)", "#7d859059")


def lines(values: pl.DataFrame, *, title: str, axis: str) -> str:
    """Values along whole numbers from 1: columns ``name``, ``at`` and ``value``.

    Short lines have point marks, since a single value has no line.
    """
    alt = altair()
    names = values["name"].unique(maintain_order=True).to_list()
    dashes = [[1, 0] if place < len(PALETTE) else [5, 3] for place in range(len(names))]  # colours are repeated
    at = {
        "x": from_one(alt, "at", axis, int(values["at"].max())),  # type: ignore[arg-type]
        "y": alt.Y("value:Q", title=title, scale=alt.Scale(zero=values["value"].n_unique() == 1)),
        "color": colour(alt, values),
    }
    dash = alt.StrokeDash("name:N", legend=None, sort=names, scale=alt.Scale(domain=names, range=dashes))
    line = alt.Chart(data(values)).mark_line(strokeWidth=1.8).encode(**at, strokeDash=dash)
    short = values.filter(pl.len().over("name") <= SHORT)
    if short.is_empty():
        return svg(line)
    point = alt.Chart(data(short)).mark_point(filled=True, size=40, opacity=1).encode(**at, shape=shape(alt, values))
    return svg(line + point)


def against(values: pl.DataFrame, *, title: str, axis: str) -> str:
    """One value against another, with the line on which they are equal: columns ``name``, ``x`` and ``y``."""
    alt = altair()
    ends = values.select(
        low=pl.min_horizontal(pl.col("x").min(), pl.col("y").min()),
        high=pl.max_horizontal(pl.col("x").max(), pl.col("y").max()),
    ).row(0)
    room = 0.05 * (ends[1] - ends[0]) or 0.05 * abs(ends[1]) or 1.0
    scale = alt.Scale(domain=[ends[0] - room, ends[1] + room], nice=False, zero=False)
    diagonal = alt.Chart(alt.Data(values=[{"x": end, "y": end} for end in scale.domain]))
    line = diagonal.mark_line(color=INK, strokeDash=[3, 3], strokeWidth=1).encode(x="x:Q", y="y:Q")
    point = alt.Chart(data(values)).mark_point(filled=True, size=70, opacity=0.9).encode(
        x=alt.X("x:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=6)),
        y=alt.Y("y:Q", title=title, scale=scale),
        color=colour(alt, values),
        shape=shape(alt, values),
    )  # fmt: skip
    return svg(line + point, height=WIDTH * 3 // 4)
