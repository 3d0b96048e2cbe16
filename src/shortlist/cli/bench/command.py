"""`shortlist bench`: a grid of datasets, models, losses and seeds, beside what was published."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli.output import AsJson, in_words, print_json, print_table, step
from shortlist.cli.settings import Log, parse_seeds
from shortlist.errors import InputError, ShortlistError

if TYPE_CHECKING:
    from shortlist.bench import Bench, Cell, Result, Row, Spec

WRITERS = (".md", ".csv", ".tex")


def bench(
    spec: Annotated[
        str | None,
        typer.Argument(metavar="[SPEC]", help="A file in YAML, or a name that comes along; none: list them."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the grid: a run folder a cell.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with the datasets; else where SHORTLIST_DATA points.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME", help="Only this dataset, model, baseline, loss or variant; can be given often."
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", metavar="N,N,…", help="Other seeds than the grid's.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many processes share the work.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what has failed.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, and about how long.")
    ] = False,
    list_them: Annotated[
        bool, typer.Option("--list", help="List the grids that come along; with --dry-run, about how long each takes.")
    ] = False,
    write: Annotated[
        list[Path] | None,
        typer.Option("--write", metavar="FILE", help="Write the table: .md, .csv or .tex; can be given often."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="PAGE.html", help="The page; DIR/report.html unless given.")
    ] = None,
    log: Log = None,
    as_json: AsJson = False,
) -> None:
    """Measure a whole grid under one protocol, beside the published figures.

    Stop it at any moment and start it again: only what is missing is computed. A cell that fails is shown with its
    reason and does not stop the others; the exit code is 1 then, after all has been told. Several processes may work on
    one folder.

    [bold]Examples[/bold]

    shortlist bench --list

    shortlist bench slatk-table18 --dry-run --out bench/table18

    shortlist bench slatk-table4 --only amazon2014-health --seeds 0 --out bench/table4

    shortlist bench my-grid.yaml --jobs 2 --out bench/mine --write table.md --write table.tex
    """
    from shortlist.bench import Bench, Failure, summarise
    from shortlist.bench.spec import is_shipped
    from shortlist.cli.bench.execute import compute
    from shortlist.cli.bench.summary import tell
    from shortlist.cli.files import check_out
    from shortlist.tracking import tracker

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
    for path, endings in [*((path, WRITERS) for path in write or []), *([(report, (".html",))] if report else [])]:
        check_out(path, endings)
    grid, chosen = _chosen(spec, seeds, only or [])
    is_own = not is_shipped(spec)  # papers split their sets
    folder = Bench(out, place, registered=is_own, sinks=[tracker(text) for text in log or []])
    with step("reading data") as told:
        for number, cell in enumerate(chosen):
            told(number, len(chosen), f"reading {cell.dataset}")
            folder.path(cell)  # a set that is not there is said now
    if dry_run:
        _tell_plan(folder, chosen, jobs, retry, as_json)
        return
    _check_folder(out)
    for each in folder.sinks:
        each.check()
    if retry:
        _forget_failed(folder, chosen)
    compute(folder, grid, chosen, jobs)
    found = folder.results(chosen, grid.metrics)
    rows = summarise(grid, found)
    for path in write or []:
        _write(path, grid, rows)
    page = _draw(report, grid, rows, folder, found)
    tell(grid, rows, page, as_json)
    failed = [cell for cell, result in found.items() if isinstance(result, Failure)]
    if failed:
        raise ShortlistError(f"{len(failed)} of {len(chosen)} cells failed{_hint(folder, failed)}")


def _chosen(spec: str, seeds: str | None, only: Sequence[str]) -> tuple[Spec, list[Cell]]:
    """The grid, and those of its cells that are asked for; a wrong setting is said before hours of work."""
    from shortlist.bench import cells, read_spec, select
    from shortlist.bench.spec import name_of

    grid = read_spec(spec)
    if seeds is not None:
        grid = grid.model_copy(update={"seeds": parse_seeds(seeds)})
    chosen = select(list(cells(grid)), only)
    if not chosen:
        raise InputError(f"--only: expected names that have a cell in common, received {', '.join(only)}")
    for cell in chosen:
        cell.check(name_of(spec))
    return grid, chosen


def _hint(folder: Bench, failed: Sequence[Cell]) -> str:
    """What helps, if it helps: a run that cannot be read is not tried again, and says itself what to do."""
    again = sum(folder.can_retry(cell) for cell in failed)
    return "" if not again else f"; --retry tries {'again' if again == len(failed) else f'{again} of them again'}"


def _forget_failed(folder: Bench, chosen: Sequence[Cell]) -> None:
    """Failures are as if they had never been tried."""
    from shortlist.runs import RunLocked

    for cell in chosen:
        if folder.can_retry(cell):
            with suppress(RunLocked):  # another process has taken it up already
                folder.forget(cell)


def _check_folder(out: Path) -> None:
    """A folder of other things is not filled with runs."""
    from shortlist.bench.runner import LOCKS
    from shortlist.runs.folder import writing
    from shortlist.tuning import STUDY

    with writing(out):
        if (out / STUDY).exists():
            raise InputError(f"{out}: expected a new folder, or one that bench has made, received one of tune")
        if out.is_dir() and any(out.iterdir()) and not (out / LOCKS).is_dir():
            raise InputError(f"{out}: expected a new folder, or one that bench has made, received one with other files")
        (out / LOCKS).mkdir(parents=True, exist_ok=True)


def _tell_plan(folder: Bench, chosen: Sequence[Cell], jobs: int, retry: bool, as_json: bool) -> None:
    """What is there, what is missing, and about how long that takes: by its like, or by some steps of it."""
    from shortlist.bench import Failure, most_epochs, seconds_of_epoch
    from shortlist.runs import Run

    found = {cell: None if retry and folder.can_retry(cell) else folder.result(cell) for cell in chosen}
    missing = [cell for cell in chosen if found[cell] is None or not folder.is_done(cell)]
    failed = sum(isinstance(result, Failure) for result in found.values())
    seconds: dict[tuple[str, ...], float | None] = {
        cell.place: sum(run.metrics["seconds"].values()) for cell, run in found.items() if isinstance(run, Run)
    }
    measured = {cell: run.metrics["seconds"]["evaluate"] for cell, run in found.items() if isinstance(run, Run)}
    with step("trying some steps") as told:
        for number, cell in enumerate(missing):
            told(number, len(missing))
            if cell.place not in seconds:
                epoch = seconds_of_epoch(cell, folder.split(cell))
                seconds[cell.place] = None if epoch is None else epoch * most_epochs(cell, folder.split(cell))
    takes = [measured.get(cell, seconds[cell.place]) for cell in missing]  # what is trained is only measured again
    known = [each for each in takes if each is not None]
    total = sum(known) / jobs
    counts = {"cells": len(chosen), "done": len(chosen) - len(missing) - failed, "failed": failed}
    if as_json:
        cells = [{"cell": str(cell), "seconds": each} for cell, each in zip(missing, takes, strict=True)]
        print_json({**counts, "missing": cells, "seconds": total})
        return
    if missing:
        rows = [(str(cell), in_words(each)) for cell, each in zip(missing, takes, strict=True)]
        print_table(["missing", "at most about"], rows)
    print(f"{len(chosen)} cells: {counts['done']} done, {failed} failed, {len(missing)} missing.")
    if missing:
        print(_total(total, len(missing) - len(known), len(missing)))


def _total(seconds: float, unknown: int, missing: int) -> str:
    """Estimate how long all of it takes, and what is not counted."""
    if unknown == missing:
        return "There is no estimate of how long it takes: what has no epochs, such as baselines, is not tried."
    uncounted = f", nor are {unknown} cells without an estimate, such as baselines" if unknown else ""
    return f"At most about {in_words(seconds)}: training may stop early, but evaluation is not counted{uncounted}."


def _write(path: Path, grid: Spec, rows: Sequence[Row]) -> None:
    from shortlist.bench import to_csv, to_latex, to_markdown
    from shortlist.cli.files import write_whole

    about = f"{grid.about}\n\n" if grid.about else ""
    writers = {".md": lambda: f"# {grid.title}\n\n{about}{to_markdown(rows)}", ".csv": lambda: to_csv(rows)}
    writers[".tex"] = lambda: to_latex(rows)
    write_whole(path, writers[path.suffix]().encode())


def _draw(
    given: Path | None, grid: Spec, rows: Sequence[Row], folder: Bench, found: Mapping[Cell, Result]
) -> Path | None:
    """The page. Where nobody asked for it and it cannot be drawn, the measurements stand all the same."""
    from shortlist.cli.files import write_whole
    from shortlist.report import render

    path = given or folder.folder / "report.html"
    try:
        from shortlist.report.bench import bench_page

        with step("drawing"):
            page = bench_page(grid, rows, found, {cell: folder.path(cell) for cell in found})
            write_whole(path, render(page).encode())
    except ShortlistError as problem:
        if given is not None:
            raise
        print(f"shortlist: no page: {problem}", file=sys.stderr)
        return None
    return path
