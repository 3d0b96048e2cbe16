"""Typed parameters, declared beside the class that reads them and checked in one place.

A class that derives from :class:`Configured` declares its parameters as annotated attributes::

    class Softmax(Configured):
        tau: float = param(default=0.2, above=0, help="temperature")

and gets a keyword-only constructor that checks type and range. Command-line keys, ``config.json``, help texts and
search spaces are all derived from these declarations. Only the standard library is used: losses must import without
anything else.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, Literal, Self, dataclass_transform, get_args, get_origin, get_type_hints

from shortlist.errors import InputError, unknown

LARGEST_SEED = 2**63 - 1
"""The largest seed that every generator of random numbers takes."""


@dataclass(frozen=True)
class Search:
    """Search space of a parameter: a range, on a linear or log scale, or a list of choices."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """As text: ``0.02 … 0.5 (log scale)``."""
        if self.choices:
            return ", ".join(str(choice) for choice in self.choices)
        return f"{self.low:g} … {self.high:g}" + (" (log scale)" if self.log else "")


@dataclass(frozen=True)
class Param:
    """A declared parameter: default, allowed range and description."""

    default: Any
    help: str = ""
    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    search: Search | None = None
    aliases: tuple[str, ...] = ()
    former_values: Mapping[str, Any] | None = None
    annotation: Any = None

    def allowed(self) -> str:
        """The allowed values as text: ``a number above 0``."""
        bounds = (("above", self.above), ("at least", self.at_least), ("below", self.below), ("at most", self.at_most))
        limits = " and ".join(f"{word} {limit:g}" for word, limit in bounds if limit is not None)
        none = " or none" if _takes(self.annotation, NoneType) else ""
        return f"{_in_words(self.annotation)} {limits}".rstrip() + none

    def accepts(self, value: Any) -> bool:
        """Whether the value has the declared type and lies in the declared range."""
        if not _has_type(value, self.annotation):
            return False
        if not isinstance(value, int | float) or isinstance(value, bool):
            return True
        return (
            (isinstance(value, int) or math.isfinite(value))
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
        )


def param(
    *,
    default: Any,
    help: str = "",
    above: float | None = None,
    below: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    search: Search | None = None,
    aliases: tuple[str, ...] = (),
    former_values: Mapping[str, Any] | None = None,
) -> Any:
    """Declare a parameter of a :class:`Configured` class.

    ``aliases`` are former names, accepted with a notice; ``former_values`` translates values given by a former name.
    """
    return Param(default, help, above, below, at_least, at_most, search, aliases, former_values)


@dataclass_transform(kw_only_default=True, field_specifiers=(param,))
class Configured:
    """Base of everything that has parameters: losses, models, thresholds, optimisers, training.

    >>> class Softmax(Configured):
    ...     tau: float = param(default=0.2, above=0, help="temperature")
    >>> Softmax(tau=0.5).settings()
    {'tau': 0.5}
    >>> Softmax(tau=-1.0)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: Softmax.tau: expected a number above 0, received -1.0
    """

    declared: ClassVar[Mapping[str, Param]] = MappingProxyType({})
    """The parameters of the class by name, in the order of declaration."""

    given: frozenset[str]
    """The names of the parameters that the caller has set; the others have their defaults."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Param)}
        if own:
            hints = get_type_hints(cls)
            typed = {name: Param(**{**vars(value), "annotation": hints[name]}) for name, value in own.items()}
            cls.declared = MappingProxyType({**cls.declared, **typed})

    def __init__(self, *args: Any, **values: Any) -> None:
        if args:
            name, example = type(self).__name__, next(iter(self.declared), "parameter")
            expected = f"parameters by name, such as {name}({example}={args[0]!r})"
            raise InputError(f"{name}: expected {expected}, received {args[0]!r} without a name")
        super().__init__()
        values = current_names(type(self), values)
        self.given = frozenset(values)
        for name, parameter in self.declared.items():
            setattr(self, name, check(type(self).__name__, name, parameter, values.get(name, parameter.default)))
        self.__post_init__()

    def __post_init__(self) -> None:
        """Hook for subclasses, called once the parameters have been validated."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.settings().items())})"

    def settings(self) -> dict[str, Any]:
        """The values of the parameters, as written to ``config.json``."""
        return {name: getattr(self, name) for name in self.declared}

    @classmethod
    def from_text(cls, texts: Mapping[str, str], **values: Any) -> Self:
        """Build from command-line strings; ``values`` are defaults that a string overrides."""
        for name, text in current_names(cls, texts).items():
            values[name] = _parse(cls.__name__, name, cls.declared[name], text) if isinstance(text, str) else text
        return cls(**values)


class RenamedParameter(FutureWarning):
    """A parameter was given under a former name."""


def renamed(owner: type[Configured], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values written by an earlier version under the current parameter names; unknown names are kept."""
    former = {alias: (name, one.former_values or {}) for name, one in owner.declared.items() for alias in one.aliases}
    current = {}
    for given, value in values.items():
        name, former_values = former.get(given, (given, {})) if given not in owner.declared else (given, {})
        current[name] = former_values.get(value, value) if former_values else value
    return current


def current_names(owner: type[Configured], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values under current parameter names. Former names are accepted with a warning, unknown ones refused.

    >>> class Softmax(Configured):
    ...     tau: float = param(default=0.2, aliases=("temperature",))
    >>> with warnings.catch_warnings(action="ignore"):
    ...     current_names(Softmax, {"temperature": 0.5})
    {'tau': 0.5}
    """
    former = {alias: name for name, declared in owner.declared.items() for alias in declared.aliases}
    current: dict[str, Any] = {}
    for given, value in values.items():
        name = former.get(given, given) if given not in owner.declared else given
        if name not in owner.declared:
            raise unknown(owner.__name__, "parameter", given, owner.declared)
        if name in current:
            raise InputError(f"{owner.__name__}.{name}: expected one value, received it also as {given!r}")
        if name != given:
            message = f"{owner.__name__}.{given} is now {owner.__name__}.{name}"
            warnings.warn(message, RenamedParameter, stacklevel=3)
            value = (owner.declared[name].former_values or {}).get(value, value)
        current[name] = value
    return current


def check(owner: str, name: str, declared: Param, value: Any) -> Any:
    """Validate a value: return it if it is allowed, else raise an error with owner, parameter and allowed values."""
    if isinstance(value, int) and not isinstance(value, bool) and _takes(declared.annotation, float):
        value = value if _takes(declared.annotation, int) else float(value)
    if isinstance(value, list):  # JSON has no tuples
        value = tuple(value)
    if not declared.accepts(value):
        raise InputError(f"{owner}.{name}: expected {declared.allowed()}, received {value!r}")
    return value


def _parse(owner: str, name: str, declared: Param, text: str) -> Any:
    """Parse a command-line string as the declared type."""
    hint = declared.annotation
    if text.lower() in {"none", "null"} and _takes(hint, NoneType):
        return None
    if get_origin(hint) is tuple:
        inner = Param(None, annotation=get_args(hint)[0])
        return tuple(_parse(owner, name, inner, part) for part in text.split(",") if part)
    if _takes(hint, bool) and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for number in (int, float):
        if _takes(hint, number):
            try:
                return number(text)
            except ValueError:
                continue
    if _takes(hint, str) or text in _options(hint):
        return text
    raise InputError(f"{owner}.{name}: expected {declared.allowed()}, received {text!r}")


def _members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the type itself."""
    is_union = get_origin(hint) is not None and get_origin(hint) is not Literal and get_origin(hint) is not tuple
    return get_args(hint) if is_union else (hint,)


def _takes(hint: Any, kind: type) -> bool:
    return kind in _members(hint)


def _options(hint: Any) -> tuple[Any, ...]:
    return tuple(option for member in _members(hint) if get_origin(member) is Literal for option in get_args(member))


def _has_type(value: Any, hint: Any) -> bool:
    for member in _members(hint):
        if get_origin(member) is Literal:
            if value in get_args(member):
                return True
        elif get_origin(member) is tuple:
            if isinstance(value, tuple) and all(_has_type(part, get_args(member)[0]) for part in value):
                return True
        elif isinstance(value, member) and (member is bool or not isinstance(value, bool)):
            return True
    return False


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", NoneType: "none"}


def _in_words(hint: Any) -> str:
    parts = []
    for member in _members(hint):
        if member is NoneType:
            continue
        if get_origin(member) is Literal:
            parts.append("one of " + ", ".join(repr(option) for option in get_args(member)))
        elif get_origin(member) is tuple:
            parts.append(f"a list of ({_in_words(get_args(member)[0])})")
        else:
            parts.append(_WORDS.get(member, getattr(member, "__name__", str(member))))
    return " or ".join(parts)
