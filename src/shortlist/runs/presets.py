"""Named settings that reach published figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shortlist.errors import unknown


@dataclass(frozen=True)
class Preset:
    """A model, a loss and their settings, under one name."""

    summary: str
    model: str
    loss: str
    k: int
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


PRESETS: dict[str, Preset] = {}


def preset(name: str) -> Preset:
    """The preset of a name.

    >>> preset("slatk-helth-mf")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: presets: unknown name 'slatk-helth-mf'; did you mean 'slatk-health-mf'? (known: ...)
    """
    if name not in PRESETS:
        raise unknown("presets", "name", name, PRESETS)
    return PRESETS[name]
