"""What is to be measured: a small file, or the name of one that comes with the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shortlist.data import LoadOptions
from shortlist.errors import InputError, unknown
from shortlist.losses import registry as losses
from shortlist.models import Baseline
from shortlist.models import registry as models
from shortlist.runs import SECTIONS

_SHIPPED = files("shortlist.bench") / "specs"

SHIPPED: tuple[str, ...] = tuple(sorted(entry.name.removesuffix(".yaml") for entry in _SHIPPED.iterdir()))
"""Names of the specifications that come with the library."""

AXES = ("dataset", "model", "loss", "variant")
"""What a cell of the grid is told apart by, the seed aside."""

Names = Annotated[list[str], Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Strict):
    """Settings for some cells of the grid: those that agree with ``when`` in every axis that it names."""

    when: dict[str, str | list[str]] = {}
    set: dict[str, Any]

    def applies(self, place: Mapping[str, str]) -> bool:
        """Whether a cell at this place takes the settings."""
        return all(place[axis] in ([names] if isinstance(names, str) else names) for axis, names in self.when.items())


class PublishedFigures(_Strict):
    """Which published table stands beside the results, and what our names are called there.

    A loss's name may be followed by a variant's: ``slatk/k5``.
    """

    table: str
    where: dict[str, str] = {}
    names: dict[str, str] = {}


class Spec(_Strict):
    """A grid of datasets × (models × losses, baselines) × variants × seeds, with settings by rule; later rules win.

    Keys of settings are those of ``--set`` (``loss.tau``, ``training.epochs``, …) and, for how data is read,
    ``data.protocol`` and its like.
    """

    title: str
    about: str = ""
    k: int = Field(default=20, ge=1)
    metrics: Names = ["ndcg@20", "recall@20"]
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = [0, 1, 2]
    datasets: Names
    models: Names = ["mf"]
    losses: list[str] = []
    baselines: list[str] = []
    variants: dict[str, dict[str, Any]] = {"": {}}
    settings: list[Rule] = []
    published: PublishedFigures | None = None


def read_spec(source: str | Path) -> Spec:
    """The specification in a file, or a shipped one by its name.

    >>> read_spec("slatk-table18").k
    20
    """
    path = Path(source)
    if path.is_file():
        text, owner = path.read_text(encoding="utf-8"), path.name
    elif str(source) in SHIPPED:
        text, owner = (_SHIPPED / f"{source}.yaml").read_text(encoding="utf-8"), str(source)
    else:
        raise unknown("bench", "specification", str(source), SHIPPED)
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        place = " ".join(str(problem).split())
        raise InputError(f"{owner}: expected YAML, received a text that is none: {place}") from problem
    try:
        spec = Spec.model_validate(content)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        if first["type"] == "extra_forbidden":
            raise unknown(owner, "key", place, Spec.model_fields) from problem
        raise InputError(f"{owner}: {place}: {first['msg'].lower()}, received {first['input']!r:.60}") from problem
    _check_names(spec, owner)
    return spec


def restrict(spec: Spec, names: Sequence[str]) -> Spec:
    """The part of the grid that names speak of: each axis that one of them belongs to keeps only those.

    >>> restrict(read_spec("slatk-table18"), ["slatk"]).losses
    ['slatk']
    """
    axes = {axis: list(getattr(spec, axis)) for axis in ("datasets", "models", "losses", "baselines", "variants")}
    known = [name for axis in axes.values() for name in axis if name]
    for name in names:
        if name not in known:
            raise unknown("--only", "name", name, known)
    kept = {axis: [name for name in values if name in names] for axis, values in axes.items()}
    update: dict[str, Any] = {axis: values for axis, values in kept.items() if values}
    if kept["variants"]:
        update["variants"] = {name: spec.variants[name] for name in kept["variants"]}
    if kept["losses"] and not kept["baselines"]:
        update["baselines"] = []
    if (kept["baselines"]) and not kept["losses"]:
        update["losses"] = []
    return spec.model_copy(update=update)


def _check_names(spec: Spec, owner: str) -> None:
    """Every name is known and every key is a setting, before anything is computed."""
    for loss in spec.losses:
        losses[loss]
    for model in [*spec.models, *spec.baselines]:
        if issubclass(models[model], Baseline) != (model in spec.baselines):
            kind = "baselines" if issubclass(models[model], Baseline) else "models"
            raise InputError(f"{owner}: expected {model} among the {kind}, received it elsewhere")
    known = {"dataset": spec.datasets, "model": spec.models, "loss": spec.losses, "variant": list(spec.variants)}
    for rule in spec.settings:
        for axis, names in rule.when.items():
            if axis not in AXES:
                raise unknown(owner, "key of when", axis, AXES)
            for name in [names] if isinstance(names, str) else names:
                if name not in known[axis] and name not in spec.baselines:
                    raise unknown(owner, axis, name, known[axis])
    for settings in [*spec.variants.values(), *(rule.set for rule in spec.settings)]:
        for key in settings:
            section, _, name = key.partition(".")
            if section == "data":
                if name not in LoadOptions.declared:
                    raise unknown(owner, "key", key, [f"data.{option}" for option in LoadOptions.declared])
            elif section not in SECTIONS or not name:
                raise unknown(owner, "key", key, [f"{known}.…" for known in (*SECTIONS, "data")])
