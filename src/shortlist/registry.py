"""Registries of classes by name, including classes that other installed packages provide."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from shortlist.errors import ShortlistError, unknown

T = TypeVar("T")
C = TypeVar("C")


class BrokenPackage(UserWarning):
    """A class of another package cannot be loaded; all others can be used."""


class Registry(Mapping[str, type[T]]):
    """The classes of one kind by name, including those that other packages provide as entry points.

    >>> animals: Registry[object] = Registry("animals")
    >>> @animals.register("cat")
    ... class Cat: ...
    >>> animals["cat"].__name__, len(animals)
    ('Cat', 1)
    >>> animals["cot"]
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: animals: unknown name 'cot'; did you mean 'cat'? (known: cat)
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type[T]] = {}
        self._is_loaded = self._is_warned = False
        self._broken: dict[str, str] = {}
        """Messages about the classes of other packages that cannot be loaded, by name."""

    def register(self, name: str) -> Callable[[type[C]], type[C]]:
        """Class decorator that registers a class under a name.

        A class of the same name replaces the earlier one, as when a notebook cell is run again.
        """

        def decorate(cls: type[C]) -> type[C]:
            if name in self._classes and self._classes[name].__qualname__ != cls.__qualname__:
                raise ValueError(f"{self.kind}: the name {name!r} is taken by {self._classes[name].__qualname__}")
            self._classes[name] = cls  # type: ignore[assignment]
            return cls

        return decorate

    def name_of(self, cls: type) -> str:
        """The name of a registered class."""
        self._load_others()
        for name, known in self._classes.items():
            if known is cls:
                return name
        raise ShortlistError(f"{self.kind}: expected a registered class, received {cls.__qualname__}")

    def resolve(self, name: str) -> str:
        """The registered name for a name or an alias, which classes declare as ``aliases``; case does not matter there.

        >>> animals: Registry[object] = Registry("animals")
        >>> @animals.register("cat")
        ... class Cat:
        ...     aliases = ("Felis catus",)
        >>> animals.resolve("felis-catus")
        'cat'
        """
        if name in self:
            return name
        plain = _plain(name)
        for known, cls in self._classes.items():
            if plain in (_plain(known), *map(_plain, vars(cls).get("aliases", ()))):
                return known
        raise self._missing(name)

    def _load_others(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        for entry in entry_points(group=f"shortlist.{self.kind}"):
            try:
                self._classes.setdefault(entry.name, entry.load())
            except (Exception, SystemExit) as problem:  # the code of another package may raise anything
                package = entry.dist.name if entry.dist else entry.module
                self._broken[entry.name] = (
                    f"{self.kind}: {entry.name!r} of the installed package {package} cannot be loaded: "
                    f"{type(problem).__name__}: {problem}"
                )

    def _warn_of_broken(self) -> None:
        """Warn once of the classes of other packages that cannot be loaded."""
        self._load_others()
        if not self._is_warned:
            self._is_warned = True
            for message in self._broken.values():
                warnings.warn(message, BrokenPackage, stacklevel=3)

    def __getitem__(self, name: str) -> type[T]:
        self._load_others()
        if name not in self._classes:
            raise self._missing(name)
        return self._classes[name]

    def _missing(self, name: str) -> ShortlistError:
        """The error for a name without a class: it cannot be loaded, or is unknown."""
        if name in self._broken:
            return ShortlistError(self._broken[name])
        return unknown(self.kind, "name", name, self._classes)

    def __contains__(self, name: object) -> bool:
        self._load_others()
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        self._warn_of_broken()
        return iter(self._classes)

    def __len__(self) -> int:
        self._load_others()
        return len(self._classes)


def _plain(name: str) -> str:
    """A name without case, spaces, hyphens and underscores."""
    return name.lower().translate(str.maketrans("", "", " -_"))
