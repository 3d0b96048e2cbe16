"""The ways in which a call can end early, each with one clear line for a person to read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ShortlistError(Exception):
    """Something went wrong while working; the command exits with 1."""


class InputError(ShortlistError, ValueError):
    """What was given cannot be used; the command exits with 2 and nothing has been written."""


class WriteError(ShortlistError):
    """The disk does not take what is written: there is no room, or it breaks. Nothing that is asked for is wrong."""


class WriteTargetError(WriteError, InputError):
    """Nothing can be written at the place that was given."""


class Interrupted(ShortlistError):
    """A person stopped the work; the command exits with 130."""


def described(problem: Exception) -> str:
    """What an error says that nobody foresaw, in one line that is not too long.

    >>> described(TypeError("no such\\n  thing"))
    'TypeError: no such thing'
    """
    return " ".join(f"{type(problem).__name__}: {problem!s:.300}".split()).removesuffix(":")


def missing_extra(owner: str, package: str, extra: str, error: ImportError) -> ShortlistError:
    """An error that says how to install what a part of the library needs.

    >>> print(missing_extra("ials", "implicit", "ials", ImportError("no module")))
    ials: the package implicit cannot be imported (no module); install it with: pip install 'shortlist[ials]'
    """
    how = f"install it with: pip install 'shortlist[{extra}]'"
    return ShortlistError(f"{owner}: the package {package} cannot be imported ({error}); {how}")


def unknown(owner: str, what: str, name: str, known: Iterable[str]) -> InputError:
    """An error for a name that does not exist, with the nearest ones that do.

    >>> print(unknown("losses", "name", "slatkk", ["sl", "slatk"]))
    losses: unknown name 'slatkk'; did you mean 'slatk'? (known: sl, slatk)
    >>> print(unknown("losses", "name", "xyz", ["sl", "slatk"]))
    losses: unknown name 'xyz' (known: sl, slatk)
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InputError(f"{owner}: unknown {what} {name!r}{hint} (known: {', '.join(names)})")
