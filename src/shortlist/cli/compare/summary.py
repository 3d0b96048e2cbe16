"""Summary of a comparison: means with their intervals drawn in the terminal, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shortlist.cli.output import print_table
from shortlist.formatting import format_p

if TYPE_CHECKING:
    from shortlist.metrics import Comparison, Interval

WIDTH = 48
"""Width of a drawn interval, in characters."""


def print_comparison(comparison: Comparison, intervals: Mapping[str, Interval]) -> None:
    """Print means with their intervals, and the paired tests."""
    drawn = draw(comparison.means, intervals)
    rows = [(name, f"{mean:.4f}", drawn[name]) for name, mean in comparison.means.items()]
    print_table(["run", comparison.metric, "mean and 95 % interval"], rows)
    pairs = [
        (
            f"{pair.second} − {pair.first}",
            f"{pair.difference:+.4f}",
            f"{pair.low:+.4f} … {pair.high:+.4f}",
            f"{pair.effect:+.2f}",
            f"{pair.better:.0%} / {pair.worse:.0%}",
            format_p(pair.t_holm),
            format_p(pair.wilcoxon_holm),
        )
        for pair in comparison.pairs
    ]
    columns = ["difference", "mean", "95 % interval", "effect d_z", "better / worse", "p (t)", "p (Wilcoxon)"]
    print_table(columns, pairs)
    left_out = f", {comparison.left_out:,} left out" if comparison.left_out else ""
    print(f"{comparison.users:,} users evaluated by all runs{left_out}; two-sided p-values with Holm's correction.")


def draw(means: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, str]:
    """A line for each run with its mean and interval, on a common scale.

    >>> from shortlist.metrics import Interval
    >>> lines = draw({"a": 0.1, "b": 0.3}, {"a": Interval(0.0, 0.2), "b": Interval(0.2, 0.4)})
    >>> lines["a"].strip(), lines["b"].index("├") >= lines["a"].index("┤")
    ('├───────────●───────────┤', True)
    """
    low, high = min(each.low for each in intervals.values()), max(each.high for each in intervals.values())
    scale = (WIDTH - 1) / (high - low) if high > low else 0.0

    def line(name: str) -> str:
        begin, end = intervals[name]
        first, mean, last = (round((at - low) * scale) for at in (begin, means[name], end))
        places = [" "] * first + ["─"] * (last - first + 1)
        places[first], places[last] = "├", "┤"
        places[min(max(mean, first), last)] = "●"
        return "".join(places).ljust(WIDTH)

    return {name: line(name) for name in means}
