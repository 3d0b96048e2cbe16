"""`shortlist report`: the HTML report of a run."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from shortlist.cli.evaluate import RunFolder
from shortlist.cli.output import AsJson, echo, print_json
from shortlist.progress import progress_bar


def report(
    run: RunFolder,
    out: Annotated[Path, typer.Option("--out", metavar="PAGE.html", help="Path of the report.")],
    names: Annotated[
        Path | None,
        typer.Option(
            "--names", metavar="TABLE", help="Titles of items: .csv, .tsv or .parquet with columns item and title."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the sampled users, thresholds and examples.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write an HTML report of a run: metrics, learning curves, thresholds, weights, gradients and example lists.

    The report is one file without external resources. A run contains its data; nothing else is needed.

    [bold]Examples[/bold]

    shortlist report runs/slatk --out slatk.html

    shortlist report runs/ml --names movies.csv --out ml.html
    """
    from shortlist.cli.files import check_out, write_file
    from shortlist.data.titles import item_titles
    from shortlist.report import render
    from shortlist.report.run import run_page
    from shortlist.runs import open_run

    check_out(out, [".html"])
    started, opened = perf_counter(), open_run(run)
    opened.check_measurable(str(run))
    titles = item_titles(str(opened.config.get("data", {}).get("source", "")), names)
    with progress_bar("reading the run") as progress:
        page = run_page(opened, titles, seed=seed, stage=lambda label: progress(None, None, label))
        content = render(page).encode()
    write_file(out, content)
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
            echo(f"{section.title}: {' '.join(section.texts)}")
    echo(f"Page: {out}")
