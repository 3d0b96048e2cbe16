"""`shortlist demo`: a comparison of models on the built-in dataset, with example lists and a report."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shortlist.cli.output import AsJson, echo, print_json, print_table
from shortlist.errors import MissingExtra
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    from shortlist.data import LoadOptions, Split
    from shortlist.report.demo import Example
    from shortlist.report.model_comparison import Entry
    from shortlist.runs import Run

CONTESTANTS: dict[str, tuple[str, str | None]] = {
    "popularity": ("popularity", None),
    "item_knn": ("item_knn", None),
    "ials": ("ials", None),
    "ease": ("ease", None),
    "mf-sl": ("mf", "sl"),
    "mf-slatk_detached": ("mf", "slatk_detached"),
    "lightgcn-slatk_detached": ("lightgcn", "slatk_detached"),
    "pooled-slatk_detached": ("pooled", "slatk_detached"),
}
"""Model and loss of each contestant, by its name in the table."""

SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "mf": {"training": {"epochs": 25}},
    "lightgcn": {"training": {"epochs": 15}, "loss": {"tau": 0.1}},
    "pooled": {"training": {"epochs": 15}, "loss": {"tau": 0.1}},
}
"""Settings of trained models. The temperature is searched for MF only; the epochs of the others take twice as long, and
their temperature is that of the same search on the validation part of seed 0."""

EXAMPLES = ("inkscape", "openssh", "pandas")
"""Well-known source packages."""

K = 20
SHOWN = 10


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the report and the runs.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the split and of the models.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train models on the built-in dataset, compare them, show example lists, and write a report.

    The dataset contains the packages that Debian source packages depend on. Takes a minute or two, without network.

    [bold]Example[/bold]

    shortlist demo --out demo
    """
    from shortlist.data import LoadOptions, load
    from shortlist.report.demo import example_lists
    from shortlist.runs import check_target

    options = LoadOptions(seed=seed)
    for name in CONTESTANTS:
        check_target(out / "runs" / name, overwrite=True)
    started = perf_counter()
    with progress_bar("reading the built-in set"):
        split = load("debian", options)
    seconds = {"load": perf_counter() - started}
    entries, runs, missing = _fit_all(split, options, out, seconds)
    ranked = sorted(runs, key=lambda run: run.metrics["valid"][f"ndcg@{K}"], reverse=True)
    best = ranked[0]
    lists = example_lists({run.name: run for run in ranked}, EXAMPLES, SHOWN)
    try:
        page: Path | None = _write_page(out / "report.html", entries, split, lists)
    except MissingExtra as problem:
        page = None
        missing.append(f"no report: {problem}")
    for line in missing:
        echo(f"shortlist: {line}", err=True)
    if as_json:
        print_json(
            {
                "page": None if page is None else str(page),
                "best": best.name,
                "runs": {run.name: run.metrics for run in runs},
                "lists": [each.as_json() for each in lists],
                "missing": missing,
            }
        )
        return
    _show_table(entries)
    for example in lists:
        rows = [(place.rank, place.item, place.title, "✓" if place.hit else "") for place in example.lists[best.name]]
        print_table(["", "package", "what it is", "held out"], rows, title=f"{best.name} for {example.user}")
    echo(f"✓ was held out of training and found by the model. Best on validation: {best.name}.")
    if page is not None:
        echo(f"Page: {page}")
    echo(f"Next: shortlist report {best.folder} --out run.html   |   shortlist recommend {best.folder} --user git")


def _fit_all(
    split: Split, options: LoadOptions, out: Path, seconds: dict[str, float]
) -> tuple[tuple[Entry, ...], tuple[Run, ...], list[str]]:
    """Fit all models whose packages are installed, and say which ones are left out."""
    fitted, missing = [], []
    for name in CONTESTANTS:
        try:
            fitted.append(_fitted(name, split, options, out, seconds))
        except MissingExtra as problem:
            missing.append(f"{name} is left out: {problem}")
    entries, runs = zip(*fitted, strict=True)
    return entries, runs, missing


def _write_page(path: Path, entries: tuple[Entry, ...], split: Split, lists: list[Example]) -> Path:
    """Write the report; it needs the extra ``report``."""
    from shortlist.cli.files import write_file
    from shortlist.report import render
    from shortlist.report.demo import demo_page

    with progress_bar("writing the report"):
        write_file(path, render(demo_page(entries, split, lists, K)).encode())
    return path


def _fitted(name: str, split: Split, options: LoadOptions, out: Path, seconds: dict[str, float]) -> tuple[Entry, Run]:
    """Fit and evaluate a model, and write its run."""
    from shortlist.experiment import fit, plan, progress_callbacks
    from shortlist.report.model_comparison import Entry

    model, loss = CONTESTANTS[name]
    chosen = plan(model, loss, K, values=SETTINGS.get(model))
    config = {"data": {"source": "debian", **options.settings()}, "protocol": options.protocol, "seed": options.seed}
    with progress_callbacks(chosen) as callbacks:
        folder = out / "runs" / name
        outcome = fit(chosen, split, folder, config=config, overwrite=True, seconds=seconds, callbacks=callbacks)
    evaluations = outcome.evaluations
    assert evaluations.test is not None
    took = outcome.run.metrics["seconds"]
    seconds_to_fit = took.get("temperature_search", 0.0) + took["train"]
    return Entry(name, evaluations.test, evaluations.beyond_accuracy, seconds_to_fit), outcome.run


def _show_table(entries: tuple[Entry, ...]) -> None:
    rows = []
    for entry in entries:
        means = entry.test.means()
        accuracy = [
            f"{means[name]:.4f} ({entry.intervals[name].low:.4f}–{entry.intervals[name].high:.4f})"
            for name in (f"ndcg@{K}", f"recall@{K}")
        ]
        rows.append((entry.name, *accuracy, f"{entry.beyond_accuracy[f'coverage@{K}']:.1%}", f"{entry.seconds:.2f}"))
    columns = ["model", f"NDCG@{K}", f"Recall@{K}", f"coverage@{K}", "seconds"]
    print_table(columns, rows, title="Debian: which packages does a source package depend on?")
