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


def print_parameters(section: str, registered: type[Configured]) -> None:
    """The same for people, as a table; nothing where there is nothing to set."""
    rows = [
        (f"{section}.{key}", parameter.default, parameter.allowed(), parameter.help)
        for key, parameter in registered.declared.items()
    ]
    if rows:
        print_table(["setting", "default", "allowed", "meaning"], rows)
