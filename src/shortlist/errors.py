"""Exceptions of the library. The command prints each as one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ShortlistError(Exception):
    """Base class of all errors; the command exits with 1."""


class InputError(ShortlistError, ValueError):
    """Invalid input; the command exits with 2 and nothing has been written."""


class WriteError(ShortlistError):
    """Write failed: disk full or I/O error."""


class WriteTargetError(WriteError, InputError):
    """The given place cannot be written to."""


class Interrupted(ShortlistError):
    """Interrupted by the user; the command exits with 130."""


def described(problem: Exception) -> str:
    """An unexpected error as one line of limited length.

    >>> described(TypeError("no such\\n  thing"))
    'TypeError: no such thing'
    """
    return " ".join(f"{type(problem).__name__}: {problem!s:.300}".split()).removesuffix(":")


class MissingExtra(ShortlistError):
    """A package that an optional part of the library needs is not installed."""


def missing_extra(owner: str, package: str, extra: str, error: ImportError) -> MissingExtra:
    """An error for an optional dependency that is not installed, with the command that installs it.

    >>> print(missing_extra("ials", "implicit", "ials", ImportError("no module")))
    ials: the package implicit cannot be imported (no module); install it with: pip install 'shortlist[ials]'
    """
    how = f"install it with: pip install 'shortlist[{extra}]'"
    return MissingExtra(f"{owner}: the package {package} cannot be imported ({error}); {how}")


def unknown(owner: str, what: str, name: str, known: Iterable[str]) -> InputError:
    """An error for an unknown name, with the closest known one.

    >>> print(unknown("losses", "name", "slatkk", ["sl", "slatk"]))
    losses: unknown name 'slatkk'; did you mean 'slatk'? (known: sl, slatk)
    >>> print(unknown("losses", "name", "xyz", ["sl", "slatk"]))
    losses: unknown name 'xyz' (known: sl, slatk)
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InputError(f"{owner}: unknown {what} {name!r}{hint} (known: {', '.join(names)})")
