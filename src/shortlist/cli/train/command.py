"""`shortlist train`: train a model and write its run folder."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from shortlist.cli.load_flags import load_options, print_notes, with_load_flags
from shortlist.cli.output import AsJson, echo
from shortlist.cli.settings import Data, K, Ks, Log, Loss, Model, Preset, Set, parse_ks, parse_request
from shortlist.cli.train.summary import print_run
from shortlist.errors import InputError
from shortlist.progress import progress_bar


@with_load_flags
def train(
    data: Data,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Run folder.")],
    flags: dict[str, str],
    model: Model = None,
    loss: Loss = None,
    k: K = None,
    preset: Preset = None,
    settings: Set = None,
    ks: Ks = None,
    log: Log = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run, or start one.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")] = False,
    tune: Annotated[
        str | None, typer.Option("--tune", metavar="TIME", help="Tune the settings first, for 90s, 2m or 1h in total.")
    ] = None,
    final: Annotated[
        bool,
        typer.Option("--final", help="After measuring, refit the model on all data: train, validation and test."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model, evaluate it over the full catalogue, and write a run folder.

    [bold]Examples[/bold]

    shortlist train clicks.csv --model mf --loss slatk --k 20 --out runs/slatk

    shortlist train ratings.csv --min-rating 4 --core 5 --model item_knn --set model.neighbours=50 --out runs/knn

    shortlist train debian --loss sl --set loss.tau=0.1 --set training.epochs=40 --seed 1 --out runs/sl --json

    shortlist train clicks.csv --loss slatk --k 20 --out runs/slatk --resume

    shortlist train clicks.csv --loss sl --out runs/sl --log tensorboard=boards --log mlflow=http://localhost:5000

    shortlist train clicks.csv --loss slatk --k 20 --tune 2m --out runs/tuned

    shortlist train clicks.csv --model mf --k 10 --final --out runs/live
    """
    from shortlist.data import load
    from shortlist.experiment import fit, plan, progress_callbacks
    from shortlist.runs import check_target, default_ks
    from shortlist.tracking import parse_tracker

    options, request = load_options(flags), parse_request(model, loss, k, preset, settings)
    chosen = plan(*request)
    lengths, trackers = parse_ks(ks), [parse_tracker(text) for text in log or []]
    if tune is not None:
        from shortlist.cli.tune.command import limits, parse_duration, tune_first
        from shortlist.cli.tune.execute import Job

        if trackers:
            raise InputError("--log cannot be combined with --tune")
        job = Job(data, out.with_name(f"{out.name}.study"), *request, flags, *limits(parse_duration(tune)))
        tune_first(job, out, lengths, resume=resume, overwrite=overwrite, as_json=as_json, final=final)
        return
    check_target(out, overwrite=overwrite, resume=resume, inputs=[data])
    started = perf_counter()
    with progress_bar(f"reading {data}"):
        split = load(data, options)
    print_notes(split)
    for each in trackers:
        each.check()
    weights = split.train.weights
    if weights is not None and chosen.model.is_trained and chosen.training.use_weights:
        echo(
            f"shortlist: positives count by their weights, {weights.min():g} to {weights.max():g} "
            "(--set training.use_weights=false: all count the same)",
            err=True,
        )
    with progress_callbacks(chosen) as callbacks:
        outcome = fit(
            chosen,
            split,
            out,
            config={"data": {**split.origin, "source": data}, "protocol": options.protocol, "seed": options.seed},
            ks=lengths if k is None else [k, *(lengths or default_ks(split.train.n_items))],
            resume=resume,
            overwrite=overwrite,
            seconds={"load": perf_counter() - started},
            callbacks=callbacks,
            trackers=trackers,
            final=final,
        )
    print_run(outcome.run, as_json=as_json)
