"""The report of a study: trials, the best one, and the importance of settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from shortlist.formatting import format_number, format_setting
from shortlist.report.page import Cell, Figure, Page, Section, Table
from shortlist.report.tuning_charts import bars, over_setting, over_trials
from shortlist.runs import Run
from shortlist.tuning import Space, Study, Trial, margin_note

ENDED = {"done": "completed", "pruned": "pruned"}
"""States of trials with a value, with their labels."""


def tuning_page(study: Study, run: Run) -> Page:
    """Build the report of a study and its best run."""
    trials, best, metric = study.trials(), study.best(), run.config["tuned"]["metric"]
    assert best is not None
    shown = [each for each in trials if each.state in ENDED and each.value is not None]
    importance = study.importance()
    name = " with ".join(run.config[part]["name"] for part in ("model", "loss") if part in run.config)
    count, given_up = len([each for each in trials if each.state != "waiting"]), run.config["tuned"]["trials"]["pruned"]
    test = run.metrics["test"].get(metric)
    on_test = "on test, which is evaluated only for the best trial of a completed study"
    lead = (
        f"{count} trials, of which {given_up} were pruned, judged by {metric} on validation. "
        f"Trial {best.number} was best with {best.value:.4f}{margin_note(trials, best)}"
        + (f"; {on_test}, it has {test:.4f}." if test is not None else ".")
    )
    figures = [Figure("Trials in order", _course(shown, metric), "The line is the best value so far.")]
    texts = []
    if importance:
        frame = pl.DataFrame({"name": list(importance), "value": list(importance.values())})
        text = "Which settings distinguish the better trials from the others, by PED-ANOVA."
        figures.append(Figure("Importance", bars(frame, title="share"), text))
    else:
        texts.append(f"The importance of settings needs at least {study.enough} trials with different values.")
    order = [*importance, *(each for each in study.space.searched if each not in importance)]
    return Page(
        f"Tuning {name} on {run.config['data']['source']}",
        lead,
        [
            Section("Best trial", tables=[_best(study.space, best, trials[0])]),
            Section("Search", texts, figures=figures),
            Section(
                "Trials by setting",
                ["Each point is a trial. Pruned trials are shown with their last value."],
                figures=list(_slices(study.space, shown, order, metric)),
            ),
            Section("Trials", tables=[_trials(trials, best, metric)]),
        ],
    )


def _best(space: Space, best: Trial, first: Trial) -> Table:
    """Settings of the best trial and the defaults of training."""
    rows = [
        [
            name,
            format_setting(value),
            format_setting(first.settings.get(name, "")),
            str(space.searched[name].search) if name in space.searched else "set by this trial",
        ]
        for name, value in best.settings.items()
    ]
    return Table(["setting", "best", "default", "search space"], rows, numbers=["best", "default"])


def _trials(trials: Sequence[Trial], best: Trial, metric: str) -> Table:
    names = list(dict.fromkeys(name for each in trials for name in each.settings))
    columns = ["trial", "ended", metric, "seconds", *(name.partition(".")[2] for name in names), "note"]
    rows: list[list[Cell | str]] = [
        [
            str(each.number),
            each.state,
            Cell(format_number(each.value), each.number == best.number),
            format_number(each.seconds, 1),
            *(format_setting(each.settings.get(name, "")) for name in names),
            each.why or each.start,
        ]
        for each in trials
        if each.state != "waiting"
    ]
    return Table(columns, rows, numbers=[name for name in columns if name not in ("ended", "note")], live=True)


def _course(trials: Sequence[Trial], metric: str) -> str:
    points = [{"name": ENDED[each.state], "at": each.number, "value": each.value} for each in trials]
    course, best = [], float("-inf")
    for each in trials:
        if each.state == "done" and each.value is not None and each.value > best:
            best = each.value
        if best > float("-inf"):
            course.append({"at": each.number, "value": best})
    return over_trials(pl.DataFrame(points), pl.DataFrame(course), title=f"{metric} on validation")


def _slices(space: Space, trials: Sequence[Trial], order: Sequence[str], metric: str) -> Iterator[Figure]:
    for name in order:
        search = space.searched[name].search
        assert search is not None
        choices = [format_setting(choice) for choice in search.choices]
        points = [
            {"name": ENDED[each.state], "x": format_setting(x) if choices else float(x), "value": each.value}
            for each in trials
            for x in [each.settings[name]]
        ]
        if choices:
            beyond = dict.fromkeys(each.settings[name] for each in trials if each.settings[name] not in search.choices)
            values = [*search.choices, *beyond]
            is_number = all(isinstance(value, int | float) for value in values)
            choices = [format_setting(value) for value in (sorted(values) if is_number else values)]
        yield Figure(name, over_setting(pl.DataFrame(points), title=metric, axis="", log=search.log, choices=choices))
