"""Similarities, and the score table that losses read."""

from shortlist.scores.dense import DenseTable
from shortlist.scores.factored import FactoredTable, Workspace
from shortlist.scores.kernels import Exponential, Hinge, Kernel, Sigmoid, Softplus, SquaredHinge, UnitStep
from shortlist.scores.positive_pairs import PairWeight, positive_pair_sum
from shortlist.scores.similarity import Factors, Similarity, item_vectors, look_up, row_vectors
from shortlist.scores.table import Over, RankWeight, ScoreTable

__all__ = [
    "DenseTable",
    "Exponential",
    "FactoredTable",
    "Factors",
    "Hinge",
    "Kernel",
    "Over",
    "PairWeight",
    "RankWeight",
    "ScoreTable",
    "Sigmoid",
    "Similarity",
    "Softplus",
    "SquaredHinge",
    "UnitStep",
    "Workspace",
    "item_vectors",
    "look_up",
    "positive_pair_sum",
    "row_vectors",
]
