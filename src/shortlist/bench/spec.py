"""Specifications of grids: YAML files, or names of those shipped with the library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from shortlist.bench.published import Published
from shortlist.data import LoadOptions
from shortlist.errors import InputError, unknown
from shortlist.experiment import SECTIONS
from shortlist.losses import registry as losses
from shortlist.metrics import AT_K
from shortlist.models import Baseline
from shortlist.models import registry as models
from shortlist.parameters import LARGEST_SEED

_SHIPPED = files("shortlist.bench") / "specs"

SHIPPED: tuple[str, ...] = tuple(sorted(entry.name.removesuffix(".yaml") for entry in _SHIPPED.iterdir()))
"""Names of the shipped specifications."""

MAX_TEXT, MAX_DEPTH, MAX_VALUES = 1_000_000, 50, 100_000
"""Limits of a file: its characters, its levels of nesting, and its values with all aliases replaced."""

AXES = ("dataset", "model", "loss", "variant")
"""The axes that identify a place of the grid."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Rule(_Strict):
    """Settings for the places of the grid that match ``when`` in every axis that it names."""

    when: dict[str, str | list[str]] = {}
    set: dict[str, Any]

    def applies(self, place: Mapping[str, str]) -> bool:
        """Whether the rule applies to a place."""
        return all(place[axis] in _listed(names) for axis, names in self.when.items())


class PublishedFigures(_Strict):
    """The published table to compare with, and the mapping from our names to its names.

    The name of a loss may be followed by that of a variant (``slatk/k5``). A name may map to several columns: a loss to
    ``{loss: SL@K, train_k: "5"}``, a dataset to ``{dataset: Adressa, training: noise}``.
    """

    table: str
    where: dict[str, str] = {}
    names: dict[str, str | dict[str, str]] = {}

    def columns(self, dataset: str, model: str, loss: str, variant: str) -> dict[str, str]:
        """The values of the table's columns for a place of the grid. The name of a loss does not cover its variants."""
        ours = {"dataset": dataset, "backbone": model, "loss": label_of(loss, variant)}
        return {name: text for column, each in ours.items() for name, text in self.named(column, each).items()}

    def named(self, column: str, ours: str) -> dict[str, str]:
        """The columns for one of our names; ``column`` unless the mapping names others."""
        theirs = self.names.get(ours, ours)
        return {column: theirs} if isinstance(theirs, str) else theirs


class Spec(_Strict):
    """A grid of datasets × (models × losses, baselines) × variants × seeds, with settings by rule; later rules win.

    Keys of settings are those of ``--set`` (``loss.tau``, ``training.epochs``, …) and, for how data is read,
    ``data.protocol`` and similar. A variant is a named rule; where none applies, there is only the plain form.
    ``ours`` are the losses under study; the others are what they are compared with.
    """

    title: str
    about: str = ""
    k: int = Field(default=20, ge=1)
    metrics: Annotated[list[str], Field(min_length=1)] = ["ndcg@20", "recall@20"]
    seeds: Annotated[list[Annotated[int, Field(ge=0, le=LARGEST_SEED)]], Field(min_length=1)] = [0, 1, 2]
    datasets: Annotated[list[str], Field(min_length=1)]
    models: list[str] = ["mf"]
    losses: list[str] = []
    baselines: list[str] = []
    ours: list[str] = []
    variants: dict[str, Rule] = {}
    settings: list[Rule] = []
    published: PublishedFigures | None = None

    @field_validator("variants", mode="before")
    @classmethod
    def _short_form(cls, given: Any) -> Any:
        """A variant that applies everywhere may be given as its settings only."""
        if not isinstance(given, dict):
            return given
        return {name: {"set": rule} if _are_settings(rule) else rule for name, rule in given.items()}


def label_of(loss: str, variant: str) -> str:
    """The label of a loss with its variant.

    >>> label_of("slatk", "k5"), label_of("sl", "")
    ('slatk/k5', 'sl')
    """
    return "/".join(word for word in (loss, variant) if word)


def read_spec(source: str | Path) -> Spec:
    """Read a specification from a file, or a shipped one by name.

    >>> read_spec("slatk-table18").k
    20
    """
    path, owner = Path(source), name_of(source)
    if not (is_shipped(source) or path.exists()):
        raise unknown("bench", "specification", str(source), SHIPPED)
    try:
        file = _SHIPPED / f"{source}.yaml" if is_shipped(source) else path
        content = _parsed(file.read_text(encoding="utf-8"), owner)
    except OSError as problem:
        raise InputError(f"{owner}: expected a file of YAML, received {problem.strerror}") from problem
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        place = " ".join(str(problem).split())
        raise InputError(f"{owner}: expected YAML, received invalid YAML: {place}") from problem
    if not isinstance(content, dict):
        raise InputError(f"{owner}: expected keys with values, received {type(content).__name__}")
    try:
        spec = Spec.model_validate(content)
    except ValidationError as problem:
        raise _in_one_line(owner, problem) from problem
    _check(spec, owner)
    return spec


def is_shipped(source: str | Path) -> bool:
    """Whether ``source`` names a shipped specification. A file of that name takes precedence, a folder does not."""
    return str(source) in SHIPPED and not Path(source).is_file()


def name_of(source: str | Path) -> str:
    """The name of a specification in errors: the file name, or the shipped name."""
    return str(source) if is_shipped(source) or not Path(source).exists() else Path(source).name or str(source)


def _parsed(text: str, owner: str) -> Any:
    """Parse YAML and refuse repeated keys, of which the first would be lost silently."""
    if len(text) > MAX_TEXT:
        raise InputError(f"{owner}: expected at most {MAX_TEXT:,} characters, received {len(text):,}")
    _check_depth(text, owner)
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_expanded(node, owner)
        _check_once(node, owner, set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_depth(text: str, owner: str) -> None:
    """Refuse deep nesting before the parser follows it."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InputError(f"{owner}: expected at most {MAX_DEPTH} levels of nesting, received more")


def _check_expanded(root: yaml.Node, owner: str) -> None:
    """Refuse aliases that refer to themselves, or that stand for more values than anybody writes."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node, above: frozenset[int]) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in above or len(above) > MAX_DEPTH:
            raise InputError(f"{owner}: expected values without cycles and deep nesting, received an alias to itself")
        if id(node) not in sizes:
            parts = [each for pair in node.value for each in (pair if isinstance(pair, tuple) else (pair,))]
            sizes[id(node)] = 1 + sum(size(each, above | {id(node)}) for each in parts)
        return sizes[id(node)]

    if size(root, frozenset()) > MAX_VALUES:
        raise InputError(f"{owner}: expected at most {MAX_VALUES:,} values, received more (by aliases?)")


def _check_once(node: yaml.Node, owner: str, seen: set[int]) -> None:
    """Refuse repeated keys. ``seen`` holds visited nodes: aliases may form cycles."""
    if id(node) in seen or isinstance(node, yaml.ScalarNode):
        return
    seen.add(id(node))
    lines: dict[tuple[str, str], int] = {}
    for each in node.value:
        key, value = each if isinstance(node, yaml.MappingNode) else (None, each)
        if isinstance(key, yaml.ScalarNode):
            line, first = key.start_mark.line + 1, lines.get((key.tag, key.value))
            if first is not None:
                received = f"{key.value!r:.60} in line {first} and in line {line}"
                raise InputError(f"{owner}: expected each key once, received {received}")
            lines[key.tag, key.value] = line
        _check_once(value, owner, seen)


def _check(spec: Spec, owner: str) -> None:
    """Validate all names and keys before anything is computed."""
    if not (spec.losses and spec.models) and not spec.baselines:
        raise InputError(f"{owner}: expected models with losses, or baselines, received neither")
    for axis in ("metrics", "seeds", "datasets", "models", "losses", "baselines"):
        values = getattr(spec, axis)
        if len(set(values)) < len(values):
            raise InputError(f"{owner}: {axis}: expected each once, received {', '.join(map(str, values))}")
    _check_names(spec, owner)
    for name, variant in spec.variants.items():
        if not name and variant.set:  # the empty name is the plain form, which may be listed
            raise InputError(f"{owner}: variants: expected a name for each that sets something, received an empty one")
        if "variant" in variant.when:  # a variant cannot depend on a variant
            raise InputError(f"{owner}: variants.{name}.when: expected dataset, model or loss, received variant")
    for rule in [*spec.variants.values(), *spec.settings]:
        _check_rule(rule, spec, owner)
    if spec.published is not None:
        _check_published(spec, spec.published, owner)


def _check_names(spec: Spec, owner: str) -> None:
    _all_known(owner, "loss", spec.losses, losses)
    _all_known(owner, "loss of ours", spec.ours, spec.losses)
    for axis in ("models", "baselines"):
        _all_known(owner, "model", getattr(spec, axis), models)
        for name in getattr(spec, axis):
            if issubclass(models[name], Baseline) != (axis == "baselines"):
                right = "models" if axis == "baselines" else "baselines"
                raise InputError(f"{owner}: expected {name} among the {right}, received it among the {axis}")
    for metric in spec.metrics:
        name, _, k = metric.partition("@")
        _all_known(owner, "metric", [name], AT_K)
        if not re.fullmatch("[1-9][0-9]{0,8}", k):  # the form of metric names: not 020, only ASCII digits
            raise InputError(f"{owner}: metrics: expected a length of list, as in {name}@20, received {metric!r:.60}")


def _check_rule(rule: Rule, spec: Spec, owner: str) -> None:
    fitted = [*spec.models, *spec.baselines]
    known = {"dataset": spec.datasets, "model": fitted, "loss": spec.losses, "variant": spec.variants}
    _all_known(owner, "key of when", rule.when, AXES)
    for axis, names in rule.when.items():
        _all_known(owner, axis, _listed(names), known[axis])
    for key in rule.set:
        section, _, name = key.partition(".")
        if section == "data":
            _all_known(owner, "key", [key], [f"data.{option}" for option in LoadOptions.declared])
        elif section not in SECTIONS or not name:
            raise unknown(owner, "key", key, [f"{each}.…" for each in (*SECTIONS, "data")])


def _check_published(spec: Spec, figures: PublishedFigures, owner: str) -> None:
    """Check that the table holds the mapped names."""
    table = Published(figures.table, figures.where)
    labels = [label_of(loss, variant) for loss in spec.losses for variant in ("", *spec.variants)]
    _all_known(owner, "name of published", figures.names, [*spec.datasets, *spec.models, *spec.baselines, *labels])
    for name, theirs in figures.names.items():
        column = "dataset" if name in spec.datasets else "loss" if name in labels else "backbone"
        if not table.knows(figures.named(column, name)):
            raise InputError(f"{owner}: {name}: expected a name of {figures.table}, received {theirs!r}")


def _all_known(owner: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(owner, what, name, known)


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _are_settings(rule: Any) -> bool:
    """Whether a variant is given in short form: keys of settings contain a dot."""
    return isinstance(rule, dict) and all("." in str(key) for key in rule)


def _in_one_line(owner: str, problem: ValidationError) -> InputError:
    """The first error of pydantic, in the form of all errors."""
    first = problem.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["loc"][-1] == "[key]":
        within, key = ".".join(map(str, first["loc"][:-2])), first["input"]
        return InputError(f"{owner}: {within}: expected a name in quotes, as in '{key}', received {key!r}")
    if first["type"] in ("extra_forbidden", "invalid_key"):
        parts: dict[Any, type[BaseModel]] = {"settings": Rule, "variants": Rule, "published": PublishedFigures}
        part = parts.get(first["loc"][0], Spec) if len(first["loc"]) > 1 else Spec
        *above, key = map(str, first["loc"])
        return unknown(": ".join([owner, *([".".join(above)] if above else [])]), "key", key, part.model_fields)
    if first["type"] == "missing":
        return InputError(f"{owner}: expected a value of {place}, received none")
    said = first["msg"].removeprefix("Input should be ")
    return InputError(f"{owner}: {place}: expected {said[0].lower()}{said[1:]}, received {first['input']!r:.60}")
