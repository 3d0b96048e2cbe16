"""What `shortlist tune` leaves behind: the table of its trials, its page, and the words on the terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.cli.output import print_json, step
from shortlist.cli.tune.execute import Job
from shortlist.errors import ShortlistError

if TYPE_CHECKING:
    from shortlist.runs import Run
    from shortlist.tuning import Study


def tell(job: Job, run: Run, study: Study, as_json: bool) -> None:
    """Write the trials, draw the page, and say what was found."""
    write_trials(study)
    page = draw(study, run)
    say_found(job, run, study, page, as_json)


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
    words, loss = ["shortlist", "train", job.data, "--model", job.model], job.space().loss
    words += [] if loss is None else ["--loss", loss]
    words += ["--k", str(job.k)]
    words += [word for name, text in job.flags.items() for word in (f"--{name.replace('_', '-')}", text)]
    words += [word for name, value in {**fixed, **settings}.items() for word in ("--set", f"{name}={_text(value)}")]
    return shlex.join([*words, "--out", "DIR"])


def _text(value: Any) -> str:
    """A value as --set takes it."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def say_found(job: Job, run: Run, study: Study, page: Path | None, as_json: bool) -> None:
    """What was found."""
    from shortlist.cli.train import tell as tell_run
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
    tell_run(run, as_json=False)
    counts = ", ".join(f"{count} {state}" for state, count in facts["trials"].items() if count)
    others = margin_note(study.trials(), best)
    print(f"Trials: {counts}; best {facts['metric']} on validation {best.value:.4f}, trial {best.number}{others}")
    print(f"Again: {again}")
    print(f"Study: {study.folder}" + ("" if page is None else f"   Page: {page}"))
