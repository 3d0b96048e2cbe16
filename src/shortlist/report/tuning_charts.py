"""Charts of a study: values over trials and over a setting, and fractions as bars."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from shortlist.report.theme import INK, PALETTE, altair, colour, data, shape, svg


def over_trials(values: pl.DataFrame, best: pl.DataFrame, *, title: str) -> str:
    """Points of trials by how they ended (columns ``name``, ``at``, ``value``), and the best so far as steps."""
    alt = altair()
    x = alt.X("at:Q", title="trial", axis=alt.Axis(format="d", tickMinStep=1))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
    line = alt.Chart(data(best)).mark_line(interpolate="step-after", color=INK, strokeWidth=1.2, opacity=0.6)
    point = alt.Chart(data(values)).mark_point(filled=True, size=60, opacity=0.9)
    return svg(line.encode(x=x, y=y) + point.encode(x=x, y=y, color=colour(alt, values), shape=shape(alt, values)))


def over_setting(values: pl.DataFrame, *, title: str, axis: str, log: bool, choices: Sequence[str] = ()) -> str:
    """Points of trials over a setting (columns ``name``, ``x``, ``value``): a number, or one of some choices."""
    alt = altair()
    if choices:
        x = alt.X("x:N", title=axis, sort=list(choices), scale=alt.Scale(domain=list(choices)))
        x.axis = alt.Axis(labelAngle=0)
    else:
        scale = alt.Scale(type="log" if log else "linear", zero=False, nice=False, padding=8)
        x = alt.X("x:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=5, format="~g"))
    chart = alt.Chart(data(values)).mark_point(filled=True, size=55, opacity=0.75).encode(
        x=x,
        y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
        color=colour(alt, values),
        shape=shape(alt, values),
    )  # fmt: skip
    return svg(chart, width=300, height=180)


def bars(values: pl.DataFrame, *, title: str) -> str:
    """Shares as bars, in the order of the rows: columns ``name`` and ``value``."""
    alt = altair()
    order = values["name"].to_list()
    chart = alt.Chart(data(values)).mark_bar(color=PALETTE[0], height=16).encode(
        x=alt.X("value:Q", title=title, axis=alt.Axis(format="%", tickCount=6)),
        y=alt.Y("name:N", title=None, sort=order, axis=alt.Axis(labelLimit=220)),
    )  # fmt: skip
    return svg(chart, height=max(60, 30 * len(order)))
