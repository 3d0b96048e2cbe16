"""`shortlist demo`: the built-in set, the models side by side, three lists, a page."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shortlist.cli.output import AsJson, print_json, print_table, step

if TYPE_CHECKING:
    from shortlist.data import LoadOptions, Split
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
"""Model and loss of each, by the name it has in the table."""

SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "mf": {"training": {"epochs": 25}},
    "lightgcn": {"training": {"epochs": 15}, "loss": {"tau": 0.1}},
    "pooled": {"training": {"epochs": 15}, "loss": {"tau": 0.1}},
}
"""What trained models are told. The temperature is looked for with MF; the others, whose epochs take twice as long, are
given what the same trials found for them on the validation part of seed 0."""

EXAMPLES = ("inkscape", "openssh", "pandas")
"""Source packages that many people know."""

K = 20
SHOWN = 10


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the page and the runs go.")] = Path("demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the split and of the models.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train models on the built-in set, compare them, show lists for known packages, and write a page.

    The set: which packages a Debian source package depends on. Takes a minute or two and no network.

    [bold]Example[/bold]

    shortlist demo --out demo
    """
    from shortlist.cli.files import write_whole
    from shortlist.data import LoadOptions, load
    from shortlist.report import render
    from shortlist.report.demo import demo_page, example_lists
    from shortlist.runs import check_target

    options = LoadOptions(seed=seed)
    for name in CONTESTANTS:
        check_target(out / "runs" / name, overwrite=True)
    started = perf_counter()
    with step("reading the built-in set"):
        split = load("debian", options)
    seconds = {"load": perf_counter() - started}
    entries, runs = zip(*(_fitted(name, split, options, out, seconds) for name in CONTESTANTS), strict=True)
    ranked = sorted(runs, key=lambda run: run.metrics["valid"][f"ndcg@{K}"], reverse=True)
    best = ranked[0]
    with step("drawing"):
        lists = example_lists({run.name: run for run in ranked}, EXAMPLES, SHOWN)
        page = out / "report.html"
        write_whole(page, render(demo_page(entries, split, lists, K)).encode())
    if as_json:
        figures = {run.name: run.metrics for run in runs}
        print_json({"page": str(page), "best": best.name, "runs": figures, "lists": [each.as_json() for each in lists]})
        return
    _show_table(entries)
    for example in lists:
        rows = [(place.rank, place.item, place.title, "✓" if place.hit else "") for place in example.lists[best.name]]
        print_table(["", "package", "what it is", "held out"], rows, title=f"{best.name} for {example.user}")
    print(f"✓ was held out of training: the model found it. Best on validation: {best.name}.")
    print(f"Page: {page}")
    print(f"Next: shortlist report {best.folder} --out run.html   |   shortlist recommend {best.folder} --user git")


def _fitted(name: str, split: Split, options: LoadOptions, out: Path, seconds: dict[str, float]) -> tuple[Entry, Run]:
    """A model fitted, measured, and kept as a run."""
    from shortlist.cli.train import watching
    from shortlist.experiment import fit, plan
    from shortlist.report.model_comparison import Entry

    model, loss = CONTESTANTS[name]
    chosen = plan(model, loss, K, values=SETTINGS.get(model))
    config = {"data": {"source": "debian", **options.settings()}, "protocol": options.protocol, "seed": options.seed}
    with watching(chosen) as watch:
        folder = out / "runs" / name
        outcome = fit(chosen, split, folder, config=config, overwrite=True, seconds=seconds, watch=watch)
    evaluations = outcome.evaluations
    assert evaluations.test is not None
    took = outcome.run.metrics["seconds"]
    seconds_to_fit = took.get("temperature_search", 0.0) + took["train"]
    return Entry(name, evaluations.test, evaluations.catalogue, seconds_to_fit), outcome.run


def _show_table(entries: tuple[Entry, ...]) -> None:
    rows = []
    for entry in entries:
        means = entry.test.means()
        accuracy = [
            f"{means[name]:.4f} ({entry.intervals[name].low:.4f}–{entry.intervals[name].high:.4f})"
            for name in (f"ndcg@{K}", f"recall@{K}")
        ]
        rows.append((entry.name, *accuracy, f"{entry.catalogue[f'coverage@{K}']:.1%}", f"{entry.seconds:.2f}"))
    columns = ["model", f"NDCG@{K}", f"Recall@{K}", f"coverage@{K}", "seconds"]
    print_table(columns, rows, title="Debian: which packages does a source package depend on?")
