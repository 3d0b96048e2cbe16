"""From the ids that people type to indices, with help for those who mistype them."""

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
"""Ids on each side of the place of an unknown one among which the most similar is looked for."""

NAMED = 5
"""How many of several unknown ids an error names."""


@dataclass(frozen=True, eq=False)
class Ids:
    """The ids of one kind, sorted: the index of an id is its place.

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
    >>> Ids("item", pl.Series([10, 20])).index("20")
    1
    """

    kind: str
    values: pl.Series

    def index(self, text: Any) -> int:
        """The index of one id, typed as text or given as it is."""
        return int(self.indices([text])[0])

    def indices(self, ids: Sequence[Any] | pl.Series) -> IntArray:
        """The index of each id; texts are read as whole numbers where ids are whole numbers."""
        given = pl.Series(ids, strict=False) if not isinstance(ids, pl.Series) else ids
        found = self._as_known(given).to_frame("id").join(self._places, on="id", how="left", maintain_order="left")
        places = found["place"]
        if places.null_count():
            raise self._unknown(given.filter(places.is_null()).to_list())
        return places.to_numpy()

    @property
    def _places(self) -> pl.DataFrame:
        return pl.DataFrame({"id": self.values, "place": np.arange(len(self.values))})

    def _as_known(self, given: pl.Series) -> pl.Series:
        """The given ids in the type of those known; what does not fit becomes null, which nothing is equal to."""
        return given.cast(pl.String).cast(self.values.dtype, strict=False)

    def _unknown(self, given: Sequence[Any]) -> InputError:
        """An error that names what is not known: one id with the most similar that is, or the first few of several."""
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
