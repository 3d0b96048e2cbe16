"""`shortlist compare`: is one run better than another?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli.output import AsJson, print_json, print_table, step
from shortlist.errors import InputError

if TYPE_CHECKING:
    from shortlist.metrics import Comparison, Interval
    from shortlist.runs import Run

WIDTH = 48
"""Places of the picture that is drawn in the terminal."""


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN…", help="The folders of two or more runs.")],
    metric: Annotated[str, typer.Option("--metric", help="What to compare by.")] = "ndcg@20",
    out: Annotated[Path | None, typer.Option("--out", metavar="PAGE.html", help="Write a page with pictures.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs user by user: paired t and Wilcoxon tests with Holm's correction, effect sizes, intervals.

    Runs have to be measured on the same test part by the same protocol. Where a table is split at random that needs the
    same --seed, too.

    [bold]Examples[/bold]

    shortlist compare runs/ease runs/knn

    shortlist compare runs/ease runs/knn runs/ials --metric recall@10 --out compare.html
    """
    from shortlist.cli.files import check_out, write_whole
    from shortlist.metrics import bootstrap
    from shortlist.metrics import compare as paired
    from shortlist.runs import open_run

    if len(runs) < 2:
        raise InputError(f"compare: expected two or more runs, received {len(runs)}")
    if out is not None:
        check_out(out, [".html"])
    opened = _named([open_run(folder) for folder in runs])
    _check_same_test(opened)
    comparison = paired({name: run.per_user for name, run in opened.items()}, metric)
    intervals = {
        name: bootstrap({metric: run.per_user[metric].to_numpy()}, seed=0)[metric] for name, run in opened.items()
    }
    if out is not None:
        from shortlist.report import render
        from shortlist.report.comparison import comparison_page

        with step("drawing"):
            models = {name: str(run.config["model"]["name"]) for name, run in opened.items()}
            write_whole(out, render(comparison_page(comparison, intervals, models)).encode())
    if as_json:
        print_json({**asdict(comparison), "intervals": {name: list(each) for name, each in intervals.items()}})
    else:
        _show(comparison, intervals)
        if out is not None:
            print(f"Page: {out}")


def _named(runs: list[Run]) -> dict[str, Run]:
    """Runs by the names of their folders, or by their paths where names are not enough."""
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run.folder) for run in runs]
    if len(set(names)) < len(names):
        raise InputError("compare: expected different runs, received the same one twice")
    return dict(zip(names, runs, strict=True))


def _check_same_test(runs: Mapping[str, Run]) -> None:
    """Users of one id in runs that were asked for different items, or by different rules, are not the same."""
    (first, one), *others = runs.items()
    asked = one.test_pairs()
    for name, other in others:
        if not other.test_pairs().equals(asked):
            told, known = other.config.get("data", {}), one.config.get("data", {})
            keys = [key for key in {**known, **told} if known.get(key) != told.get(key)]
            why = ", ".join(f"data.{key} {known.get(key)!r} and {told.get(key)!r}" for key in keys)
            received = f"different ones in {first} and {name} ({why or 'the table has changed'})"
            raise InputError(f"compare: expected runs with the same test items, received {received}")
        if other.protocol != one.protocol:
            received = f"{one.protocol!r} in {first} and {other.protocol!r} in {name}"
            raise InputError(f"compare: expected runs of one protocol, received {received}")


def _show(comparison: Comparison, intervals: dict[str, Interval]) -> None:
    from shortlist.metrics import format_p

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
    print(f"{comparison.users:,} users that all runs measured{left_out}; p-values are two-sided, corrected by Holm.")


def draw(means: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, str]:
    """A line for each run, on one scale: where its mean lies within its interval.

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
