"""The report of a comparison of runs."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from shortlist.formatting import format_interval, format_p, format_signed
from shortlist.metrics import SIGNIFICANCE, Comparison, Interval
from shortlist.report.charts import dots
from shortlist.report.page import Cell, Figure, Page, Section, Table


def comparison_page(comparison: Comparison, intervals: Mapping[str, Interval], models: Mapping[str, str]) -> Page:
    """Build the report: means with intervals, and tests and effect sizes for each pair of runs."""
    metric = comparison.metric
    left_out = f" ({comparison.left_out:,} evaluated by some runs only are excluded)" if comparison.left_out else ""
    lead = f"{metric} over {comparison.users:,} users evaluated by all runs{left_out}."
    best = max(comparison.means.values())
    means = Table(
        ["run", "model", metric, "95 % interval"],
        [
            [name, models[name], Cell(f"{mean:.4f}", mean == best), format_interval(intervals[name])]
            for name, mean in comparison.means.items()
        ],
        numbers=[metric, "95 % interval"],
    )
    return Page(
        "Comparison of " + ", ".join(comparison.means),
        lead,
        [
            Section("Means", tables=[means], figures=[_means(comparison, intervals), _differences(comparison)]),
            Section("Differences, user by user", [_EXPLANATION], [_pairs(comparison)]),
        ],
    )


_EXPLANATION = (
    "Each row compares two runs on the same users. The effect is Cohen's d_z: the mean difference over the standard "
    "deviation of the differences. Better and worse are shares of users. p-values are two-sided, of Student's paired t "
    "and of Wilcoxon's signed ranks, corrected by Holm's method for the number of pairs; those below "
    f"{SIGNIFICANCE} are marked."
)


def _means(comparison: Comparison, intervals: Mapping[str, Interval]) -> Figure:
    rows = [
        {"name": name, "mean": mean, "low": intervals[name].low, "high": intervals[name].high}
        for name, mean in comparison.means.items()
    ]
    return Figure(f"Mean {comparison.metric}", dots(pl.DataFrame(rows), title=comparison.metric), "95 % intervals.")


def _differences(comparison: Comparison) -> Figure:
    rows = [
        {"name": f"{pair.second} − {pair.first}", "mean": pair.difference, "low": pair.low, "high": pair.high}
        for pair in comparison.pairs
    ]
    picture = dots(pl.DataFrame(rows), title=f"difference of {comparison.metric}", zero=True)
    return Figure("Mean differences", picture, "Paired, with 95 % intervals; the dashed line is zero.")


def _pairs(comparison: Comparison) -> Table:
    columns = ["difference", "mean", "95 % interval", "effect", "better", "worse", "p (t)", "p (Wilcoxon)"]
    rows: list[list[Cell | str]] = [
        [
            f"{pair.second} − {pair.first}",
            format_signed(pair.difference),
            f"{format_signed(pair.low)} … {format_signed(pair.high)}",
            format_signed(pair.effect, 2),
            f"{pair.better:.1%}",
            f"{pair.worse:.1%}",
            Cell(format_p(pair.t_holm), pair.t_holm < SIGNIFICANCE),
            Cell(format_p(pair.wilcoxon_holm), pair.wilcoxon_holm < SIGNIFICANCE),
        ]
        for pair in comparison.pairs
    ]
    return Table(columns, rows, numbers=columns[1:])
