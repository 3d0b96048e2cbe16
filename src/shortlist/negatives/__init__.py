"""Negative sampling, and the candidates of a batch."""

from shortlist.negatives.draws import (
    BatchCandidates,
    Candidates,
    Distribution,
    PairNegatives,
    RowLists,
    RowSample,
    Sample,
    SharedCandidates,
    popularity_mass,
)

__all__ = [
    "BatchCandidates",
    "Candidates",
    "Distribution",
    "PairNegatives",
    "RowLists",
    "RowSample",
    "Sample",
    "SharedCandidates",
    "popularity_mass",
]
