"""Conversion of external ids to indices, with suggestions for unknown ids."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from shortlist.data import IntArray
from shortlist.errors import InputError

NEARBY = 20_000
"""Number of ids on each side of an unknown one that are searched for the most similar id."""

NAMED = 5
"""Maximum number of unknown ids in an error message."""


@dataclass(frozen=True, eq=False)
class Ids:
    """Sorted ids of one kind; the index of an id is its position.

    >>> users = Ids("user", pl.Series(["ann", "bob", "cleo"]))
    >>> users.indices(["cleo", "ann"]).tolist()
    [2, 0]
    >>> users.index("cloe")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: user: unknown id 'cloe'; did you mean 'cleo'? (3 users are known)
    >>> users.index("x")
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: user: unknown id 'x' (3 users are known)
    >>> users.indices(["ann", "x", "y"])
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: user: unknown ids 'x', 'y' (3 users are known)
    >>> numbers = Ids("item", pl.Series([10, 20]))
    >>> numbers.index("20"), numbers.known(["020", "10"])[1].to_list()
    (1, ['020'])
    """

    kind: str
    values: pl.Series

    def index(self, text: Any) -> int:
        """The index of one id, given as text or in its own type."""
        return int(self.indices([text])[0])

    def indices(self, ids: Sequence[Any] | pl.Series) -> IntArray:
        """The index of each id; texts are parsed where the ids are integers."""
        given = pl.Series(ids, strict=False) if not isinstance(ids, pl.Series) else ids
        places = self._places_of(given)
        if places.null_count():
            raise self._unknown(given.filter(places.is_null()).to_list())
        return places.to_numpy()

    def known(self, ids: Sequence[Any] | pl.Series) -> tuple[IntArray, pl.Series]:
        """The indices of the ids that are known, and the ids that are not."""
        given = pl.Series(ids, strict=False) if not isinstance(ids, pl.Series) else ids
        places = self._places_of(given)
        return places.drop_nulls().to_numpy(), given.filter(places.is_null())

    def _places_of(self, given: pl.Series) -> pl.Series:
        found = pl.DataFrame({"id": self._as_known(given)}).join(
            self._places, on="id", how="left", maintain_order="left"
        )
        return found["place"]

    @property
    def _places(self) -> pl.DataFrame:
        return pl.DataFrame({"id": self.values, "place": np.arange(len(self.values))})

    def _as_known(self, given: pl.Series) -> pl.Series:
        """Cast to the type of the known ids; values that do not fit become null, which equals nothing.

        A text is a number only as a program would write it: ``007`` and ``+7`` are not 7.
        """
        texts = given.cast(pl.String)
        typed = texts.cast(self.values.dtype, strict=False)
        return typed.set(typed.cast(pl.String) != texts, None)

    def _unknown(self, given: Sequence[Any]) -> InputError:
        """An error that names one unknown id with the most similar known one, or the first of several."""
        known = f"({len(self.values):,} {self.kind}s are known)"
        if len(given) > 1:
            named = ", ".join(repr(str(each)) for each in given[:NAMED])
            more = f" and {len(given) - NAMED:,} more" if len(given) > NAMED else ""
            return InputError(f"{self.kind}: unknown ids {named}{more} {known}")
        texts = self.values.cast(pl.String)
        typed = pl.Series([str(given[0])]).cast(self.values.dtype, strict=False)
        place = int(self.values.search_sorted(typed[0])) if typed[0] is not None else 0
        nearby = texts[max(0, place - NEARBY) : place + NEARBY].to_list()
        near = difflib.get_close_matches(str(given[0]), nearby, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return InputError(f"{self.kind}: unknown id {str(given[0])!r}{hint} {known}")
