"""Descriptions of registered models and losses, and of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shortlist.cli.output import print_json, print_table

if TYPE_CHECKING:
    from shortlist.parameters import Configured

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Describe this one, with its settings.")]


def print_description(
    kind: str,
    names: Iterable[str],
    name: str | None,
    as_json: bool,
    *,
    facts: Callable[[str], dict[str, Any]],
    print_one: Callable[[str], None],
    print_all: Callable[[], None],
) -> None:
    """Print one class of a kind, or all of them, as JSON or as text."""
    if as_json and name is not None:
        print_json({"name": name, **facts(name)})
    elif as_json:
        print_json({kind: {each: facts(each) for each in names}})
    elif name is not None:
        print_one(name)
    else:
        print_all()


def parameter_facts(registered: type[Configured]) -> dict[str, dict[str, Any]]:
    """Default, range, description and search space of every parameter, for JSON."""
    return {
        key: {
            "default": parameter.default,
            "allowed": parameter.allowed(),
            "help": parameter.help,
            "search": None if parameter.search is None else vars(parameter.search),
        }
        for key, parameter in registered.declared.items()
    }


def print_parameters(section: str, registered: type[Configured], width: int | None = None) -> None:
    """Print the parameters as a table, if there are any."""
    from rich.text import Text

    rows = []
    for key, parameter in registered.declared.items():
        tuned = "" if parameter.search is None else f"; tuned in {parameter.search}"
        meaning = f"{parameter.help}\n{parameter.allowed()}{tuned}"
        default = "none" if parameter.default is None else parameter.default
        rows.append((f"{section}.{key}", default, Text(meaning)))  # it has lines
    if rows:
        print_table(["setting", "default", "meaning, allowed values, search space"], rows, width=width)
