"""`shortlist recommend`: lists of recommendations by external ids."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from shortlist.cli.evaluate import RunFolder
from shortlist.cli.output import AsJson, echo, print_json, print_table
from shortlist.errors import InputError
from shortlist.formatting import plain
from shortlist.progress import progress_bar

if TYPE_CHECKING:
    import polars as pl

    from shortlist.recommend import Skipped
    from shortlist.recommend.recommend import ColumnNames, UnknownUsers
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
    as_measured: Annotated[
        bool,
        typer.Option("--as-measured", help="The lists that were measured: items of the test part may be in them."),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unknown ids instead of skipping them.")] = False,
    names: Annotated[
        Path | None,
        typer.Option(
            "--names", metavar="TABLE", help="Titles of items: .csv, .tsv or .parquet with columns item and title."
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option("--columns", metavar="standard|data", help="Names of the columns: user_id, item_id, or data's."),
    ] = "standard",
    as_json: AsJson = False,
) -> None:
    """Recommend items to one user or to many, by external ids.

    Lists leave out every item that the data has for the user: train, validation and test. --as-measured leaves out only
    what the evaluation did.

    --history recommends to a user who was not in training, by a model of vectors (mf, lightgcn, ials, …), EASE, ItemKNN
    or popularity.

    Unknown ids in --users FILE, --only, --exclude and --history are skipped, with their number on stderr; --strict
    refuses them.

    [bold]Examples[/bold]

    shortlist recommend runs/ease --user flask --k 10

    shortlist recommend runs/ease --users all --k 20 --out lists.parquet

    shortlist recommend runs/ease --users some.txt --only in_stock.txt --exclude a17,b4 --out lists.csv

    shortlist recommend runs/mf --history python3-numpy,python3-scipy --k 10

    shortlist recommend runs/mf --users all --names titles.csv --columns data --out lists.csv
    """
    from shortlist.cli.files import check_out, read_ids, write_table
    from shortlist.data.titles import read_titles
    from shortlist.recommend import recommend as lists_of
    from shortlist.recommend import recommend_parts, recommend_to
    from shortlist.recommend.recommend import add_titles, column_names
    from shortlist.runs import open_run

    _check_options(user, users, history, out)
    if out is not None:
        check_out(out, run=run)
    ids = [user] if users is None else None if users == ALL_USERS else read_ids(users, "user")
    excluded, allowed = read_ids(exclude, "item"), read_ids(only, "item")
    items = read_ids(history, "item")
    titles = None if names is None else read_titles(names)
    opened = open_run(run)
    naming = column_names(opened, cast("ColumnNames", columns))
    item_column, user_column = naming.get("item_id", "item_id"), naming.get("user_id", "user_id")
    unknown: dict[str, int] = {}

    def on_skipped(skipped: Skipped) -> None:
        unknown[skipped.what] = len(skipped.ids)
        print(f"shortlist: --{plain(str(skipped))}", file=sys.stderr)

    options: dict[str, Any] = {"exclude": excluded, "only": allowed, "strict": strict, "on_skipped": on_skipped}
    options |= {"filter_seen": "measured" if as_measured else True, "columns": columns}
    missing: UnknownUsers = "error" if user is not None or strict else "skip"
    if users is not None and out is not None:
        with progress_bar("ranking") as report:
            parts = recommend_parts(opened, ids, k, unknown_users=missing, progress=report, **options)
            titled = parts if titles is None else (add_titles(part, titles, item_column) for part in parts)
            n_rows, n_users = _write_all(titled, out, user_column)
        if as_json:
            counted = {"unknown": unknown} if unknown else {}
            print_json({"users": n_users, "rows": n_rows, "out": str(out), **counted})
        else:
            echo(f"{n_users:,} users, {n_rows:,} rows: {out}")
        return
    with progress_bar("ranking") as report:
        if items is not None:
            lists = recommend_to(opened, items, k, **options)
        else:
            lists = lists_of(opened, ids, k, unknown_users=missing, progress=report, **options)
    if titles is not None:
        lists = add_titles(lists, titles, item_column)
    if out is not None:
        write_table(lists, out)
    counted = {"unknown": unknown} if unknown else {}
    if as_json:
        if user is not None:
            print_json({user_column: _typed_id(opened, user), "items": lists.drop(user_column).to_dicts(), **counted})
        else:
            print_json({"items": lists.to_dicts(), **counted})
    elif out is not None:
        counted_users = "" if items is not None else f"{lists[user_column].n_unique():,} users, "
        echo(f"{counted_users}{lists.height:,} rows: {out}")
    else:
        _print_list(lists, item_column, f"for {user}" if items is None else f"for a history of {history}")


def _check_options(user: str | None, users: str | None, history: str | None, out: Path | None) -> None:
    """Check that lists are asked for in one way, and that those of many users have a file."""
    given = [
        name for name, value in (("--user", user), ("--users", users), ("--history", history)) if value is not None
    ]
    if len(given) != 1:
        received = " and ".join(given) or "none"
        raise InputError(f"recommend: expected one of --user ID, --users all|FILE, --history a,b, received {received}")
    if users is not None and out is None:
        raise InputError("recommend: expected --out FILE.parquet or FILE.csv with --users, received none")


def _write_all(parts: Iterator[pl.DataFrame], out: Path, user_column: str) -> tuple[int, int]:
    """Write lists part by part. Returns the number of rows, and that of users with a list."""
    from shortlist.cli.files import write_parts

    users: set[object] = set()

    def counted() -> Iterator[pl.DataFrame]:
        for part in parts:
            users.update(part[user_column].unique().to_list())
            yield part

    n_rows = write_parts(counted(), out)
    return n_rows, len(users)


def _print_list(lists: pl.DataFrame, item_column: str, title: str) -> None:
    """Print one list as a table, with titles if it has them."""
    label = "item" if item_column == "item_id" else item_column
    shown = ["rank", item_column, *(["title"] if "title" in lists.columns else []), "score"]
    rows = [
        (*("" if cell is None else cell for cell in row[:-1]), f"{row[-1]:.4f}")
        for row in lists.select(shown).iter_rows()
    ]
    print_table([label if name == item_column else name for name in shown], rows, title=title)


def _typed_id(run: Run, user: str) -> object:
    """The id in its own type, not as text."""
    return run.users.values[run.users.index(user)]
