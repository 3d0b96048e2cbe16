"""`shortlist recommend`: lists by the ids that people know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli.evaluate import RunFolder
from shortlist.cli.output import AsJson, print_json, print_table, step
from shortlist.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from shortlist.runs import Run

EVERYBODY = "all"


def recommend(
    run: RunFolder,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="One user, by id.")] = None,
    users: Annotated[
        str | None, typer.Option("--users", metavar="all|FILE", help="All users, or a file with an id in each line.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="FILE|a,b", help="Somebody new: the items of a history, without any user."),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Length of the lists.")] = 20,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write .parquet or .csv.")] = None,
    exclude: Annotated[
        str | None, typer.Option("--exclude", metavar="FILE|a,b", help="Items that must not be listed.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="FILE|a,b", help="The only items to list.")] = None,
    as_json: AsJson = False,
) -> None:
    """Recommend items to one user or to many, by their own ids. What a user is known to have is left out.

    With --history, to somebody who was not there in training, if the model is one of vectors (mf, lightgcn, ials, …).

    [bold]Examples[/bold]

    shortlist recommend runs/ease --user flask --k 10

    shortlist recommend runs/ease --users all --k 20 --out lists.parquet

    shortlist recommend runs/ease --users some.txt --only in_stock.txt --exclude a17,b4 --out lists.csv

    shortlist recommend runs/mf --history python3-numpy,python3-scipy --k 10
    """
    from shortlist.cli.files import check_out, read_ids, write_table
    from shortlist.recommend import recommend as lists_of
    from shortlist.recommend import recommend_to
    from shortlist.runs import open_run

    given = [
        name for name, value in (("--user", user), ("--users", users), ("--history", history)) if value is not None
    ]
    if len(given) != 1:
        received = " and ".join(given) or "none"
        raise InputError(f"recommend: expected one of --user ID, --users all|FILE, --history a,b, received {received}")
    if users is not None and out is None:
        raise InputError("recommend: expected --out FILE.parquet or FILE.csv with --users, received none")
    if out is not None:
        check_out(out)
    asked = [user] if users is None else None if users == EVERYBODY else read_ids(users, "user")
    without, within = read_ids(exclude, "item"), read_ids(only, "item")
    met = read_ids(history, "item")
    opened = open_run(run)
    with step("ranking") as report:
        if met is not None:
            lists = recommend_to(opened, met, k, exclude=without, only=within)
        else:
            lists = lists_of(opened, asked, k, exclude=without, only=within, progress=report)
    if out is not None:
        write_table(lists, out)
    if met is not None:
        _tell_new(lists, history or "", out, as_json)
    elif as_json:
        if user is None:
            print_json({"users": lists["user_id"].n_unique(), "rows": lists.height, "out": str(out)})
        else:
            print_json({"user_id": _given_back(opened, user), "items": lists.drop("user_id").to_dicts()})
    elif out is not None:
        print(f"{lists['user_id'].n_unique():,} users, {lists.height:,} rows: {out}")
    else:
        rows = [(rank, item, f"{score:.4f}") for _, item, rank, score in lists.iter_rows()]
        print_table(["rank", "item", "score"], rows, title=f"for {user}")


def _tell_new(lists: pl.DataFrame, history: str, out: Path | None, as_json: bool) -> None:
    """The list of somebody who has no id."""
    if as_json:
        print_json({"items": lists.to_dicts()})
    elif out is not None:
        print(f"{lists.height:,} rows: {out}")
    else:
        rows = [(rank, item, f"{score:.4f}") for item, rank, score in lists.iter_rows()]
        print_table(["rank", "item", "score"], rows, title=f"for a history of {history}")


def _given_back(run: Run, user: str) -> object:
    """The id in its own type, not as it was typed."""
    return run.users.values[run.users.index(user)]
