"""Registries of classes by name, including classes that other installed packages provide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from shortlist.errors import ShortlistError, unknown

T = TypeVar("T")
C = TypeVar("C")


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
        self._is_loaded = False

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

    def _load_others(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        for entry in entry_points(group=f"shortlist.{self.kind}"):
            try:
                self._classes.setdefault(entry.name, entry.load())
            except Exception as problem:  # the code of another package may raise anything
                package = entry.dist.name if entry.dist else entry.module
                raise ShortlistError(
                    f"{self.kind}: {entry.name!r} of the installed package {package} cannot be loaded: "
                    f"{type(problem).__name__}: {problem}"
                ) from problem

    def __getitem__(self, name: str) -> type[T]:
        self._load_others()
        if name not in self._classes:
            raise unknown(self.kind, "name", name, self._classes)
        return self._classes[name]

    def __contains__(self, name: object) -> bool:
        self._load_others()
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        self._load_others()
        return iter(self._classes)

    def __len__(self) -> int:
        self._load_others()
        return len(self._classes)
