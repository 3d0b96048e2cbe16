"""What can be ranked: anything that scores the whole catalogue for some users."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from shortlist.data import IntArray


class Scorer(Protocol):
    """Scores of the whole catalogue. Models satisfy this by their shape; nothing is subclassed.

    ``score_all`` is called from several threads at once and must not keep anything between calls.
    """

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""

    def score_all(self, users: IntArray, out: Tensor | None = None) -> Tensor:
        """Scores [R, I] of every item for R users, written into ``out`` if it is given.

        A score of −∞ says that the item must not be recommended. ``out`` is float32; its rows need not be adjacent.
        """
