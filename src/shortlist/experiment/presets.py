"""Named settings for published figures; docs/results/published.md says how close they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import yaml

from shortlist.errors import unknown


@dataclass(frozen=True)
class Preset:
    """A model, a loss and their settings under one name, with the figures that were published for them.

    ``published`` are test figures under the authors' protocol. How the settings were come by, and which have been
    measured, is in ``docs/results/published.md``.
    """

    data: str
    model: str
    loss: str
    k: int
    settings: Mapping[str, Mapping[str, Any]]
    published: Mapping[str, float] = field(default_factory=dict)

    def settings_for(self, model: str, loss: str | None) -> dict[str, Mapping[str, Any]]:
        """The settings as a start for a model and a loss: those of the preset's own are left out for others.

        >>> sorted(preset("slatk-health-mf").settings_for("mf", "sl"))
        ['optimizer', 'training']
        """
        fits = {"model": model == self.model, "loss": loss == self.loss}
        return {section: values for section, values in self.settings.items() if fits.get(section, True)}


def _read() -> dict[str, Preset]:
    """The presets that come with the library. A name says the loss, the set and the model."""
    told = yaml.safe_load((files("shortlist.experiment") / "presets.yaml").read_text(encoding="utf-8"))
    found = {}
    for name, settings in told["presets"].items():
        loss, data, model = name.split("-")
        published = settings.pop("published")
        found[name] = Preset(told["sets"][data], model, loss, told["k"], settings, published)
    return found


PRESETS: dict[str, Preset] = _read()
"""All presets by name."""


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
