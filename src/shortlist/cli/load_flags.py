"""Command-line options for reading and splitting data: one for each parameter of ``LoadOptions``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from shortlist.data import LoadOptions

FLAGS = {
    "user": ("COLUMN", "User column; guessed if not given."),
    "item": ("COLUMN", "Item column; guessed if not given."),
    "weight": ("COLUMN", "Weight or rating column; '-' reads none."),
    "time": ("COLUMN", "Time column; '-' reads none."),
    "delimiter": ("TEXT", "Field delimiter, such as ',' or '::'."),
    "min_rating": ("NUMBER", "Drop rows with a lower weight or rating."),
    "core": ("N", "Drop users and items with fewer pairs, repeatedly (k-core)."),
    "split": ("HOW", "Split of a single table: random, last or time."),
    "test_share": ("SHARE", "Fraction of each user's items for test (split random)."),
    "valid_share": ("SHARE", "Fraction of each user's training items for validation; 0 for none."),
    "last": ("N", "Number of last items of each user for test, and before them for validation (split last)."),
    "at": ("TIME", "Time at which test begins (split time)."),
    "cold_users": ("WHAT", "Users without training items after split last or time: error or drop."),
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


def load_options(flags: dict[str, str]) -> LoadOptions:
    """Parse the options."""
    from shortlist.data import LoadOptions

    return LoadOptions.from_text(flags)
