"""`shortlist evaluate`: evaluate a saved run."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from shortlist.cli.output import AsJson, echo, print_json, print_table
from shortlist.cli.settings import Ks, parse_ks
from shortlist.formatting import format_interval
from shortlist.progress import progress_bar

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]


def evaluate(
    run: RunFolder,
    ks: Ks = None,
    pairwise: Annotated[bool, typer.Option("--pairwise", help="Also compute AUC, OPAUC and LLPAUC.")] = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a run over the full catalogue, with 95 % bootstrap intervals. Nothing is written.

    [bold]Examples[/bold]

    shortlist evaluate runs/ease

    shortlist evaluate runs/ease --ks 1,3,10 --pairwise --json
    """
    from shortlist.errors import InputError
    from shortlist.runs import evaluate_task, open_run

    lengths = parse_ks(ks)
    opened = open_run(run)
    opened.check_measurable(str(run))
    begin = perf_counter()
    with progress_bar("evaluating") as report:
        evaluations = evaluate_task(opened.model, opened.task, ks=lengths, pairwise=pairwise, progress=report)
    seconds = perf_counter() - begin
    test, valid = evaluations.test, evaluations.valid
    if test is None:
        raise InputError(f"{run}: expected a run with test items, received one without")
    means, intervals = evaluations.test_means(), test.intervals(seed=0)
    if as_json:
        print_json(
            {
                "run": str(run),
                "protocol": opened.protocol,
                "test": means,
                "valid": {} if valid is None else valid.means(),
                "intervals": {name: list(interval) for name, interval in intervals.items()},
                "users": len(test.queries_R),
                "skipped_users": test.n_skipped,
                "seconds": {"evaluate": round(seconds, 4)},
            }
        )
        return
    rows = [(name, f"{mean:.4f}", format_interval(intervals.get(name))) for name, mean in means.items()]
    print_table(["metric", "test", "95 % interval"], rows, title=f"{opened.config['model']['name']} ({run})")
    echo(f"{len(test.queries_R):,} users measured, {test.n_skipped:,} without test items; protocol {opened.protocol}")
