"""What several commands take, and texts turned into settings: ``--set model.regularization=300``, ``--ks 5,10,20``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from shortlist.errors import InputError, unknown
from shortlist.parameters import LARGEST_SEED

Data = Annotated[str, typer.Argument(metavar="DATA", help="A folder, table, archive or registered name.")]
Model = Annotated[str | None, typer.Option("--model", help="Which model; `shortlist models` lists them.")]
Loss = Annotated[
    str | None,
    typer.Option("--loss", help="Which loss (`shortlist losses` lists them); the model's own choice if none."),
]
K = Annotated[int | None, typer.Option("--k", help="Length of the list that is shown; 20 unless given.")]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="LOSS-SET-MODEL",
        help="Settings for a published figure, as a start: slatk, sl or bpr; health, electronic or gowalla; "
        "mf, lightgcn or xsimgcl; also slatk-yelp2018-lightgcn, slatk-yelp2018-xsimgcl and sl-yelp2018-lightgcn. "
        "For instance slatk-health-mf.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.KEY=VALUE", help="A setting, e.g. model.regularization=300. Can be given often."
    ),
]
Ks = Annotated[
    str | None,
    typer.Option("--ks", metavar="K,K,…", help="Lengths of list to measure; 5,10,20,50,100 unless given."),
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="SINK",
        help="Also tell tensorboard[=DIR] or mlflow[=URI] how it goes. Can be given often.",
    ),
]


class Request(NamedTuple):
    """What is to be fitted, as a plan takes it: names, K, the settings of a preset, and those that were typed."""

    model: str
    loss: str | None
    k: int
    values: Mapping[str, Mapping[str, Any]]
    texts: Mapping[str, Mapping[str, str]]


def asked(
    model: str | None, loss: str | None, k: int | None, preset: str | None, settings: list[str] | None
) -> Request:
    """What the command line asks for: a preset's choices where there is one, and what is given over them.

    >>> asked("ease", None, None, None, None)[:3]
    ('ease', None, 20)
    """
    from shortlist.experiment import SECTIONS
    from shortlist.experiment import preset as preset_of

    texts = parse_settings(settings, SECTIONS)
    if preset is None:
        return Request(model or "mf", loss, 20 if k is None else k, {}, texts)
    start = preset_of(preset)
    model = model or start.model
    loss = loss or (start.loss if model == start.model else None)
    return Request(model, loss, start.k if k is None else k, start.settings_for(model, loss), texts)


def parse_settings(texts: Iterable[str] | None, sections: Sequence[str] = ("model",)) -> dict[str, dict[str, str]]:
    """The texts by section and key; what they mean is checked where the key is declared.

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
    """Lengths of list from ``5,10,20``; nothing if none are given."""
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
    """Seeds from ``0,1,2``."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--seeds: expected whole numbers, such as 0,1,2, received {text!r}") from None
    if not 0 <= min(seeds) <= max(seeds) <= LARGEST_SEED:
        raise InputError(f"--seeds: expected whole numbers from 0 to {LARGEST_SEED}, received {text!r}")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds: expected each once, received {text!r}")
    return seeds
