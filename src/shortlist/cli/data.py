"""`shortlist data`: inspect data, list and download public datasets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.cli.load_flags import load_options, print_notes, with_load_flags
from shortlist.cli.output import AsJson, echo, print_json, print_table
from shortlist.cli.settings import Data
from shortlist.formatting import format_value
from shortlist.progress import progress_bar

data = typer.Typer(
    help="Inspect data; list and download public datasets.", rich_markup_mode="rich", no_args_is_help=False
)


@data.command()
@with_load_flags
def info(
    source: Data,
    flags: dict[str, str],
    as_json: AsJson = False,
) -> None:
    """Show sizes, density, distributions of activity and popularity, and possible problems of the data.

    [bold]Examples[/bold]

    shortlist data info clicks.csv

    shortlist data info ml-1m.zip --min-rating 3 --core 10 --json
    """
    from shortlist.data import load
    from shortlist.data.statistics import describe

    options = load_options(flags)
    with progress_bar(f"reading {source}"):
        split = load(source, options)
    print_notes(split)
    facts = describe(split)
    if as_json:
        print_json({"source": source, **facts})
    else:
        _show(source, facts)


@data.command(name="list")
def list_sets(
    folder: Annotated[Path | None, typer.Option("--folder", help="Folder of the datasets.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the built-in dataset and the public datasets that can be downloaded.

    [bold]Example[/bold]

    shortlist data list
    """
    from shortlist.data import datasets as registry
    from shortlist.data.builtin import DEBIAN, DEBIAN_NAME
    from shortlist.data.public_sets import SETS

    places = {name: registry.find(name, folder=folder) for name in SETS}
    if as_json:
        print_json({"sets": {DEBIAN_NAME: {"built_in": True, **asdict(DEBIAN)}, **_as_facts(places)}})
        return
    rows = [(DEBIAN_NAME, "Which packages a Debian source package needs", f"{DEBIAN.interactions:,}", "built in")]
    for name, known in SETS.items():
        rows.append((name, known.title, f"{known.interactions:,}", "downloaded" if places[name] else "available"))
    print_table(["name", "what", "interactions", "state"], rows)
    for terms in dict.fromkeys(known.terms for known in SETS.values()):
        echo(f"{', '.join(name for name, known in SETS.items() if known.terms == terms)}: {terms}")


def _as_facts(places: dict[str, Path | None]) -> dict[str, dict[str, Any]]:
    from shortlist.data.public_sets import SETS

    return {
        name: {
            "built_in": False,
            "title": known.title,
            "page": known.page,
            "interactions": known.interactions,
            "terms": known.terms,
            "file": None if places[name] is None else str(places[name]),
        }
        for name, known in SETS.items()
    }


@data.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from `shortlist data list`.")],
    folder: Annotated[Path | None, typer.Option("--folder", help="Folder to save it to.")] = None,
    from_file: Annotated[Path | None, typer.Option("--from-file", help="Read it from a local file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Download a public dataset and verify it. An interrupted download is resumed.

    [bold]Examples[/bold]

    shortlist data get ml-1m

    shortlist data get ml-1m --from-file ~/Downloads/ml-1m.zip
    """
    from shortlist.data import datasets as registry

    with progress_bar(f"downloading {name}") as report:
        path = registry.get(name, folder=folder, from_file=from_file, progress=report)
    if as_json:
        print_json({"name": name, "file": str(path)})
    else:
        echo(path)


def _time_span(time: dict[str, Any]) -> str:
    """First and last time: as dates where they are dates or Unix times."""
    first, last = (time[f"{end}_date"] or f"{time[end]:,}" for end in ("first", "last"))
    return f"{first} to {last}"


def _show(source: str, facts: dict[str, Any]) -> None:
    spreads = [key for key, value in facts.items() if isinstance(value, dict) and "median" in value]
    plain = [
        (key.replace("_", " "), _time_span(value) if key == "time" else format_value(value))
        for key, value in facts.items()
        if key not in spreads and value is not None
    ]
    print_table(["fact", "value"], plain, title=source)
    quantiles = list(facts[spreads[0]])
    labels = {"activity": "items per user", "popularity": "users per item"}
    rows = [(labels.get(key, key), *(format_value(facts[key][quantile]) for quantile in quantiles)) for key in spreads]
    print_table(["spread", *quantiles], rows)
