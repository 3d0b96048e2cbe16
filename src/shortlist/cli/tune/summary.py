"""Summary of `shortlist tune`: the table of trials, the report, and the printed result."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.cli.output import echo, print_json
from shortlist.cli.tune.execute import Job
from shortlist.errors import ShortlistError
from shortlist.formatting import format_argument
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    from shortlist.runs import Run
    from shortlist.tuning import Study


def print_study(job: Job, run: Run, study: Study, *, as_json: bool) -> None:
    """Write the table of trials and the page, and print the best trial."""
    write_trials(study)
    page = write_page(study, run)
    _print_best(job, run, study, page, as_json)


def write_trials(study: Study) -> Path:
    """Write a table of the trials with a column for each setting."""
    import polars as pl

    from shortlist.bench.tables import without_formulas
    from shortlist.cli.files import write_table

    trials = study.trials()
    names = list(dict.fromkeys(name for each in trials for name in each.settings))
    columns: dict[str, Any] = {
        "trial": [each.number for each in trials],
        "state": [each.state for each in trials],
        "validation": [each.value for each in trials],
        "seconds": [each.seconds for each in trials],
        "epochs": [each.epochs for each in trials],
        **{
            name: [format_argument(each.settings[name]) if name in each.settings else None for each in trials]
            for name in names
        },
        "start": [each.start for each in trials],
        "why": [each.why for each in trials],
    }
    path = study.folder / "trials.csv"
    write_table(without_formulas(pl.DataFrame(columns, strict=False)), path)
    return path


def write_page(study: Study, run: Run) -> Path | None:
    """Write the page. An error is printed and not raised: the run is kept."""
    from shortlist.cli.files import write_file
    from shortlist.report import render

    path = study.folder / "report.html"
    try:
        from shortlist.report.tuning import tuning_page

        with progress_bar("writing the report"):
            write_file(path, render(tuning_page(study, run)).encode())
    except ShortlistError as problem:
        echo(f"shortlist: no page: {problem}", err=True)
        return None
    return path


def command(job: Job, settings: Mapping[str, Any]) -> str:
    """The command that trains the best run again, with an identical result."""
    fixed = {
        f"{section}.{key}": value
        for source in (job.values, job.texts)
        for section, given in source.items()
        for key, value in given.items()
    }
    words, loss = ["shortlist", "train", job.data, "--model", job.model], job.space().loss
    words += [] if loss is None else ["--loss", loss]
    words += ["--k", str(job.k)]
    words += [word for name, text in job.flags.items() for word in (f"--{name.replace('_', '-')}", text)]
    words += [
        word for name, value in {**fixed, **settings}.items() for word in ("--set", f"{name}={format_argument(value)}")
    ]
    return shlex.join([*words, "--out", "DIR"])


def _print_best(job: Job, run: Run, study: Study, page: Path | None, as_json: bool) -> None:
    """Print the best trial, its run, and the command that trains it again."""
    from shortlist.cli.train.summary import print_run
    from shortlist.tuning import margin_note

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
    print_run(run, as_json=False)
    counts = ", ".join(f"{count} {state}" for state, count in facts["trials"].items() if count)
    others = margin_note(study.trials(), best)
    echo(f"Trials: {counts}; best {facts['metric']} on validation {best.value:.4f}, trial {best.number}{others}")
    echo(f"Again: {again}")
    echo(f"Study: {study.folder}" + ("" if page is None else f"   Page: {page}"))
