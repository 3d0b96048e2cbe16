"""`shortlist tune`: hyperparameter search on validation, and the best trial as a run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.load_flags import with_load_flags
from shortlist.cli.output import AsJson, echo
from shortlist.cli.settings import Data, K, Ks, Loss, Model, Preset, Set, parse_ks, parse_request
from shortlist.cli.tune.execute import Job, run_tuning
from shortlist.cli.tune.summary import print_study
from shortlist.errors import InputError

MINUTES = 5.0
"""Default time limit if neither a time nor a number of trials is given."""

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@with_load_flags
def tune(
    data: Data,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the study; the best run is DIR/best.")],
    flags: dict[str, str],
    model: Model = None,
    loss: Loss = None,
    k: K = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="M", help="Time for all of it; 5 unless --trials is given.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", metavar="N", min=1, help="How many trials the study has at most.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Number of processes.")] = 1,
    preset: Preset = None,
    settings: Set = None,
    ks: Ks = None,
    as_json: AsJson = False,
) -> None:
    """Tune the settings within a time limit, and write the best run.

    The first trial has the default settings of `train`. Trials are judged on validation and pruned when others were
    better at the same epoch; test is evaluated only for the best one. Settings given with --set are fixed. The command
    can be interrupted and restarted with the same DIR.

    [bold]Examples[/bold]

    shortlist tune clicks.csv --model mf --loss slatk --k 20 --minutes 5 --out tuned

    shortlist tune clicks.csv --model ease --trials 20 --out tuned-ease

    shortlist tune debian --loss sl --set model.dim=128 --minutes 10 --jobs 2 --out tuned-sl
    """
    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(f"--minutes: expected a number above 0, received {minutes:g}")
    seconds = None if minutes is None and trials is not None else 60 * (minutes or MINUTES)
    request = parse_request(model, loss, k, preset, settings)
    job = Job(data, out, *request, flags, *limits(seconds, trials), jobs=jobs)
    lengths = parse_ks(ks)
    check_folder(out)
    run, study = run_tuning(job, out / "best", lengths, overwrite=True, again="resume with the same command")
    print_study(job, run, study, as_json=as_json)


def tune_first(
    job: Job, out: Path, ks: Sequence[int] | None, *, resume: bool, overwrite: bool, as_json: bool, final: bool = False
) -> None:
    """`shortlist train --tune`: tune before training, with the study in a folder beside the run."""
    from shortlist.runs import check_target
    from shortlist.tuning import STUDY

    check_target(out, overwrite=overwrite, inputs=[job.data])
    check_folder(job.folder)
    is_there = (job.folder / STUDY).is_file()
    if resume and not is_there:  # interrupted before the first trial, or a wrong name
        echo(f"shortlist: {job.folder}: no study to resume; starting a new one", err=True)
    if is_there and not (resume or overwrite):
        raise InputError(
            f"{job.folder}: expected no study, received one (--resume continues it, --overwrite replaces it)"
        )
    again = "resume with the same command and --resume"
    run, study = run_tuning(job, out, ks, overwrite=overwrite, again=again, anew=is_there and not resume, final=final)
    print_study(job, run, study, as_json=as_json)


def parse_duration(text: str) -> float:
    """Parse a duration such as ``2m``.

    >>> parse_duration("2m"), parse_duration("90s"), parse_duration("0.5h")
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
    """The time at which the last trial has to end, with some time reserved for the rest, and the number of trials."""
    from shortlist.tuning import KEPT_BACK

    return math.inf if seconds is None else time.monotonic() + (1 - KEPT_BACK) * seconds, trials


def check_folder(out: Path) -> None:
    """Check that the folder is new or holds a study."""
    from shortlist.bench.runner import is_grid
    from shortlist.runs.folder import writing
    from shortlist.tuning import LOCKS

    with writing(out):
        if out.exists() and not out.is_dir():
            raise InputError(f"{out}: expected a folder for a study, received a file")
        if out.is_dir() and any(out.iterdir()) and not (out / LOCKS).is_dir():
            raise InputError(f"{out}: expected a new folder, or one that tune has made, received one with other files")
        if is_grid(out):
            raise InputError(f"{out}: expected a new folder, or one that tune has made, received one of bench")
