"""`shortlist evaluate`: measure a run again."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from shortlist.cli.output import AsJson, print_json, print_table, step
from shortlist.cli.settings import Ks, parse_ks

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def evaluate(
    run: RunFolder,
    ks: Ks = None,
    pairwise: Annotated[bool, typer.Option("--pairwise", help="Also AUC, OPAUC and LLPAUC.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a run over the whole catalogue, with 95 % bootstrap intervals. Nothing is written.

    [bold]Examples[/bold]

    shortlist evaluate runs/ease

    shortlist evaluate runs/ease --ks 1,3,10 --pairwise --json
    """
    from shortlist.errors import InputError
    from shortlist.runs import evaluate_split, open_run

    lengths = parse_ks(ks)
    opened = open_run(run)
    begin = perf_counter()
    with step("evaluating") as report:
        split, protocol = opened.split, opened.protocol
        evaluations = evaluate_split(
            opened.model, split, protocol=protocol, ks=lengths, pairwise=pairwise, progress=report
        )
    seconds = perf_counter() - begin
    test, valid = evaluations.test, evaluations.valid
    if test is None:
        raise InputError(f"{run}: expected a run with test items, received one without")
    means, intervals = evaluations.test_means(), test.intervals(seed=0)
    if as_json:
        print_json(
            {
                "run": str(run),
                "protocol": protocol,
                "test": means,
                "valid": {} if valid is None else valid.means(),
                "intervals": {name: list(interval) for name, interval in intervals.items()},
                "users": len(test.users_R),
                "skipped_users": test.skipped_users,
                "seconds": {"evaluate": round(seconds, 4)},
            }
        )
        return
    rows = [
        (name, f"{mean:.4f}", "{:.4f} – {:.4f}".format(*intervals[name]) if name in intervals else "")
        for name, mean in means.items()
    ]
    print_table(["metric", "test", "95 % interval"], rows, title=f"{opened.config['model']['name']} ({run})")
    print(f"{len(test.users_R):,} users measured, {test.skipped_users:,} without test items; protocol {protocol}")
