"""Named settings that reproduce published results; docs/results/published.md compares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import yaml

from shortlist.errors import unknown


@dataclass(frozen=True)
class Preset:
    """A model, a loss and their settings under one name, with the published metrics.

    ``published`` holds test metrics under the authors' protocol. ``docs/results/published.md`` describes how the
    settings were found and which have been measured.
    """

    data: str
    model: str
    loss: str
    k: int
    settings: Mapping[str, Mapping[str, Any]]
    published: Mapping[str, float] = field(default_factory=dict)

    def settings_for(self, model: str, loss: str | None) -> dict[str, Mapping[str, Any]]:
        """The settings as defaults for a model and a loss; sections of another model or loss are left out.

        >>> sorted(preset("slatk-health-mf").settings_for("mf", "sl"))
        ['optimizer', 'training']
        """
        fits = {"model": model == self.model, "loss": loss == self.loss}
        return {section: values for section, values in self.settings.items() if fits.get(section, True)}


def _read() -> dict[str, Preset]:
    """Read the presets of the library. Names have the form ``LOSS-DATASET-MODEL``."""
    content = yaml.safe_load((files("shortlist.experiment") / "presets.yaml").read_text(encoding="utf-8"))
    found = {}
    for name, settings in content["presets"].items():
        loss, data, model = name.split("-")
        published = settings.pop("published")
        found[name] = Preset(content["sets"][data], model, loss, content["k"], settings, published)
    return found


PRESETS: dict[str, Preset] = _read()
"""All presets by name."""


def preset(name: str) -> Preset:
    """Look up a preset by name.

    >>> preset("slatk-helth-mf")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: presets: unknown name 'slatk-helth-mf'; did you mean 'slatk-health-mf'? (known: ...)
    """
    if name not in PRESETS:
        raise unknown("presets", "name", name, PRESETS)
    return PRESETS[name]
