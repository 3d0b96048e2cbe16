"""How the settings of a registered model or loss are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shortlist.cli.output import print_table

if TYPE_CHECKING:
    from shortlist.parameters import Configured


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
