"""`shortlist report`: the page of a run."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from shortlist.cli.evaluate import RunFolder
from shortlist.cli.output import AsJson, print_json, step


def report(
    run: RunFolder,
    out: Annotated[Path, typer.Option("--out", metavar="PAGE.html", help="The page to write.")],
    names: Annotated[
        Path | None,
        typer.Option(
            "--names", metavar="TABLE", help="What items are called: .csv, .tsv, .parquet with item and title."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of what is drawn: users, samples, examples.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write a page about a run: figures, learning curves, thresholds, weights, gradients, lists. It opens from disk.

    A run holds the pairs it was made from: nothing else has to be at hand.

    [bold]Examples[/bold]

    shortlist report runs/slatk --out slatk.html

    shortlist report runs/ml --names movies.csv --out ml.html
    """
    from shortlist.cli.files import check_out, write_whole
    from shortlist.data.titles import item_titles
    from shortlist.report import render
    from shortlist.report.run import run_page
    from shortlist.runs import open_run

    check_out(out, [".html"])
    started, opened = perf_counter(), open_run(run)
    titles = item_titles(str(opened.config.get("data", {}).get("source", "")), names)
    with step("reading the run") as tell:
        page = run_page(opened, titles, seed=seed, stage=lambda label: tell(None, None, label))
        content = render(page).encode()
    write_whole(out, content)
    if as_json:
        sections = [
            {
                "title": section.title,
                "tables": len(section.tables),
                "figures": [figure.title for figure in section.figures],
                "texts": list(section.texts),
            }
            for section in page.sections
        ]
        seconds = round(perf_counter() - started, 3)
        print_json({"run": str(run), "page": str(out), "seconds": seconds, "sections": sections})
        return
    for section in page.sections:
        if not section.tables and not section.figures:
            print(f"{section.title}: {' '.join(section.texts)}")
    print(f"Page: {out}")
