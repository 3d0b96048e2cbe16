"""Who stands against the positives."""

from shortlist.negatives.draws import (
    BatchCandidates,
    Distribution,
    PairNegatives,
    Sample,
    SharedCandidates,
    popularity_mass,
)

__all__ = ["BatchCandidates", "Distribution", "PairNegatives", "Sample", "SharedCandidates", "popularity_mass"]
