"""The flags that say how data is read and split: one for each of ``LoadOptions``, for every command that reads data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from shortlist.data import LoadOptions

FLAGS = {
    "user": ("COLUMN", "Column of the user; guessed if not given."),
    "item": ("COLUMN", "Column of the item; guessed if not given."),
    "weight": ("COLUMN", "Column of the weight or rating; '-' reads none."),
    "time": ("COLUMN", "Column of the time; '-' reads none."),
    "delimiter": ("TEXT", "What stands between fields, such as ',' or '::'."),
    "min_rating": ("NUMBER", "Leave out rows with a lower weight or rating."),
    "core": ("N", "Leave out users and items with fewer pairs, until none is left."),
    "split": ("HOW", "How a single table is split: random, last or time."),
    "test_share": ("SHARE", "Share of each user's items for test, for split random."),
    "valid_share": ("SHARE", "Share of each user's training items for validation; 0 for none."),
    "last": ("N", "Each user's last items for test, and before them for validation, for split last."),
    "at": ("TIME", "When test begins, for split time."),
    "cold_users": ("WHAT", "Users left without training items by last or time: error or drop."),
    "protocol": ("NAME", "shortlist, or irbenchmark: validation and exclusion as by SL@K's authors."),
    "noise": ("SHARE", "False positives mixed into train, as a share of each user's items."),
    "seed": ("N", "Seed of everything that is drawn."),
}
"""Metavariable and help of each option. Written down here because the options' own module takes long to import."""


def with_load_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags; it receives those that were given, as texts, in its argument ``flags``."""
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
    """The options that the flags say."""
    from shortlist.data import LoadOptions

    return LoadOptions.from_text(flags)
