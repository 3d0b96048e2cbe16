"""`shortlist train`: from a table to a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shortlist.cli.load_flags import load_options, with_load_flags
from shortlist.cli.output import AsJson, print_json, print_table, step
from shortlist.cli.settings import Data, K, Ks, Log, Loss, Model, Preset, Set, asked, parse_ks
from shortlist.errors import InputError

if TYPE_CHECKING:
    from shortlist.experiment import Callbacks, ExperimentConfig
    from shortlist.runs import Run
    from shortlist.training import Progress


@with_load_flags
def train(
    data: Data,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run.")],
    flags: dict[str, str],
    model: Model = None,
    loss: Loss = None,
    k: K = None,
    preset: Preset = None,
    settings: Set = None,
    ks: Ks = None,
    log: Log = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier try stopped, or begin.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run.")] = False,
    tune: Annotated[
        str | None, typer.Option("--tune", metavar="TIME", help="Look for good settings first: 90s, 2m or 1h in all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train or fit a model, measure it over the whole catalogue, and write a run folder.

    [bold]Examples[/bold]

    shortlist train clicks.csv --model mf --loss slatk --k 20 --out runs/slatk

    shortlist train ratings.csv --min-rating 4 --core 5 --model item_knn --set model.neighbours=50 --out runs/knn

    shortlist train debian --loss sl --set loss.tau=0.1 --set training.epochs=40 --seed 1 --out runs/sl --json

    shortlist train clicks.csv --loss slatk --k 20 --out runs/slatk --resume

    shortlist train clicks.csv --loss sl --out runs/sl --log tensorboard=boards --log mlflow=http://localhost:5000

    shortlist train clicks.csv --loss slatk --k 20 --tune 2m --out runs/tuned
    """
    from shortlist.data import load
    from shortlist.experiment import fit, plan
    from shortlist.runs import check_target, default_ks
    from shortlist.tracking import tracker

    options, what = load_options(flags), asked(model, loss, k, preset, settings)
    chosen = plan(*what)
    lengths, sinks = parse_ks(ks), [tracker(text) for text in log or []]
    if tune is not None:
        from shortlist.cli.tune.command import limits, seconds_of, tune_first
        from shortlist.cli.tune.execute import Job

        if sinks:
            raise InputError("train --tune: expected no --log, which tells of one training, received it")
        job = Job(data, out.with_name(f"{out.name}.study"), *what, flags, *limits(seconds_of(tune)))
        tune_first(job, out, lengths, resume=resume, overwrite=overwrite, as_json=as_json)
        return
    check_target(out, overwrite=overwrite, resume=resume)
    started = perf_counter()
    with step(f"reading {data}"):
        split = load(data, options)
    for each in sinks:
        each.check()
    with watching(chosen) as watch:
        outcome = fit(
            chosen,
            split,
            out,
            config={"data": {"source": data, **options.settings()}, "protocol": options.protocol, "seed": options.seed},
            ks=lengths if k is None else [k, *(lengths or default_ks(split.train.n_items))],
            resume=resume,
            overwrite=overwrite,
            seconds={"load": perf_counter() - started},
            watch=watch,
            sinks=sinks,
        )
    tell(outcome.run, as_json)


@contextmanager
def watching(chosen: ExperimentConfig) -> Iterator[Callbacks]:
    """Bars on stderr for each stage that takes longer than a moment; that of training tells how well it goes."""
    from shortlist.experiment import Callbacks

    report: list[Any] = [lambda done, total, label="": None]

    @contextmanager
    def stage(label: str) -> Iterator[None]:
        with step(label) as report[0]:
            yield

    def epoch(progress: Progress, share: float) -> None:
        report[0](progress.epoch + share, chosen.training.epochs, _standing(progress, chosen))

    yield Callbacks(stage=stage, epoch=epoch, evaluation=lambda done, total: report[0](done, total))


def _standing(progress: Progress, chosen: ExperimentConfig) -> str:
    """Epoch, loss, validation and its best, in a line."""
    parts = [f"epoch {progress.epoch}/{chosen.training.epochs}"]
    if progress.epoch:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.value is not None:
        name, k = chosen.decides()
        parts.append(f"{name}@{k} {progress.value:.4f} (best {progress.best_value:.4f} at {progress.best_epoch})")
    return "  ".join(parts)


def tell(run: Run, as_json: bool) -> None:
    """What a run was measured to do."""
    if as_json:
        print_json({"run": str(run.folder), **run.metrics})
        return
    test, valid = run.metrics["test"], run.metrics["valid"]
    ks = sorted({int(name.split("@")[1]) for name in test or valid})
    names = [f"{metric}@{k}" for k in ks if k in {run.config.get("k"), 20, *ks[:1]} for metric in ("ndcg", "recall")]
    rows = [(name, _figure(test.get(name)), _figure(valid.get(name))) for name in names]
    name = " with ".join(run.config[part]["name"] for part in ("model", "loss") if part in run.config)
    print_table(["metric", "test", "validation"], rows, title=f"{name} on {run.config['data']['source']}")
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in run.metrics["seconds"].items())
    print(f"{run.metrics['users']:,} users measured ({run.metrics['skipped_users']:,} without test items); {seconds}")
    if "temperature_search" in run.metrics["seconds"]:
        print(f"loss.tau {run.config['loss']['tau']:g} was found by short trials on validation (pilot)")
    print(f"Run: {run.folder}   Next: shortlist recommend {run.folder} --user ID")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
