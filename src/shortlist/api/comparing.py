"""Paired comparisons of recommenders over their common users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from shortlist.api.html import html_table
from shortlist.api.recommender import Recommender
from shortlist.errors import InputError
from shortlist.formatting import format_p
from shortlist.metrics import Comparison
from shortlist.metrics import compare as paired


@dataclass(frozen=True)
class ComparisonTable:
    """Means of recommenders on one metric, and paired tests of all pairs with Holm's correction."""

    comparison: Comparison

    @property
    def means(self) -> Mapping[str, float]:
        """The mean of each recommender."""
        return self.comparison.means

    def to_frame(self) -> pl.DataFrame:
        """One row per pair: difference, interval, effect size and corrected p-values."""
        return self.comparison.to_frame()

    def __repr__(self) -> str:
        lines = [f"{name}: {self.comparison.metric} {mean:.4f}" for name, mean in self.means.items()]
        lines += [
            f"{pair.second} − {pair.first}: {pair.difference:+.4f} ({pair.low:+.4f} … {pair.high:+.4f}), "
            f"p {format_p(pair.t_holm)} (t), {format_p(pair.wilcoxon_holm)} (Wilcoxon)"
            for pair in self.comparison.pairs
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (
                f"{pair.second} − {pair.first}",
                f"{pair.difference:+.4f}",
                f"{pair.low:+.4f} … {pair.high:+.4f}",
                format_p(pair.t_holm),
                format_p(pair.wilcoxon_holm),
            )
            for pair in self.comparison.pairs
        ]
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
        columns = ["difference", self.comparison.metric, "95 % interval", "p (t)", "p (Wilcoxon)"]
        return html_table(columns, rows, f"{means}; {self.comparison.users:,} users")


def compare(*recommenders: Recommender, metric: str = "ndcg@20") -> ComparisonTable:
    """Compare two or more recommenders user by user on the same test part.

    Paired t and Wilcoxon tests, corrected by Holm's method. Different test parts or protocols are an error.
    """
    if len(recommenders) < 2:
        raise InputError(f"compare: expected two or more recommenders, received {len(recommenders)}")
    first, *others = recommenders
    for other in others:
        difference = first.task.difference_at_test(other.task)
        if difference is not None:
            raise InputError(f"compare: expected the same test part, received {difference} in {other.name}")
    frames: dict[str, pl.DataFrame] = {}
    for recommender in recommenders:
        name, number = recommender.name, 2
        while name in frames:
            name, number = f"{recommender.name} ({number})", number + 1
        frames[name] = recommender.fitted.per_user.rename({recommender.task.query_ids.name: "user_id"})
    return ComparisonTable(paired(frames, metric))
