"""What losses say of themselves, for the command and for pages: their families, who stands against a positive."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from shortlist.losses.base import Loss, registry


@dataclass(frozen=True)
class Family:
    """Losses that differ by little and stand side by side in one file."""

    name: str
    """The file's name: ``softmax``."""

    title: str
    """What the file's docstring calls them."""

    about: str
    """What they have in common."""

    losses: tuple[str, ...]


def families(names: Iterable[str] | None = None) -> list[Family]:
    """The families of some registered losses, or of all; this library's own come first.

    >>> [(family.name, family.losses) for family in families(["sl", "bpr", "bce"])]
    [('pairwise', ('bpr',)), ('pointwise', ('bce',)), ('softmax', ('sl',))]
    >>> families(["bpr"])[0].title
    'Pairwise losses'
    """
    modules: dict[str, list[str]] = {}
    for name in sorted(registry if names is None else names):
        modules.setdefault(registry[name].__module__, []).append(name)
    own_first = sorted(modules, key=lambda module: (not is_own(registry[modules[module][0]]), module))
    return [_family(modules[module]) for module in own_first]


def _family(names: list[str]) -> Family:
    loss = registry[names[0]]
    title, _, about = _first_paragraph(sys.modules[loss.__module__].__doc__).partition(": ")
    return Family(family_name(loss), title.rstrip(".") or family_name(loss), about, tuple(names))


def family_name(loss: type[Loss]) -> str:
    """The name of the file that holds the loss, with that of its package where it is another than this."""
    return loss.__module__.removeprefix("shortlist.losses.")


def is_own(loss: type[Loss]) -> bool:
    """Whether the loss is this library's, and not one of another package."""
    return loss.__module__.startswith("shortlist.")


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring, in one line.

    >>> summary(registry["bpr"])
    'Bayesian personalised ranking.'
    """
    return _first_paragraph(cls.__doc__)


def against(loss: type[Loss]) -> str:
    """Who stands against a positive, unless training is told otherwise.

    >>> against(registry["sl"]), against(registry["bpr"])
    ('all items', '1 negative drawn for each positive')
    """
    if loss.sampled is None:
        return "all items"
    return f"{loss.sampled} negative{'s' if loss.sampled > 1 else ''} drawn for each positive"


def _first_paragraph(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())
