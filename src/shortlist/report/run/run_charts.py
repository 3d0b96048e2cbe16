"""Charts of the report of a run: distributions, epochs, ranges, fractions."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from shortlist.report.theme import INK, PALETTE, altair, colour, data, from_one, rule, shape, svg

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
"""Dash patterns, in addition to colours."""


def densities(values: pl.DataFrame, *, axis: str) -> str:
    """Outlines of distributions over one axis: columns ``name``, ``x`` and ``y``, whose highest is 1 for each name."""
    alt = altair()
    names = values["name"].unique(maintain_order=True).to_list()
    colours = alt.Scale(domain=names, range=list(PALETTE[: len(names)]))
    dashes = alt.Scale(domain=names, range=list(DASHES[: len(names)]))
    legend = alt.Legend(symbolType="stroke", symbolSize=260, symbolStrokeWidth=2, symbolOpacity=1)
    base = alt.Chart(data(values)).encode(
        x=alt.X("x:Q", title=axis, scale=alt.Scale(nice=False, zero=False)),
        y=alt.Y("y:Q", title="density, maximum = 1", stack=None),
    )
    area = base.mark_area(opacity=0.12, interpolate="monotone").encode(
        color=alt.Color("name:N", title=None, sort=names, scale=colours, legend=legend)
    )
    line = base.mark_line(strokeWidth=1.8, interpolate="monotone").encode(
        color=alt.Color("name:N", title=None, sort=names, scale=colours, legend=legend),
        strokeDash=alt.StrokeDash("name:N", title=None, sort=names, scale=dashes, legend=legend),
    )
    return svg(area + line)


def histogram(values: pl.DataFrame, *, title: str, axis: str, domain: Sequence[float] | None = None) -> str:
    """Bars of neighbouring bins: columns ``from``, ``to`` and ``share``."""
    alt = altair()
    scale = alt.Scale(nice=False, zero=False, **({"domain": list(domain)} if domain else {}))
    bars = alt.Chart(data(values)).mark_bar(color=PALETTE[0], opacity=0.85, stroke=None).encode(
        x=alt.X("from:Q", title=axis, scale=scale, bin="binned"),
        x2="to:Q",
        y=alt.Y("share:Q", title=title, axis=alt.Axis(format="%")),
    )  # fmt: skip
    return svg(bars)


def epochs(values: pl.DataFrame, *, title: str, last: int, kept: int | None = None, zero: bool = False) -> str:
    """A value by epoch, from the first to the ``last``: columns ``epoch`` and ``value``.

    A dashed line marks the kept epoch. The scale of a single value starts at 0.
    """
    alt = altair()
    x = from_one(alt, "epoch", "epoch", last)
    base = alt.Chart(data(values)).encode(
        x=x,
        y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=zero or values["value"].n_unique() == 1)),
    )
    drawn = base.mark_line(strokeWidth=1.8, color=PALETTE[0])
    if values.height <= 60:
        drawn = drawn + base.mark_point(filled=True, size=32, opacity=1, color=PALETTE[0])
    return svg(drawn if kept is None else rule(alt, "x", kept, x["scale"]) + drawn)


def against_count(values: pl.DataFrame, *, title: str, axis: str) -> str:
    """Values against a count, on a log scale: columns ``name``, ``at`` and ``value``."""
    alt = altair()
    counts = values["at"].unique().sort().to_list()
    scale = alt.Scale(type="log", domain=[counts[0], counts[-1]], nice=False, padding=12)
    base = alt.Chart(data(values)).encode(
        x=alt.X("at:Q", title=axis, scale=scale, axis=alt.Axis(values=counts, format=",d")),
        y=alt.Y("value:Q", title=title),
        color=colour(alt, values),
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(shape=shape(alt, values))
    return svg(base.mark_line(strokeWidth=1.8) + points)


def ranges(values: pl.DataFrame, *, title: str, axis: str, domain: Sequence[float], at: float | None = None) -> str:
    """Ordered groups, each a bar from ``low`` to ``high`` with a point at ``mid``: column ``group`` names them."""
    alt = altair()
    order = values["group"].to_list()
    scale = alt.Scale(domain=list(domain), nice=False)
    angle = 0 if len("".join(order)) < 45 else -40  # avoid overlapping labels
    base = alt.Chart(data(values)).encode(x=alt.X("group:N", title=axis, sort=order, axis=alt.Axis(labelAngle=angle)))
    bar = base.mark_bar(opacity=0.3, size=16, color=PALETTE[0]).encode(
        y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q"
    )
    point = base.mark_point(filled=True, size=60, opacity=1, color=PALETTE[0]).encode(y=alt.Y("mid:Q", scale=scale))
    return svg(bar + point if at is None else rule(alt, "y", at) + bar + point)


def shares(values: pl.DataFrame, *, title: str, axis: str) -> str:
    """A share that grows with another from 0 to 1: columns ``x`` and ``y``; where they are equal is a dashed line."""
    alt = altair()
    percent = alt.Axis(format="%", tickCount=6)
    scale = alt.Scale(domain=[0, 1], nice=False)
    x, y = alt.X("x:Q", title=axis, axis=percent, scale=scale), alt.Y("y:Q", title=title, axis=percent, scale=scale)
    even = alt.Chart(alt.Data(values=[{"x": end, "y": end} for end in (0, 1)]))
    even = even.mark_line(color=INK, strokeDash=[3, 3], strokeWidth=1).encode(x=x, y=y)
    return svg(even + alt.Chart(data(values)).mark_line(strokeWidth=2, color=PALETTE[0]).encode(x=x, y=y))
