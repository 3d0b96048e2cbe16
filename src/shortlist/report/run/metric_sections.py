"""Metrics of a run at its K and at others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from shortlist.formatting import MISSING, format_interval, format_number
from shortlist.metrics import Interval, bootstrap, evaluate
from shortlist.report.charts import curves
from shortlist.report.page import Figure, Section, Table
from shortlist.report.run.context import RANKED, SHOWN, Subject


@dataclass(frozen=True, eq=False)
class Validation:
    """Validation means, with intervals if its users could be evaluated again."""

    means: Mapping[str, float | None]
    intervals: Mapping[str, Interval]


def validation(subject: Subject) -> Validation:
    """Means of the run; for intervals the users are evaluated again if that is fast."""
    means, valid = subject.run.metrics["valid"], subject.split.valid
    if not means or valid is None or np.count_nonzero(valid.user_counts()) * valid.n_items > RANKED:
        return Validation(means, {})
    again = evaluate(subject.run.model, valid, [subject.split.train], subject.ks)
    return Validation(means, bootstrap(again.per_query, subject.seed))


def results_section(subject: Subject, valid: Validation) -> Section:
    """Test and validation metrics at the K of the run."""
    title, k = f"Metrics at K = {subject.k}", subject.k
    test, metrics = subject.run.metrics["test"], subject.run.metrics
    if not test and not valid.means:
        return Section(title, ["The run has neither validation nor test items."])
    intervals = subject.intervals
    names = [f"{name}@{k}" for name in SHOWN if f"{name}@{k}" in (test or valid.means)]
    columns = ["metric", "test", "test, 95 % interval", "validation", "validation, 95 % interval"]
    rows = [
        [
            f"{SHOWN[name.split('@')[0]]}@{k}",
            format_number(test.get(name), missing=MISSING),
            format_interval(intervals.get(name)),
            format_number(valid.means.get(name), missing=MISSING),
            format_interval(valid.intervals.get(name)),
        ]
        for name in names
    ]
    skipped = metrics.get("skipped_users", 0)
    left_out = f"; {skipped:,} without test items are excluded" if skipped else ""
    texts = [
        f"Means over {metrics['users']:,} users{left_out}, ranked over the full catalogue without the known items of a "
        "user. Intervals are bootstrap intervals over users, with 1000 resamples."
    ]
    if valid.means and not valid.intervals:
        texts.append("Validation has no intervals here: the catalogue is too large to evaluate all its users again.")
    if not test:
        texts = ["The run has no test items; these are validation metrics.", *texts[1:]]
    return Section(title, texts, [Table(columns, rows, numbers=columns[1:])])


def lengths_section(subject: Subject, valid: Validation) -> Section:
    """NDCG and recall against K."""
    title, test = "Metrics against K", subject.run.metrics["test"]
    if not test:
        return Section(title, ["The run has no test items."])
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
                        [
                            str(row["name"]),
                            str(row["k"]),
                            f"{row['mean']:.4f}",
                            format_interval((float(row["low"]), float(row["high"]))),
                        ]
                        for row in points
                    ],
                    numbers=["K", label, "95 % interval"],
                ),
            )
        )
    texts = [] if figures else ["Only one K was evaluated."]
    return Section(title, texts, figures=figures)


_CURVES = {
    "ndcg": "Quality of lists of K places, with most weight on the first. Bands are 95 % intervals. A good run is "
    "high at the K that is shown to users; test and validation have different items and need not agree.",
    "recall": "The fraction of held-out items among the first K. It can only rise with K; a curve that is high early "
    "has them at the top.",
}


def every_section(subject: Subject, valid: Validation) -> Section:
    """Every metric at every K, to sort and to filter."""
    title, test, intervals = "Every metric at every K", subject.run.metrics["test"], subject.intervals
    if not test and not valid.means:
        return Section(title, ["The run has neither validation nor test items."])
    columns = ["metric", "K", "test", "test interval", "validation", "validation interval"]
    rows = [
        [
            name.split("@")[0],
            name.partition("@")[2],
            format_number(test.get(name), missing=MISSING),
            format_interval(intervals.get(name)),
            format_number(valid.means.get(name), missing=MISSING),
            format_interval(valid.intervals.get(name)),
        ]
        for name in (test or valid.means)
    ]
    return Section(title, tables=[Table(columns, rows, numbers=columns[1:], live=True)])
