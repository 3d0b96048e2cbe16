"""Named settings for published figures; docs/results/published.md says how close they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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


PRESETS: dict[str, Preset] = {  # published: SL@K (KDD 2025), Table 2
    "slatk-health-mf": Preset(
        data="amazon2014-health",
        model="mf",
        loss="slatk",
        k=20,
        settings={
            "loss": {"tau": 0.2, "tau_w": 2.5, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.01, "schedule": "constant"},
            "training": {"epochs": 150, "patience": 6},
        },
        published={"ndcg@20": 0.1390, "recall@20": 0.1823},
    ),
    "slatk-electronic-mf": Preset(
        data="amazon2014-electronic",
        model="mf",
        loss="slatk",
        k=20,
        settings={
            "loss": {"tau": 0.2, "tau_w": 2.25, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.01, "schedule": "linear"},
            "training": {"epochs": 60, "batch": 128, "validate_every": 10},
        },
        published={"ndcg@20": 0.0590, "recall@20": 0.0901},
    ),
    "slatk-gowalla-mf": Preset(
        data="gowalla",
        model="mf",
        loss="slatk",
        k=20,
        settings={
            "loss": {"tau": 0.1, "tau_w": 1.0, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.03, "schedule": "linear"},
            "training": {"epochs": 60, "validate_every": 10},
        },
        published={"ndcg@20": 0.1709, "recall@20": 0.2121},
    ),
    "slatk-health-lightgcn": Preset(
        data="amazon2014-health",
        model="lightgcn",
        loss="slatk",
        k=20,
        settings={
            "model": {"layers": 2},
            "loss": {"tau": 0.2, "tau_w": 2.5, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.01, "schedule": "constant"},
            "training": {"epochs": 150, "patience": 6},
        },
        published={"ndcg@20": 0.1371, "recall@20": 0.1783},
    ),
    "slatk-electronic-lightgcn": Preset(
        data="amazon2014-electronic",
        model="lightgcn",
        loss="slatk",
        k=20,
        settings={
            "model": {"layers": 2},
            "loss": {"tau": 0.2, "tau_w": 2.25, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.01, "schedule": "linear"},
            "training": {"epochs": 60, "patience": 3, "batch": 128, "validate_every": 10},
        },
        published={"ndcg@20": 0.0591, "recall@20": 0.0903},
    ),
    "slatk-gowalla-lightgcn": Preset(
        data="gowalla",
        model="lightgcn",
        loss="slatk",
        k=20,
        settings={
            "model": {"layers": 2},
            "loss": {"tau": 0.1, "tau_w": 0.75, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.03, "schedule": "linear"},
            "training": {"epochs": 25, "patience": 3, "validate_every": 5},
        },
        published={"ndcg@20": 0.1729, "recall@20": 0.2128},
    ),
    "slatk-health-xsimgcl": Preset(
        data="amazon2014-health",
        model="xsimgcl",
        loss="slatk",
        k=20,
        settings={
            "model": {"layers": 3, "contrast": 0.01, "init": 0.5},
            "loss": {"tau": 0.2, "tau_w": 2.5, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.01, "schedule": "constant"},
            "training": {"epochs": 150, "patience": 6},
        },
        published={"ndcg@20": 0.1332, "recall@20": 0.1753},
    ),
    "slatk-electronic-xsimgcl": Preset(
        data="amazon2014-electronic",
        model="xsimgcl",
        loss="slatk",
        k=20,
        settings={
            "model": {"layers": 3, "contrast": 0.05, "init": 0.5},
            "loss": {"tau": 0.2, "tau_w": 1.25, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.01, "schedule": "linear"},
            "training": {"epochs": 40, "patience": 3, "batch": 512, "validate_every": 5},
        },
        published={"ndcg@20": 0.0571, "recall@20": 0.0869},
    ),
    "slatk-gowalla-xsimgcl": Preset(
        data="gowalla",
        model="xsimgcl",
        loss="slatk",
        k=20,
        settings={
            "model": {"layers": 3, "contrast": 0.01, "init": 0.5},
            "loss": {"tau": 0.1, "tau_w": 0.75, "weight": "published", "pull": 1.0},
            "optimizer": {"lr": 0.03, "schedule": "linear"},
            "training": {"epochs": 25, "patience": 3, "validate_every": 5, "batch": 512},
        },
        published={"ndcg@20": 0.1717, "recall@20": 0.2095},
    ),
    "sl-health-mf": Preset(
        data="amazon2014-health",
        model="mf",
        loss="sl",
        k=20,
        settings={
            "loss": {"tau": 0.2, "pull": 1.0},
            "optimizer": {"lr": 0.01, "schedule": "constant"},
            "training": {"epochs": 150, "patience": 6},
        },
        published={"ndcg@20": 0.1261, "recall@20": 0.1719},
    ),
    "sl-electronic-mf": Preset(
        data="amazon2014-electronic",
        model="mf",
        loss="sl",
        k=20,
        settings={
            "loss": {"tau": 0.2, "pull": 1.0},
            "optimizer": {"lr": 0.005, "schedule": "linear"},
            "training": {"epochs": 60, "validate_every": 10},
        },
        published={"ndcg@20": 0.0529, "recall@20": 0.0821},
    ),
    "sl-gowalla-mf": Preset(
        data="gowalla",
        model="mf",
        loss="sl",
        k=20,
        settings={
            "loss": {"tau": 0.1, "pull": 1.0},
            "optimizer": {"lr": 0.03, "schedule": "linear"},
            "training": {"epochs": 60, "validate_every": 10},
        },
        published={"ndcg@20": 0.1624, "recall@20": 0.2064},
    ),
}


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
