"""Command-line options for reading and splitting data: one for each parameter of ``LoadOptions``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from shortlist.data import LoadOptions, Split

FLAGS = {
    "user": ("COLUMN", "User column; guessed if not given."),
    "item": ("COLUMN", "Item column; guessed if not given."),
    "weight": ("COLUMN", "Weight or rating column; '-' reads none."),
    "time": ("COLUMN", "Time column; '-' reads none."),
    "delimiter": ("TEXT", "Field delimiter, such as ',' or '::'."),
    "min_rating": ("NUMBER", "Drop rows with a lower weight or rating."),
    "core": ("N", "Drop users and items with fewer pairs, repeatedly (k-core)."),
    "split": ("HOW", "Split of a single table: random, last or time. Default: random."),
    "test_share": ("SHARE", "Fraction of each user's items for test (split random); 0 for none."),
    "valid_share": (
        "SHARE",
        "Fraction of training items for validation: of each user, or the last by time; 0 for none.",
    ),
    "last": ("N", "Last items of each user for test, and as many before them for validation; implies split last."),
    "at": ("TIME", "Time at which test begins, such as 2024-06-01; implies split time."),
    "cold_users": ("WHAT", "Users without training items: drop (default of split time) or error (of split last)."),
    "on_bad_rows": ("WHAT", "Rows that cannot be read: error (default) or skip, with a count."),
    "protocol": ("NAME", "shortlist, or irbenchmark: validation and exclusion of SL@K's authors."),
    "noise": ("SHARE", "False positives added to train, as a fraction of each user's items."),
    "seed": ("N", "Random seed."),
}
"""Metavariable and help of each option. They are repeated here because importing ``LoadOptions`` is slow."""


def with_load_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command; it receives the given ones, as strings, in its argument ``flags``."""
    own = [parameter for name, parameter in inspect.signature(command).parameters.items() if name != "flags"]
    hints = get_type_hints(command, include_extras=True)
    added = {
        name: Annotated[
            str | None,
            typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=help, rich_help_panel="Data"),
        ]
        for name, (metavar, help) in FLAGS.items()
    }

    @wraps(command)
    def with_flags(**values: Any) -> None:
        texts = {name: values.pop(name) for name in FLAGS}
        command(**values, flags={name: text for name, text in texts.items() if text is not None})

    keyword = inspect.Parameter.KEYWORD_ONLY
    flags = [inspect.Parameter(name, keyword, default=None, annotation=hint) for name, hint in added.items()]
    parameters = [parameter.replace(kind=keyword, annotation=hints[parameter.name]) for parameter in own]
    with_flags.__signature__ = inspect.Signature([*parameters, *flags])  # type: ignore[attr-defined]
    with_flags.__annotations__ = {name: hint for name, hint in hints.items() if name not in {"flags", "return"}} | added
    return with_flags


def print_notes(split: Split) -> None:
    """Print what people should know about how the data was read and split, to stderr."""
    for note in split.notes:
        print("shortlist:", " ".join(as_flags(note).split()), file=sys.stderr)


def as_flags(message: str) -> str:
    """A message with the options of the command line instead of their names in Python.

    >>> as_flags("LoadOptions.cold_users: expected one of 'error', 'drop', received 'x'")
    "--cold-users: expected one of 'error', 'drop', received 'x'"
    """
    return re.sub(r"\bLoadOptions\.(\w+)", lambda name: f"--{name[1].replace('_', '-')}", message)


def load_options(flags: dict[str, str]) -> LoadOptions:
    """Parse the options."""
    from shortlist.data import LoadOptions

    return LoadOptions.from_text(flags)
