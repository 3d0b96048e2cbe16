"""Shared options of commands, and parsers of ``--set model.regularization=300``, ``--ks 5,10,20`` and ``--seeds``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from shortlist.errors import InputError, unknown
from shortlist.parameters import LARGEST_SEED

Data = Annotated[str, typer.Argument(metavar="DATA", help="Folder, table, archive or registered name.")]
Model = Annotated[str | None, typer.Option("--model", help="Model to fit; see `shortlist models`.")]
Loss = Annotated[
    str | None,
    typer.Option("--loss", help="Loss to train with; see `shortlist losses`. Default: that of the model."),
]
K = Annotated[int | None, typer.Option("--k", help="Length of the recommended list. Default: 20.")]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="LOSS-SET-MODEL",
        help="Defaults that reproduce a published result: slatk, sl or bpr; health, electronic or gowalla; "
        "mf, lightgcn or xsimgcl; also slatk-yelp2018-lightgcn, slatk-yelp2018-xsimgcl and sl-yelp2018-lightgcn. "
        "Example: slatk-health-mf.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.KEY=VALUE", help="A setting, such as model.regularization=300. Can be repeated."
    ),
]
Ks = Annotated[
    str | None,
    typer.Option("--ks", metavar="K,K,…", help="List lengths to evaluate. Default: 5,10,20,50,100."),
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="TRACKER",
        help="Also log to tensorboard[=DIR] or mlflow[=URI]. Can be repeated.",
    ),
]


class Request(NamedTuple):
    """A requested training: names, K, the settings of a preset, and those of the command line."""

    model: str
    loss: str | None
    k: int
    values: Mapping[str, Mapping[str, Any]]
    texts: Mapping[str, Mapping[str, str]]


def parse_request(
    model: str | None, loss: str | None, k: int | None, preset: str | None, settings: list[str] | None
) -> Request:
    """Combine a preset, if there is one, with the options of the command line, which take precedence.

    >>> parse_request("ease", None, None, None, None)[:3]
    ('ease', None, 20)
    """
    from shortlist.experiment import SECTIONS
    from shortlist.experiment import preset as preset_of
    from shortlist.losses import registry as losses

    loss = None if loss is None else losses.resolve(loss)
    texts = parse_settings(settings, SECTIONS)
    if preset is None:
        return Request(model or "mf", loss, 20 if k is None else k, {}, texts)
    start = preset_of(preset)
    model = model or start.model
    loss = loss or (start.loss if model == start.model else None)
    return Request(model, loss, start.k if k is None else k, start.settings_for(model, loss), texts)


def parse_settings(texts: Iterable[str] | None, sections: Sequence[str] = ("model",)) -> dict[str, dict[str, str]]:
    """Settings by section and key. Values are validated where the key is declared.

    >>> parse_settings(["model.neighbours=50", "model.shrinkage=10"])
    {'model': {'neighbours': '50', 'shrinkage': '10'}}
    """
    settings: dict[str, dict[str, str]] = {section: {} for section in sections}
    for text in texts or ():
        name, equals, value = text.partition("=")
        section, dot, key = name.strip().partition(".")
        if not equals or not dot or not key:
            raise InputError(f"--set: expected SECTION.KEY=VALUE, such as {sections[0]}.name=1, received {text!r}")
        if section not in settings:
            raise unknown("--set", "section", section, sections)
        settings[section][key] = value.strip()
    return settings


def parse_ks(text: str | None) -> list[int] | None:
    """Parse list lengths such as ``5,10,20``."""
    if text is None:
        return None
    try:
        ks = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--ks: expected whole numbers, such as 5,10,20, received {text!r}") from None
    if min(ks) < 1:
        raise InputError(f"--ks: expected whole numbers of at least 1, received {text!r}")
    return ks


def parse_seeds(text: str) -> list[int]:
    """Parse seeds such as ``0,1,2``."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--seeds: expected whole numbers, such as 0,1,2, received {text!r}") from None
    if not 0 <= min(seeds) <= max(seeds) <= LARGEST_SEED:
        raise InputError(f"--seeds: expected whole numbers from 0 to {LARGEST_SEED}, received {text!r}")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds: expected each once, received {text!r}")
    return seeds
