"""`shortlist compare`: significance tests between runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli.compare.summary import print_comparison
from shortlist.cli.output import AsJson, echo, print_json
from shortlist.errors import InputError
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    from shortlist.runs import Run


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN…", help="Two or more run folders.")],
    metric: Annotated[str, typer.Option("--metric", help="Metric to compare.")] = "ndcg@20",
    out: Annotated[Path | None, typer.Option("--out", metavar="PAGE.html", help="Write a report with charts.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs user by user: paired t and Wilcoxon tests with Holm's correction, effect sizes, intervals.

    The runs must have the same test items and protocol. A random split must have the same --seed, too.

    [bold]Examples[/bold]

    shortlist compare runs/ease runs/knn

    shortlist compare runs/ease runs/knn runs/ials --metric recall@10 --out compare.html
    """
    from shortlist.cli.files import check_out, write_file
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

        with progress_bar("writing the report"):
            models = {name: str(run.config["model"]["name"]) for name, run in opened.items()}
            write_file(out, render(comparison_page(comparison, intervals, models)).encode())
    if as_json:
        print_json({**asdict(comparison), "intervals": {name: list(each) for name, each in intervals.items()}})
    else:
        print_comparison(comparison, intervals)
        if out is not None:
            echo(f"Page: {out}")


def _named(runs: list[Run]) -> dict[str, Run]:
    """Runs by the names of their folders, or by their paths if the names are not unique."""
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run.folder) for run in runs]
    if len(set(names)) < len(names):
        raise InputError("compare: expected different runs, received the same one twice")
    return dict(zip(names, runs, strict=True))


def _check_same_test(runs: Mapping[str, Run]) -> None:
    """Check that all runs have the same test items and protocol; otherwise their users cannot be paired."""
    (first, one), *others = runs.items()
    test_pairs = one.test_pairs()
    for name, other in others:
        if not other.test_pairs().equals(test_pairs):
            theirs, known = other.config.get("data", {}), one.config.get("data", {})
            keys = [key for key in {**known, **theirs} if known.get(key) != theirs.get(key)]
            why = ", ".join(f"data.{key} {known.get(key)!r} and {theirs.get(key)!r}" for key in keys)
            received = f"different ones in {first} and {name} ({why or 'the table has changed'})"
            raise InputError(f"compare: expected runs with the same test items, received {received}")
        if other.protocol != one.protocol:
            received = f"{one.protocol!r} in {first} and {other.protocol!r} in {name}"
            raise InputError(f"compare: expected runs of one protocol, received {received}")
