"""Descriptions of losses for the command and for pages: families, summaries, negatives."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from shortlist.losses.base import Loss, registry


@dataclass(frozen=True)
class Family:
    """Related losses, defined in one file."""

    name: str
    """The file's name: ``softmax``."""

    title: str
    """The title in the file's docstring."""

    about: str
    """What they have in common."""

    losses: tuple[str, ...]


def families(names: Iterable[str] | None = None) -> list[Family]:
    """The families of the given registered losses, or of all; this library's families come first.

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
    """The name of the file that defines the loss, with the package name for losses of other packages."""
    return loss.__module__.removeprefix("shortlist.losses.")


def is_own(loss: type[Loss]) -> bool:
    """Whether the loss belongs to this library, not to another package."""
    return loss.__module__.startswith("shortlist.")


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring, in one line.

    >>> summary(registry["bpr"])
    'Bayesian personalised ranking.'
    """
    return _first_paragraph(cls.__doc__)


def against(loss: type[Loss]) -> str:
    """The negatives that a positive is compared with by default.

    >>> against(registry["sl"]), against(registry["bpr"])
    ('all items', '1 negative drawn for each positive')
    """
    if loss.sampled is None:
        return "all items"
    return f"{loss.sampled} negative{'s' if loss.sampled > 1 else ''} drawn for each positive"


def _first_paragraph(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())
