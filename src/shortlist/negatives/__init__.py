"""Who stands against the positives."""

from shortlist.negatives.draws import Distribution, Sample, SharedCandidates, UniformNegatives

__all__ = ["Distribution", "Sample", "SharedCandidates", "UniformNegatives"]
