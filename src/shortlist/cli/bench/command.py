"""`shortlist bench`: grids of datasets, models, losses and seeds, compared with published results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli.bench.dry_run import print_plan
from shortlist.cli.bench.pages import TABLE_SUFFIXES, write_page, write_results
from shortlist.cli.bench.summary import print_summary
from shortlist.cli.output import AsJson
from shortlist.cli.settings import Log, parse_seeds
from shortlist.errors import InputError, ShortlistError
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    from shortlist.bench import Bench, Cell, Spec


def bench(
    spec: Annotated[
        str | None,
        typer.Argument(metavar="[SPEC]", help="YAML file or name of a shipped grid. Default: list the shipped grids."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the grid, with a run folder for each cell.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of the datasets. Default: $SHORTLIST_DATA.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME", help="Only this dataset, model, baseline, loss or variant. Can be repeated."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="N,N,…", help="Seeds to use instead of those of the grid.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Number of processes.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Compute failed cells again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be computed, with estimated times, and exit.")
    ] = False,
    list_them: Annotated[
        bool, typer.Option("--list", help="List the shipped grids; with --dry-run, estimate their times.")
    ] = False,
    write: Annotated[
        list[Path] | None,
        typer.Option("--write", metavar="FILE", help="Write the table as .md, .csv or .tex. Can be repeated."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="PAGE.html", help="Path of the report. Default: DIR/report.html.")
    ] = None,
    log: Log = None,
    as_json: AsJson = False,
) -> None:
    """Run a grid of datasets, models, losses and seeds under one protocol, and compare it with published results.

    The command can be interrupted and restarted: only missing cells are computed. A failed cell is reported with its
    reason and does not stop the others; the exit code is then 1. Several processes may work on one folder.

    [bold]Examples[/bold]

    shortlist bench --list

    shortlist bench slatk-table18 --dry-run --out bench/table18

    shortlist bench slatk-table4 --only amazon2014-health --seeds 0 --out bench/table4

    shortlist bench my-grid.yaml --jobs 2 --out bench/mine --write table.md --write table.tex
    """
    from shortlist.bench import Bench, Failure, summarise
    from shortlist.bench.spec import is_shipped
    from shortlist.cli.bench.execute import compute
    from shortlist.cli.files import check_out
    from shortlist.tracking import parse_tracker

    place = data or (Path(os.environ["SHORTLIST_DATA"]) if "SHORTLIST_DATA" in os.environ else None)
    if spec is None or list_them:
        from shortlist.cli.bench.listing import list_grids

        if spec is not None or out is not None:
            received = "SPEC" if spec is not None else "--out alone"
            raise InputError(f"bench: expected SPEC with --out, or --list without either, received {received}")
        list_grids(place, jobs, estimate=dry_run, as_json=as_json)
        return
    if out is None:
        raise InputError(f"bench: expected --out DIR, the folder for the cells of {spec}, received none")
    for path, endings in [
        *((path, TABLE_SUFFIXES) for path in write or []),
        *([(report, (".html",))] if report else []),
    ]:
        check_out(path, endings)
    grid, chosen = _chosen(spec, seeds, only or [])
    is_own = not is_shipped(spec)  # the datasets of papers are already split
    folder = Bench(out, place, registered=is_own, trackers=[parse_tracker(text) for text in log or []])
    with progress_bar("reading data") as progress:
        for number, cell in enumerate(chosen):
            progress(number, len(chosen), f"reading {cell.dataset}")
            folder.path(cell)  # fail early if a dataset is missing
    if dry_run:
        print_plan(folder, chosen, jobs, retry=retry, as_json=as_json)
        return
    _check_folder(out)
    for each in folder.trackers:
        each.check()
    if retry:
        _forget_failed(folder, chosen)
    compute(folder, grid, chosen, jobs)
    found = folder.results(chosen, grid.metrics)
    rows = summarise(grid, found)
    for path in write or []:
        write_results(path, grid, rows)
    page = write_page(report, grid, rows, folder, found)
    print_summary(grid, rows, page, as_json=as_json)
    failed = [cell for cell, result in found.items() if isinstance(result, Failure)]
    if failed:
        raise ShortlistError(f"{len(failed)} of {len(chosen)} cells failed{_hint(folder, failed)}")


def _chosen(spec: str, seeds: str | None, only: Sequence[str]) -> tuple[Spec, list[Cell]]:
    """The grid and its selected cells. Settings are validated before any work."""
    from shortlist.bench import cells, read_spec, select
    from shortlist.bench.spec import name_of

    grid = read_spec(spec)
    if seeds is not None:
        grid = grid.model_copy(update={"seeds": parse_seeds(seeds)})
    chosen = select(list(cells(grid)), only, grid)
    if not chosen:
        raise InputError(f"--only: expected names that have a cell in common, received {', '.join(only)}")
    for cell in chosen:
        cell.check(name_of(spec))
    return grid, chosen


def _hint(folder: Bench, failed: Sequence[Cell]) -> str:
    """A hint at --retry if it applies: runs that cannot be read are not retried."""
    again = sum(folder.can_retry(cell) for cell in failed)
    return "" if not again else f"; --retry tries {'again' if again == len(failed) else f'{again} of them again'}"


def _forget_failed(folder: Bench, chosen: Sequence[Cell]) -> None:
    """Remove stored failures."""
    from shortlist.runs import RunLocked

    for cell in chosen:
        if folder.can_retry(cell):
            with suppress(RunLocked):  # another process computes it already
                folder.forget(cell)


def _check_folder(out: Path) -> None:
    """Check that the folder is new or holds a grid."""
    from shortlist.bench.runner import LOCKS
    from shortlist.runs.folder import writing
    from shortlist.tuning import STUDY

    with writing(out):
        if (out / STUDY).exists():
            raise InputError(f"{out}: expected a new folder, or one that bench has made, received one of tune")
        if out.is_dir() and any(out.iterdir()) and not (out / LOCKS).is_dir():
            raise InputError(f"{out}: expected a new folder, or one that bench has made, received one with other files")
        (out / LOCKS).mkdir(parents=True, exist_ok=True)
