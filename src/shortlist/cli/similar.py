"""`shortlist similar`: the items that a model holds most similar to others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.evaluate import RunFolder
from shortlist.cli.output import AsJson, echo, print_json, print_table
from shortlist.errors import InputError
from shortlist.formatting import format_number
from shortlist.progress import progress_bar


def similar(
    run: RunFolder,
    item: Annotated[str | None, typer.Option("--item", metavar="ID", help="One item, by id.")] = None,
    items: Annotated[str | None, typer.Option("--items", metavar="FILE|a,b", help="Several items.")] = None,
    k: Annotated[int, typer.Option("--k", help="Length of the lists.")] = 20,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write .parquet or .csv.")] = None,
    exclude: Annotated[
        str | None, typer.Option("--exclude", metavar="FILE|a,b", help="Items that must not be listed.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="FILE|a,b", help="The only items to list.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the items most similar to one or to several, by the model's own idea of similarity.

    Models of vectors compare item vectors by their cosine; EASE and ItemKNN have weights between items.

    [bold]Examples[/bold]

    shortlist similar runs/mf --item python3-numpy --k 10

    shortlist similar runs/ease --items catalogue.txt --k 20 --out similar.parquet
    """
    from shortlist.cli.files import check_out, read_ids, write_table
    from shortlist.recommend import similar as similar_items
    from shortlist.runs import open_run

    if (item is None) == (items is None):
        received = "none" if item is None else "both"
        raise InputError(f"similar: expected one of --item ID, --items FILE|a,b, received {received}")
    if out is not None:
        check_out(out, run=run)
    asked = [item] if item is not None else read_ids(items, "item")
    excluded, listed = read_ids(exclude, "item"), read_ids(only, "item")
    opened = open_run(run)
    with progress_bar("ranking"):
        table = similar_items(opened, asked or [], k, exclude=excluded, only=listed)
    if out is not None:
        write_table(table, out)
    if as_json:
        print_json({"rows": table.height, "out": str(out)} if out is not None else {"items": table.to_dicts()})
    elif out is not None:
        echo(f"{table['item_id'].n_unique():,} items, {table.height:,} rows: {out}")
    else:
        rows = [(of, rank, found, format_number(score)) for of, found, rank, score in table.iter_rows()]
        print_table(["item", "rank", "similar item", "score"], rows)
