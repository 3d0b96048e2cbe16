"""How registered models and losses are told, and the settings of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shortlist.cli.output import print_json, print_table

if TYPE_CHECKING:
    from shortlist.parameters import Configured

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, with its settings.")]


def answer(
    kind: str,
    names: Iterable[str],
    name: str | None,
    as_json: bool,
    *,
    facts: Callable[[str], dict[str, Any]],
    tell: Callable[[str], None],
    tell_all: Callable[[], None],
) -> None:
    """One of a kind, or all of it where no name is given: for programs its facts, for people in words."""
    if as_json and name is not None:
        print_json({"name": name, **facts(name)})
    elif as_json:
        print_json({kind: {each: facts(each) for each in names}})
    elif name is not None:
        tell(name)
    else:
        tell_all()


def parameter_facts(registered: type[Configured]) -> dict[str, dict[str, Any]]:
    """Default, range, meaning and search space of every parameter, for programs."""
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
    """The same for people, as a table; nothing where there is nothing to set."""
    rows = []
    for key, parameter in registered.declared.items():
        tuned = "" if parameter.search is None else f"; tuned in {parameter.search}"
        meaning = f"{parameter.help}\n{parameter.allowed()}{tuned}"
        rows.append((f"{section}.{key}", "none" if parameter.default is None else parameter.default, meaning))
    if rows:
        print_table(["setting", "default", "meaning, what is allowed, where tuning looks"], rows, width=width)
