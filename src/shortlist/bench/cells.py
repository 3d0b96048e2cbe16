"""Cells of a grid: each is one training of one model, with its own run folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shortlist.bench.spec import Spec, label_of
from shortlist.data import LoadOptions
from shortlist.errors import InputError, unknown
from shortlist.experiment import SECTIONS, ExperimentConfig, plan
from shortlist.losses import registry as losses
from shortlist.models import registry as models
from shortlist.parameters import Configured
from shortlist.runs import FORMAT, result_config
from shortlist.training import OptimizerSettings, TrainingSettings


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of the grid. ``settings`` are by section, ``ks`` the requested list lengths; a baseline has no loss."""

    dataset: str
    model: str
    loss: str
    variant: str
    seed: int
    k: int
    ks: tuple[int, ...]
    settings: Mapping[str, Mapping[str, Any]]

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Position in the grid, without the seed."""
        return self.dataset, self.model, self.loss, self.variant

    @property
    def label(self) -> str:
        """The loss with its variant."""
        return label_of(self.loss, self.variant)

    def __str__(self) -> str:
        return " ".join(word for word in (self.dataset, self.model, self.label, f"seed {self.seed}") if word)

    def plan(self) -> ExperimentConfig:
        """The configuration of the cell; raises an error for invalid settings."""
        given = {section: self.settings.get(section, {}) for section in SECTIONS}
        texts, values = (
            {section: {name: value for name, value in each.items() if isinstance(value, str) == is_text}
             for section, each in given.items()}
            for is_text in (True, False)
        )  # fmt: skip
        return plan(self.model, self.loss or None, self.k, values=values, texts=texts)

    def data_options(self, seed: int | None = None) -> LoadOptions:
        """Options for loading the dataset. The seed is that of the cell unless given here or in the settings."""
        given = {"seed": self.seed if seed is None else seed, **self.settings.get("data", {})}
        texts = {name: value for name, value in given.items() if isinstance(value, str)}
        return LoadOptions.from_text(texts, **{name: value for name, value in given.items() if name not in texts})

    def check(self, owner: str) -> None:
        """Validate the settings. Errors name the keys of the specification, whose name is ``owner``."""
        parts: dict[str, tuple[str, type[Configured]]] = {
            "model": (self.model, models[self.model]),
            **({"loss": (self.loss, losses[self.loss])} if self.loss else {}),
            "optimizer": ("", OptimizerSettings),
            "training": ("", TrainingSettings),
            "data": ("", LoadOptions),
        }
        for section, (name, part) in parts.items():
            for key in self.settings.get(section, {}):
                if key not in part.declared:
                    of = f" of {name}" if name else ""
                    raise unknown(f"{owner}: {section}.{key}", f"parameter{of}", key, part.declared)
        try:
            self.plan()
            self.data_options()
        except InputError as problem:
            said = str(problem)
            for section, (_, part) in parts.items():  # errors of a value name the class that declares it
                if said.startswith(f"{part.__name__}."):
                    said = f"{section}{said.removeprefix(part.__name__)}"
            raise InputError(f"{owner}: {said}") from problem

    def folder(self, data: str) -> str:
        """A readable name with a hash of everything that affects the result: other settings or ``data``, other folder.

        The names of variants are not part of it, so that grids in one folder share cells; neither are the list
        lengths, since a trained model can be evaluated at others.
        """
        chosen, options = self.plan(), self.data_options()
        content = {
            **result_config(chosen.config(), tau_is_open=chosen.tau_is_open),
            "format": FORMAT,
            "model": {"name": self.model, **chosen.model.settings()},
            "tau is open": chosen.tau_is_open,
            "protocol": options.protocol,
            "seeds": [self.seed, options.seed],
            "data": data,
        }
        key = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=5).hexdigest()
        words = "-".join(word for word in (self.dataset, self.model, self.loss) if word)
        name = re.sub(r"[^\w.@=+-]+", "_", words).encode()[:150].decode(errors="ignore")  # allowed on every file system
        return f"{name}-seed{self.seed}-{key}"


def cells(spec: Spec) -> Iterator[Cell]:
    """All cells of a specification, ordered by seed, so that early results cover the whole grid.

    >>> from shortlist.bench import read_spec
    >>> print(next(cells(read_spec("slatk-table18"))))
    movielens-100k mf lambdarank seed 0
    """
    fitted = [*((model, loss) for model in spec.models for loss in spec.losses), *((b, "") for b in spec.baselines)]
    ks = tuple(lengths(spec.metrics))
    for seed in spec.seeds:
        for dataset in spec.datasets:
            for model, loss in fitted:
                place = {"dataset": dataset, "model": model, "loss": loss}
                for variant in _variants(spec, place):
                    settings = _settings(spec, {**place, "variant": variant})
                    yield Cell(**place, variant=variant, seed=seed, k=spec.k, ks=ks, settings=settings)


def select(grid: Sequence[Cell], names: Sequence[str], spec: Spec | None = None) -> list[Cell]:
    """The cells that match the given names: each axis with a matching name is restricted to these names.

    Naming a model or loss excludes the baselines and vice versa, unless both are named. With ``spec``, the names that
    its papers use count, too: ``SL@20``, ``Health``.

    >>> from shortlist.bench import read_spec
    >>> {cell.loss for cell in select(list(cells(read_spec("slatk-table18"))), ["slatk"])}
    {'slatk'}
    >>> spec = read_spec("slatk-table4")
    >>> {(cell.dataset, cell.label) for cell in select(list(cells(spec)), ["SL@20", "Health"], spec)}
    {('amazon2014-health', 'slatk/k20')}
    """
    known = {name for cell in grid for name in cell.place if name}
    papers = {} if spec is None else _names_of_papers(spec)
    labels: set[str] = set()
    translated = []
    for name in names:
        if name in known:
            translated.append(name)
            continue
        ours = papers.get(_plain(name), set())
        if not ours:
            raise unknown("--only", "name", name, {*known, *_shown_names(spec)})
        labels |= ours - known
        translated += sorted(ours & known)
    names = translated
    baselines = {cell.model for cell in grid if not cell.loss}
    wanted_names = {
        "dataset": {cell.dataset for cell in grid}.intersection(names),
        "model": {cell.model for cell in grid if cell.loss}.intersection(names),
        "loss": {cell.loss for cell in grid}.intersection(names),
        "variant": {cell.variant for cell in grid}.intersection(names),
        "baseline": baselines.intersection(names),
    }

    def agrees(cell: Cell, axes: Iterable[str]) -> bool:
        return all(not wanted_names[axis] or getattr(cell, axis) in wanted_names[axis] for axis in axes)

    def agrees_on_loss(cell: Cell) -> bool:
        return cell.label in labels or (not labels and agrees(cell, ["loss"])) or cell.loss in wanted_names["loss"]

    def wanted(cell: Cell) -> bool:
        is_trained, trained = bool(cell.loss), bool(wanted_names["model"] or wanted_names["loss"] or labels)
        if not agrees(cell, ("dataset", "variant")):
            return False
        if is_trained:
            return (trained or not wanted_names["baseline"]) and agrees(cell, ["model"]) and agrees_on_loss(cell)
        return cell.model in wanted_names["baseline"] if wanted_names["baseline"] else not trained

    return [cell for cell in grid if wanted(cell)]


def _names_of_papers(spec: Spec) -> dict[str, set[str]]:
    """Our names by those of the spec's published table, else by the other names of losses; in plain letters."""
    found: dict[str, set[str]] = {}
    for theirs, ours in _published_names(spec):
        found.setdefault(_plain(theirs), set()).add(ours)
    for alias, ours in _aliases(spec):
        found.setdefault(_plain(alias), {ours})
    return found


def _published_names(spec: Spec) -> Iterator[tuple[str, str]]:
    """The published names of datasets, models, losses, and losses with a variant, each with ours."""
    for ours, theirs in ({} if spec.published is None else spec.published.names).items():
        named = {"dataset": theirs} if isinstance(theirs, str) else theirs
        k = named.get("train_k")
        for column in ("dataset", "loss"):
            if column in named:
                yield named[column].replace("@K", f"@{k or 'K'}"), ours


def _aliases(spec: Spec) -> Iterator[tuple[str, str]]:
    """Other names of the losses, with the K of the grid too."""
    for name in spec.losses:
        for alias in vars(losses[name]).get("aliases", ()):
            yield alias, name
            yield alias.replace("@K", f"@{spec.k}"), name


def _shown_names(spec: Spec | None) -> set[str]:
    return set() if spec is None else {theirs for theirs, _ in [*_published_names(spec), *_aliases(spec)]}


def _plain(name: str) -> str:
    """A name without case, spaces and hyphens."""
    return name.lower().replace(" ", "").replace("-", "")


def lengths(metrics: Iterable[str]) -> list[int]:
    """The list lengths of metrics.

    >>> lengths(["ndcg@20", "recall@20", "ndcg@5"])
    [5, 20]
    """
    return sorted({int(metric.partition("@")[2]) for metric in metrics})


def _variants(spec: Spec, place: Mapping[str, str]) -> list[str]:
    """The variants of a place, or the plain form. A baseline has none of the variants that only set a loss."""

    def matters(settings: Mapping[str, Any]) -> bool:
        return bool(place["loss"]) or not settings or any(key.startswith(("model.", "data.")) for key in settings)

    return [name for name, rule in spec.variants.items() if rule.applies(place) and matters(rule.set)] or [""]


def _settings(spec: Spec, place: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The settings of a place by section: rules first, then the variant. Baselines take only model and data."""
    chosen: dict[str, dict[str, Any]] = {}
    rules = [rule.set for rule in spec.settings if rule.applies(place)]
    for values in [*rules, *(spec.variants[name].set for name in [place["variant"]] if name)]:
        for key, value in values.items():
            section, _, name = key.partition(".")
            if place["loss"] or section in ("model", "data"):
                chosen.setdefault(section, {})[name] = value
    return chosen
