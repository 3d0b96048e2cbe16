"""Protocols of scorers and queries."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from shortlist.data import IntArray
from shortlist.errors import InputError


class Queries(Protocol):
    """The queries of lists: an array of user indices, histories, documents with features.

    Rows are selected by an array of their positions, in any order and with repeats.
    """

    def __len__(self) -> int:
        """Number of queries."""

    def __getitem__(self, rows: IntArray) -> Any:
        """The queries of the given rows."""


class Scorer(Protocol):
    """A scorer of the full catalogue. A protocol: models need not subclass it.

    ``score`` is called from several threads at once and must be stateless.
    """

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""

    def score(self, queries: Any, out: Tensor | None = None) -> Tensor:
        """Scores [R, I] of every item for R queries, written into ``out`` if it is given.

        A score of −∞ marks an item that must not be recommended. ``out`` is float32; its rows need not be adjacent.
        """


def catalogue_size(scorer: Scorer) -> int:
    """The number of items that the scorer scores; an error for a model that was not fitted."""
    try:
        return scorer.n_items
    except AttributeError as error:
        name = type(scorer).__name__
        raise InputError(f"{name}: expected a fitted model, received one that was not fitted") from error
