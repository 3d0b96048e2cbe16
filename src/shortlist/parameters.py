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
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, Literal, Self, dataclass_transform, get_args, get_origin, get_type_hints

from shortlist.errors import InputError, unknown

LARGEST_SEED = 2**63 - 1
"""The largest seed that every generator of random numbers takes."""


@dataclass(frozen=True)
class Search:
    """Where tuning looks for a parameter: a range, on a log scale or not, or a list of choices."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """In words: ``0.02 … 0.5 (log scale)``."""
        if self.choices:
            return ", ".join(str(choice) for choice in self.choices)
        return f"{self.low:g} … {self.high:g}" + (" (log scale)" if self.log else "")


@dataclass(frozen=True)
class Param:
    """One declared parameter: its default, what is allowed, and what it means."""

    default: Any
    help: str = ""
    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    search: Search | None = None
    annotation: Any = None

    def allowed(self) -> str:
        """What may be given, in words: ``a number above 0``."""
        bounds = (("above", self.above), ("at least", self.at_least), ("below", self.below), ("at most", self.at_most))
        limits = " and ".join(f"{word} {limit:g}" for word, limit in bounds if limit is not None)
        return f"{_in_words(self.annotation)} {limits}".rstrip()

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
) -> Any:
    """Declare a parameter of a :class:`Configured` class."""
    return Param(default, help, above, below, at_least, at_most, search)


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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Param)}
        if own:
            hints = get_type_hints(cls)
            typed = {name: Param(**{**vars(value), "annotation": hints[name]}) for name, value in own.items()}
            cls.declared = MappingProxyType({**cls.declared, **typed})

    def __init__(self, **values: Any) -> None:
        super().__init__()
        for name in values:
            if name not in self.declared:
                raise unknown(type(self).__name__, "parameter", name, self.declared)
        for name, parameter in self.declared.items():
            setattr(self, name, check(type(self).__name__, name, parameter, values.get(name, parameter.default)))
        self.__post_init__()

    def __post_init__(self) -> None:
        """For subclasses: what follows from the parameters, once they are checked."""

    def settings(self) -> dict[str, Any]:
        """The parameters' values, as they are written to ``config.json``."""
        return {name: getattr(self, name) for name in self.declared}

    @classmethod
    def from_text(cls, texts: Mapping[str, str], **values: Any) -> Self:
        """Build from the texts of a command line; ``values`` are defaults that a text overrides."""
        for name, text in texts.items():
            if name not in cls.declared:
                raise unknown(cls.__name__, "parameter", name, cls.declared)
            values[name] = _parse(cls.__name__, name, cls.declared[name], text)
        return cls(**values)


def check(owner: str, name: str, declared: Param, value: Any) -> Any:
    """The one validator: the value itself if it is allowed, else an error that names owner, parameter and what is."""
    if isinstance(value, int) and not isinstance(value, bool) and _takes(declared.annotation, float):
        value = value if _takes(declared.annotation, int) else float(value)
    if isinstance(value, list):  # JSON has no tuples
        value = tuple(value)
    if not declared.accepts(value):
        raise InputError(f"{owner}.{name}: expected {declared.allowed()}, received {value!r}")
    return value


def _parse(owner: str, name: str, declared: Param, text: str) -> Any:
    """Read the text of a command line as the declared type."""
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
        if get_origin(member) is Literal:
            parts.append("one of " + ", ".join(repr(option) for option in get_args(member)))
        elif get_origin(member) is tuple:
            parts.append(f"a list of ({_in_words(get_args(member)[0])})")
        else:
            parts.append(_WORDS.get(member, getattr(member, "__name__", str(member))))
    return " or ".join(parts)
