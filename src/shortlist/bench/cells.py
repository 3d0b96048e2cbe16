"""The cells of a grid: one model trained once, each with a folder of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shortlist.bench.spec import Spec
from shortlist.runs import Plan, plan

PROTOCOL = "irbenchmark"
"""How data is split unless a specification says otherwise: as the authors of SL@K do."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of the grid. ``settings`` are by section; a baseline has no loss."""

    dataset: str
    model: str
    loss: str
    variant: str
    seed: int
    k: int
    settings: Mapping[str, Mapping[str, Any]]

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Where in the grid it stands, the seed aside."""
        return self.dataset, self.model, self.loss, self.variant

    def plan(self) -> Plan:
        """What is fitted and how; bad settings are said here."""
        sections = {section: values for section, values in self.settings.items() if section != "data"}
        return plan(self.model, self.loss or None, self.k, values=sections)

    def data_options(self) -> dict[str, Any]:
        """How the dataset is read."""
        return {"protocol": PROTOCOL, **self.settings.get("data", {}), "seed": self.seed}

    def folder(self, fingerprint: str) -> str:
        """A name for people with a key for changes: other settings or other data give another folder."""
        content = json.dumps([self.plan().config(), self.settings, self.data_options(), fingerprint], sort_keys=True)
        key = hashlib.blake2b(content.encode(), digest_size=5).hexdigest()
        words = [word for word in (self.dataset, self.model, self.loss, self.variant) if word]
        return "-".join([*words, f"seed{self.seed}", key]).replace("/", "_")


def cells(spec: Spec) -> Iterator[Cell]:
    """All cells of a specification, a seed of each before the next one: early results are broad.

    >>> from shortlist.bench import read_spec
    >>> first = next(cells(read_spec("slatk-table18")))
    >>> first.dataset, first.model, first.seed
    ('movielens-100k', 'mf', 0)
    """
    fitted = [*((model, loss) for model in spec.models for loss in spec.losses), *((b, "") for b in spec.baselines)]
    for seed in spec.seeds:
        for dataset in spec.datasets:
            for model, loss in fitted:
                for variant in spec.variants:
                    place = {"dataset": dataset, "model": model, "loss": loss, "variant": variant}
                    yield Cell(**place, seed=seed, k=spec.k, settings=_settings(spec, place))


def _settings(spec: Spec, place: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What the rules say for a place, then its variant, by section. What a baseline has no use for is left out."""
    chosen: dict[str, dict[str, Any]] = {}
    rules = [rule.set for rule in spec.settings if rule.applies(place)]
    for values in [*rules, spec.variants[place["variant"]]]:
        for key, value in values.items():
            section, _, name = key.partition(".")
            if place["loss"] or section in ("model", "data"):
                chosen.setdefault(section, {})[name] = value
    return chosen
