"""`shortlist bench`: a grid of datasets, models, losses and seeds, beside what was published."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli.output import AsJson, print_json, print_table, step
from shortlist.cli.settings import parse_seeds
from shortlist.errors import InputError

if TYPE_CHECKING:
    from shortlist.bench import Bench, Cell, Row, Spec


def bench(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A file in YAML, or a name that comes along.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the grid: a run folder a cell.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with the datasets; else where SHORTLIST_DATA points.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this dataset, model, loss or variant.")
    ] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", metavar="N,N,…", help="Other seeds than the grid's.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many processes share the work.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what has failed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the table: .md, .csv or .tex.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a whole grid under one protocol, beside the published figures.

    Stop it at any moment and start it again: only what is missing is computed. A cell that fails is shown with its
    reason and does not stop the others.

    [bold]Examples[/bold]

    shortlist bench slatk-table2 --only amazon2014-health --seeds 0 --out bench/table2

    shortlist bench my-grid.yaml --jobs 2 --out bench/mine --write table.md
    """
    from shortlist.bench import Bench, cells, read_spec, restrict, summarise

    grid = restrict(read_spec(spec), only or [])
    if seeds is not None:
        grid = grid.model_copy(update={"seeds": parse_seeds(seeds)})
    chosen = list(cells(grid))
    for cell in chosen:
        cell.plan()  # a wrong setting is said before hours of work
    folder = Bench(out, _finder(data))
    if dry_run:
        _tell_plan(folder, chosen, jobs)
        return
    if jobs == 1:
        _work(folder, grid, retry)
    else:
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            for future in [pool.submit(_work, folder, grid, retry, jobs) for _ in range(jobs)]:
                future.result()
    found = ((cell, folder.result(cell)) for cell in chosen)
    rows = summarise(grid, {cell: result for cell, result in found if result is not None})
    if write is not None:
        _write(write, grid, rows)
    _tell(grid, rows, as_json)


def _work(folder: Bench, grid: Spec, retry: bool, jobs: int = 1) -> None:
    """Go through the cells; what is there, failed before or in another process's hands is passed over."""
    import torch

    from shortlist.bench import Failure, cells
    from shortlist.bench.runner import lengths
    from shortlist.runs import Busy

    torch.set_num_threads(max(1, torch.get_num_threads() // jobs))
    chosen = list(cells(grid))
    with step("measuring") as report:
        for number, cell in enumerate(chosen):
            report(number, len(chosen), f"{'/'.join(word for word in cell.place if word)} seed {cell.seed}")
            result = folder.result(cell)
            if isinstance(result, Failure) and retry:
                folder.forget(cell)
            elif result is not None:
                continue
            with suppress(Busy):
                folder.run(cell, ks=lengths(grid.metrics))


def _finder(data: Path | None) -> Path | None:
    """Where datasets are looked for first."""
    return data or (Path(os.environ["SHORTLIST_DATA"]) if "SHORTLIST_DATA" in os.environ else None)


def _tell_plan(folder: Bench, chosen: list[Cell], jobs: int) -> None:
    """What is there, what is missing, and how long that took where it was done already."""
    from shortlist.bench import Failure

    found = {cell: folder.result(cell) for cell in chosen}
    took = {
        cell.place: sum(run.metrics["seconds"].values())
        for cell, run in found.items()
        if run is not None and not isinstance(run, Failure)
    }
    missing = [cell for cell, result in found.items() if result is None]
    rows = [
        ("/".join(word for word in cell.place if word), cell.seed, _seconds(took.get(cell.place))) for cell in missing
    ]
    print_table(["missing", "seed", "takes about"], rows)
    known = [took[cell.place] for cell in missing if cell.place in took]
    failed = sum(isinstance(result, Failure) for result in found.values())
    print(f"{len(chosen)} cells: {len(chosen) - len(missing) - failed} done, {failed} failed, {len(missing)} missing.")
    if missing and known:
        total = sum(known) / len(known) * len(missing) / jobs
        print(f"About {_seconds(total)}, by the {len(known)} of them whose like has been done.")


def _seconds(value: float | None) -> str:
    """A duration for people.

    >>> _seconds(75), _seconds(7200), _seconds(None)
    ('1 min 15 s', '2 h 0 min', 'not known yet')
    """
    if value is None:
        return "not known yet"
    minutes, seconds = divmod(round(value), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _write(path: Path, grid: Spec, rows: list[Row]) -> None:
    from shortlist.bench import to_csv, to_latex, to_markdown

    writers = {".md": lambda: f"# {grid.title}\n\n{to_markdown(rows)}", ".csv": lambda: to_csv(rows)}
    writers[".tex"] = lambda: to_latex(rows)
    if path.suffix not in writers:
        raise InputError(f"--write: expected a file that ends in {', '.join(writers)}, received {path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(writers[path.suffix](), encoding="utf-8")


def _tell(grid: Spec, rows: list[Row], as_json: bool) -> None:
    from shortlist.bench.results import HEAD

    if as_json:
        print_json({"title": grid.title, "rows": [dict(zip(HEAD, row.cells(), strict=True)) for row in rows]})
        return
    print_table(HEAD, [row.cells() for row in rows], title=grid.title)
    for reason in dict.fromkeys(f"{row.dataset} {row.loss}: {row.failure}" for row in rows if row.failure):
        print(f"failed: {reason}")
