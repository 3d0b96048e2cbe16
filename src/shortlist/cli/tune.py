"""`shortlist tune`: settings found by trials on validation, and the best of them as a run."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shortlist.cli.load_flags import load_options, with_load_flags
from shortlist.cli.output import AsJson, print_json, step
from shortlist.cli.settings import Ks, Set, parse_ks, parse_settings
from shortlist.cli.tune_live import live, nobody, say
from shortlist.errors import InputError, Interrupted, ShortlistError

if TYPE_CHECKING:
    from multiprocessing import SimpleQueue

    from shortlist.data import Split
    from shortlist.runs import Run
    from shortlist.tuning import Space, Study

MINUTES = 5.0
"""How long is tuned where neither a time nor a number of trials is given."""

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
PAUSE = 0.2


@dataclass(frozen=True)
class Job:
    """What is tuned, for how long, and where: all that another process needs to help."""

    data: str
    folder: Path
    model: str
    loss: str | None
    k: int
    values: Mapping[str, Mapping[str, Any]]
    texts: Mapping[str, Mapping[str, str]]
    flags: dict[str, str]
    until: float = math.inf
    trials: int | None = None
    jobs: int = 1
    began: float = field(default_factory=time.monotonic)

    def space(self) -> Space:
        """Where settings are looked for."""
        from shortlist.tuning import space_of

        return space_of(self.model, self.loss, self.k, self.values, self.texts)


@with_load_flags
def tune(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A folder, table, archive or registered name.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the study; the best run is DIR/best.")],
    flags: dict[str, str],
    model: Annotated[str | None, typer.Option("--model", help="Which model; `shortlist models` lists them.")] = None,
    loss: Annotated[str | None, typer.Option("--loss", help="Which loss; `shortlist losses` lists them.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Length of the list that is shown; 20 unless given.")] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="M", help="Time for all of it; 5 unless --trials is given.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", metavar="N", min=1, help="How many trials the study has at most.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many processes share the work.")] = 1,
    preset: Annotated[str | None, typer.Option("--preset", help="Settings to begin with, under one name.")] = None,
    settings: Set = None,
    ks: Ks = None,
    as_json: AsJson = False,
) -> None:
    """Find good settings within a time, and write the best run.

    The first trial is what `train` does by itself, so that nothing worse comes of it. Trials are judged on validation
    and given up early when others were better by then; test is looked at once, for the best. What is given with
    --set is fixed. Stop it at any moment and start it again with the same DIR: it goes on.

    [bold]Examples[/bold]

    shortlist tune clicks.csv --model mf --loss slatk --k 20 --minutes 5 --out tuned

    shortlist tune clicks.csv --model ease --trials 20 --out tuned-ease

    shortlist tune debian --loss sl --set model.dim=128 --minutes 10 --jobs 2 --out tuned-sl
    """
    from shortlist.runs import SECTIONS
    from shortlist.runs import preset as preset_of

    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(f"--minutes: expected a number above 0, received {minutes:g}")
    start = None if preset is None else preset_of(preset)
    model_name = model or (start.model if start else "mf")
    loss_name = loss or (start.loss if start and model_name == start.model else None)
    job = Job(
        data,
        out,
        model_name,
        loss_name,
        k if k is not None else start.k if start else 20,
        start.settings_for(model_name, loss_name) if start else {},
        parse_settings(settings, SECTIONS),
        flags,
        *limits(None if minutes is None and trials is not None else 60 * (minutes or MINUTES), trials),
        jobs=jobs,
    )
    lengths = parse_ks(ks)
    check_folder(out)
    run, study = tuned(job, out / "best", lengths, overwrite=True, again="the same command goes on")
    write_trials(study)
    tell(job, run, study, draw(study, run), as_json)


def tune_first(job: Job, out: Path, ks: Sequence[int] | None, *, resume: bool, overwrite: bool, as_json: bool) -> None:
    """`shortlist train --tune`: a run as any other, with its study in a folder beside it."""
    from shortlist.runs import check_target
    from shortlist.tuning import STUDY

    check_target(out, overwrite=overwrite)
    check_folder(job.folder)
    is_there = (job.folder / STUDY).is_file()
    if resume and not is_there:
        raise InputError(f"{job.folder}: expected a study to go on with, received nothing")
    if is_there and not (resume or overwrite):
        raise InputError(f"{job.folder}: expected no study, received one (--resume goes on, --overwrite begins anew)")
    if is_there and not resume:
        shutil.rmtree(job.folder)
    run, study = tuned(job, out, ks, overwrite=overwrite, again="resume to go on")
    write_trials(study)
    tell(job, run, study, draw(study, run), as_json)


def seconds_of(text: str) -> float:
    """A duration as people write it.

    >>> seconds_of("2m"), seconds_of("90s"), seconds_of("0.5h")
    (120.0, 90.0, 1800.0)
    """
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * UNITS[unit]
    except (ValueError, KeyError):
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise InputError(f"--tune: expected a time such as 90s, 2m or 1h, received {text!r}")
    return seconds


def limits(seconds: float | None, trials: int | None = None) -> tuple[float, int | None]:
    """When the last trial is to end, a little being kept for what comes after, and how many there are at most."""
    from shortlist.tuning import KEPT_BACK

    return math.inf if seconds is None else time.monotonic() + (1 - KEPT_BACK) * seconds, trials


def check_folder(out: Path) -> None:
    """A folder of other things is not filled with a study."""
    from shortlist.runs.folder import writing
    from shortlist.tuning import LOCKS

    with writing(out):
        if out.exists() and not out.is_dir():
            raise InputError(f"{out}: expected a folder for a study, received a file")
        if out.is_dir() and any(out.iterdir()) and not (out / LOCKS).is_dir():
            raise InputError(f"{out}: expected a new folder, or one that tune has made, received one with other files")


def tuned(job: Job, out: Path, ks: Sequence[int] | None, *, overwrite: bool, again: str) -> tuple[Run, Study]:
    """Tune, and write the best run; ``again`` is what to do if it is stopped."""
    from shortlist.cli.train import watching
    from shortlist.data import load
    from shortlist.runs import default_ks
    from shortlist.tuning import finish, prepare
    from shortlist.tuning.study import optuna

    optuna()  # without it there is no need to read anything
    space, options, started = job.space(), load_options(job.flags), time.perf_counter()
    with step(f"reading {job.data}"):
        split = load(job.data, options)
    seconds = {"load": time.perf_counter() - started}
    with watching(space.plan({})) as watch:
        study = prepare(job.folder, space, split, protocol=options.protocol, seed=options.seed, watch=watch)
        try:
            with live(study, job.until) as speak:
                _compute(job, study, split, speak)
        except KeyboardInterrupt:
            done = sum(each.state in ("done", "pruned", "failed") for each in study.trials())
            raise Interrupted(f"stopped after {done} trials; {again}") from None
        source = {"data": {"source": job.data, **options.settings()}}
        outcome = finish(
            study,
            split,
            out,
            config={**source, "protocol": options.protocol, "seed": options.seed},
            ks=[job.k, *(ks or default_ks(split.train.n_items))],
            seconds=seconds,
            overwrite=overwrite,
            watch=watch,
        )
    return outcome.run, study


def _compute(job: Job, study: Study, split: Split, speak: bool) -> None:
    """Trials, here or in several processes."""
    from shortlist.tuning import work

    if job.jobs == 1:
        work(study, split, until=job.until, most=job.trials, told=say if speak else nobody)
        return
    from multiprocessing import get_context

    context = get_context("spawn")
    problems = context.SimpleQueue()
    helpers = [context.Process(target=_help, args=(job, speak, os.getpid(), problems)) for _ in range(job.jobs)]
    try:
        for helper in helpers:
            helper.start()
        while any(helper.is_alive() for helper in helpers):
            time.sleep(PAUSE)
            if any(helper.exitcode for helper in helpers):  # what one cannot do the others cannot either
                break
    finally:
        for helper in helpers:
            helper.terminate()
        for helper in helpers:
            helper.join()
    if not problems.empty():
        raise problems.get()
    failed = [helper.exitcode for helper in helpers if helper.exitcode not in (0, -signal.SIGTERM)]
    if failed:
        raise ShortlistError(f"tune: a process ended with {failed[0]}; the same command goes on")


def _help(job: Job, speak: bool, parent: int, problems: SimpleQueue[ShortlistError]) -> None:
    """What one of several processes does, for as long as the first one lives."""
    import torch

    from shortlist.data import load
    from shortlist.tuning import OutOfTime, prepare, work

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first one hears it, and ends this one
    torch.set_num_threads(max(1, torch.get_num_threads() // job.jobs))

    def check() -> None:
        if os.getppid() != parent:
            raise OutOfTime

    try:
        options = load_options(job.flags)
        split = load(job.data, options)
        study = prepare(job.folder, job.space(), split, protocol=options.protocol, seed=options.seed)
        told = say if speak else nobody
        work(study, split, until=job.until, most=job.trials, told=told, check=check)
    except ShortlistError as problem:
        problems.put(problem)
        sys.exit(1)


def write_trials(study: Study) -> Path:
    """A table of the trials, a column a setting."""
    import polars as pl

    from shortlist.cli.files import write_table

    trials = study.trials()
    names = list(dict.fromkeys(name for each in trials for name in each.settings))
    columns: dict[str, Any] = {
        "trial": [each.number for each in trials],
        "state": [each.state for each in trials],
        "validation": [each.value for each in trials],
        "seconds": [each.seconds for each in trials],
        "epochs": [each.epochs for each in trials],
        **{name: [_text(each.settings[name]) if name in each.settings else None for each in trials] for name in names},
        "start": [each.start for each in trials],
        "why": [each.why for each in trials],
    }
    path = study.folder / "trials.csv"
    write_table(pl.DataFrame(columns, strict=False), path)
    return path


def draw(study: Study, run: Run) -> Path | None:
    """The page. Where it cannot be drawn, the run stands all the same."""
    from shortlist.cli.files import write_whole
    from shortlist.report import render

    path = study.folder / "report.html"
    try:
        from shortlist.report.tuning import tuning_page

        with step("drawing"):
            write_whole(path, render(tuning_page(study, run)).encode())
    except ShortlistError as problem:
        print(f"shortlist: no page: {problem}", file=sys.stderr)
        return None
    return path


def command(job: Job, settings: Mapping[str, Any]) -> str:
    """What to type to train the best run again: the same, to the last bit."""
    fixed = {
        f"{section}.{key}": value
        for source in (job.values, job.texts)
        for section, given in source.items()
        for key, value in given.items()
    }
    words = ["shortlist", "train", job.data, "--model", job.model]
    words += ["--loss", job.loss or "slatk"] if job.space().plan({}).loss is not None else []
    words += ["--k", str(job.k)]
    words += [word for name, text in job.flags.items() for word in (f"--{name.replace('_', '-')}", text)]
    words += [word for name, value in {**fixed, **settings}.items() for word in ("--set", f"{name}={_text(value)}")]
    return shlex.join([*words, "--out", "DIR"])


def _text(value: Any) -> str:
    """A value as --set takes it."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def tell(job: Job, run: Run, study: Study, page: Path | None, as_json: bool) -> None:
    """What was found."""
    from shortlist.cli.train import tell as tell_run

    facts, best = run.config["tuned"], study.best()
    assert best is not None
    again = command(job, best.settings)
    if as_json:
        found = {"trial": best.number, "validation": best.value, "settings": dict(best.settings)}
        print_json({
            "run": str(run.folder),
            "study": str(study.path),
            "page": None if page is None else str(page),
            "trials": facts["trials"],
            "best": found,
            "command": again,
            **run.metrics,
        })  # fmt: skip
        return
    tell_run(run, as_json=False)
    counts = ", ".join(f"{count} {state}" for state, count in facts["trials"].items() if count)
    print(f"Trials: {counts}; best {facts['metric']} on validation {best.value:.4f}, trial {best.number}")
    print(f"Again: {again}")
    print(f"Study: {study.folder}" + ("" if page is None else f"   Page: {page}"))
