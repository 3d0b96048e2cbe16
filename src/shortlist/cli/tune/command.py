"""`shortlist tune`: settings found by trials on validation, and the best of them as a run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.load_flags import with_load_flags
from shortlist.cli.output import AsJson
from shortlist.cli.settings import Data, K, Ks, Loss, Model, Preset, Set, asked, parse_ks
from shortlist.cli.tune.execute import Job, tuned
from shortlist.cli.tune.summary import tell
from shortlist.errors import InputError

MINUTES = 5.0
"""How long is tuned where neither a time nor a number of trials is given."""

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
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many processes share the work.")] = 1,
    preset: Preset = None,
    settings: Set = None,
    ks: Ks = None,
    as_json: AsJson = False,
) -> None:
    """Find good settings within a time, and write the best run.

    The first trial is what `train` does by itself, so that nothing worse comes of it. Trials are judged on validation
    and given up early when others were better by then; test is looked at in the end, for the best alone. What is
    given with --set is fixed. Stop it at any moment and start it again with the same DIR: it goes on.

    [bold]Examples[/bold]

    shortlist tune clicks.csv --model mf --loss slatk --k 20 --minutes 5 --out tuned

    shortlist tune clicks.csv --model ease --trials 20 --out tuned-ease

    shortlist tune debian --loss sl --set model.dim=128 --minutes 10 --jobs 2 --out tuned-sl
    """
    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(f"--minutes: expected a number above 0, received {minutes:g}")
    seconds = None if minutes is None and trials is not None else 60 * (minutes or MINUTES)
    what = asked(model, loss, k, preset, settings)
    job = Job(data, out, *what, flags, *limits(seconds, trials), jobs=jobs)
    lengths = parse_ks(ks)
    check_folder(out)
    run, study = tuned(job, out / "best", lengths, overwrite=True, again="the same command goes on")
    tell(job, run, study, as_json)


def tune_first(job: Job, out: Path, ks: Sequence[int] | None, *, resume: bool, overwrite: bool, as_json: bool) -> None:
    """`shortlist train --tune`: a run as any other, with its study in a folder beside it."""
    from shortlist.runs import check_target
    from shortlist.tuning import STUDY

    check_target(out, overwrite=overwrite)
    check_folder(job.folder)
    is_there = (job.folder / STUDY).is_file()
    if resume and not is_there:  # it stopped before the first trial, or the name is mistyped
        print(f"shortlist: {job.folder}: there is no study to go on with; it begins from the start", file=sys.stderr)
    if is_there and not (resume or overwrite):
        raise InputError(f"{job.folder}: expected no study, received one (--resume goes on, --overwrite begins anew)")
    again = "the same command with --resume goes on"
    run, study = tuned(job, out, ks, overwrite=overwrite, again=again, anew=is_there and not resume)
    tell(job, run, study, as_json)


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
