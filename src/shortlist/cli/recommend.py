"""`shortlist recommend`: lists of recommendations by external ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shortlist.cli.evaluate import RunFolder
from shortlist.cli.output import AsJson, print_json, print_table
from shortlist.errors import InputError
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    import polars as pl

    from shortlist.runs import Run

ALL_USERS = "all"


def recommend(
    run: RunFolder,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="One user, by id.")] = None,
    users: Annotated[
        str | None, typer.Option("--users", metavar="all|FILE", help="All users, or a file with one id per line.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="FILE|a,b", help="A new user, given by the items of a history."),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Length of the lists.")] = 20,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write .parquet or .csv.")] = None,
    exclude: Annotated[str | None, typer.Option("--exclude", metavar="FILE|a,b", help="Items to exclude.")] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="FILE|a,b", help="Restrict the lists to these items.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recommend items to one user or to many, by external ids. Known items of a user are excluded.

    --history recommends to a user who was not in training; it needs a model of vectors (mf, lightgcn, ials, …).

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
    ids = [user] if users is None else None if users == ALL_USERS else read_ids(users, "user")
    excluded, allowed = read_ids(exclude, "item"), read_ids(only, "item")
    items = read_ids(history, "item")
    opened = open_run(run)
    with progress_bar("ranking") as report:
        if items is not None:
            lists = recommend_to(opened, items, k, exclude=excluded, only=allowed)
        else:
            lists = lists_of(opened, ids, k, exclude=excluded, only=allowed, progress=report)
    if out is not None:
        write_table(lists, out)
    if items is not None:
        _print_new_user(lists, history or "", out, as_json)
    elif as_json:
        if user is None:
            print_json({"users": lists["user_id"].n_unique(), "rows": lists.height, "out": str(out)})
        else:
            print_json({"user_id": _typed_id(opened, user), "items": lists.drop("user_id").to_dicts()})
    elif out is not None:
        print(f"{lists['user_id'].n_unique():,} users, {lists.height:,} rows: {out}")
    else:
        rows = [(rank, item, f"{score:.4f}") for _, item, rank, score in lists.iter_rows()]
        print_table(["rank", "item", "score"], rows, title=f"for {user}")


def _print_new_user(lists: pl.DataFrame, history: str, out: Path | None, as_json: bool) -> None:
    """Print the list of a user without an id."""
    if as_json:
        print_json({"items": lists.to_dicts()})
    elif out is not None:
        print(f"{lists.height:,} rows: {out}")
    else:
        rows = [(rank, item, f"{score:.4f}") for item, rank, score in lists.iter_rows()]
        print_table(["rank", "item", "score"], rows, title=f"for a history of {history}")


def _typed_id(run: Run, user: str) -> object:
    """The id in its own type, not as text."""
    return run.users.values[run.users.index(user)]
