"""What a run reaches: at its K, and at every other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from shortlist.metrics import Interval, bootstrap, evaluate
from shortlist.report.charts import curves
from shortlist.report.page import Figure, Section, Table
from shortlist.report.run.context import RANKED, SHOWN, Subject, in_digits


@dataclass(frozen=True, eq=False)
class Validation:
    """What validation says: means, and intervals where its users could be evaluated again."""

    means: Mapping[str, float | None]
    intervals: Mapping[str, Interval]


def validation(subject: Subject) -> Validation:
    """The run kept means; intervals need the values of users, which are found again where that is quick."""
    means, valid = subject.run.metrics["valid"], subject.split.valid
    if not means or valid is None or np.count_nonzero(valid.user_counts()) * valid.n_items > RANKED:
        return Validation(means, {})
    again = evaluate(subject.run.model, valid, [subject.split.train], subject.ks)
    return Validation(means, bootstrap(again.per_user, subject.seed))


def results_section(subject: Subject, valid: Validation) -> Section:
    """Test and validation at the K that the run was made for."""
    title, k = f"What it reaches at K = {subject.k}", subject.k
    test, metrics = subject.run.metrics["test"], subject.run.metrics
    if not test and not valid.means:
        return Section(title, ["The run has neither validation nor test items: there was nothing to measure it on."])
    intervals = subject.intervals
    names = [f"{name}@{k}" for name in SHOWN if f"{name}@{k}" in (test or valid.means)]
    columns = ["metric", "test", "test, 95 % interval", "validation", "validation, 95 % interval"]
    rows = [
        [
            f"{SHOWN[name.split('@')[0]]}@{k}",
            in_digits(test.get(name)),
            _interval(intervals.get(name)),
            in_digits(valid.means.get(name)),
            _interval(valid.intervals.get(name)),
        ]
        for name in names
    ]
    skipped = metrics.get("skipped_users", 0)
    left_out = f"; {skipped:,} without test items are left out" if skipped else ""
    texts = [
        f"Means over {metrics['users']:,} users{left_out}, ranked over the whole catalogue without what a user is "
        "known to have. Intervals are found by drawing the users again, with replacement, a thousand times."
    ]
    if valid.means and not valid.intervals:
        texts.append("Validation has no intervals here: the catalogue is too large to evaluate all its users again.")
    if not test:
        texts = ["The run has no test items; these are the figures of validation.", *texts[1:]]
    return Section(title, texts, [Table(columns, rows, numbers=columns[1:])])


def lengths_section(subject: Subject, valid: Validation) -> Section:
    """NDCG and recall against K."""
    title, test = "Against the length of the list", subject.run.metrics["test"]
    if not test:
        return Section(title, ["The run has no test items, of which curves against K are drawn."])
    intervals = subject.intervals
    figures = []
    for metric in ("ndcg", "recall"):
        points = []
        for name, means, known in (("test", test, intervals), ("validation", valid.means, valid.intervals)):
            for k in subject.ks:
                mean, interval = means.get(f"{metric}@{k}"), known.get(f"{metric}@{k}")
                if mean is not None:
                    low, high = interval or (mean, mean)
                    points.append({"name": name, "k": k, "mean": mean, "low": low, "high": high})
        label = f"{SHOWN[metric]}@K"
        if len(subject.ks) < 2 or not points:
            continue
        first, last = points[0], points[len(subject.ks) - 1]
        figures.append(
            Figure(
                f"{label} against K",
                curves(pl.DataFrame(points), title=label),
                _CURVES[metric],
                f"On test, {label} goes from {first['mean']:.4f} at K = {first['k']} to {last['mean']:.4f} at "
                f"K = {last['k']}.",
                Table(
                    ["", "K", label, "95 % interval"],
                    [
                        [str(row["name"]), str(row["k"]), f"{row['mean']:.4f}", f"{row['low']:.4f} – {row['high']:.4f}"]
                        for row in points
                    ],
                    numbers=["K", label, "95 % interval"],
                ),
            )
        )
    texts = [] if figures else ["Only one K was measured: there is no curve to draw."]
    return Section(title, texts, figures=figures)


_CURVES = {
    "ndcg": "How good lists of K places are, the first places counting most. Bands are 95 % intervals. A good run is "
    "high at the K that people are shown; test and validation hold different items and need not meet.",
    "recall": "The share of the held-out items that stand among the first K. It can only rise with K; a curve that is "
    "high early puts them at the top.",
}


def every_section(subject: Subject, valid: Validation) -> Section:
    """Every metric at every K, to sort and to filter."""
    title, test, intervals = "Every metric at every K", subject.run.metrics["test"], subject.intervals
    if not test and not valid.means:
        return Section(title, ["The run has neither validation nor test items: there was nothing to measure it on."])
    columns = ["metric", "K", "test", "test interval", "validation", "validation interval"]
    rows = [
        [
            name.split("@")[0],
            name.partition("@")[2],
            in_digits(test.get(name)),
            _interval(intervals.get(name)),
            in_digits(valid.means.get(name)),
            _interval(valid.intervals.get(name)),
        ]
        for name in (test or valid.means)
    ]
    return Section(title, tables=[Table(columns, rows, numbers=columns[1:], live=True)])


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:.4f} – {interval.high:.4f}"
