"""Similarities, and the score table that losses read."""

from shortlist.scores.dense import DenseTable
from shortlist.scores.factored import FactoredTable, Workspace
from shortlist.scores.kernels import Hinge, Kernel, Softplus
from shortlist.scores.similarity import Factors, Similarity, item_vectors, row_vectors
from shortlist.scores.table import Over, ScoreTable

__all__ = [
    "DenseTable",
    "FactoredTable",
    "Factors",
    "Hinge",
    "Kernel",
    "Over",
    "ScoreTable",
    "Similarity",
    "Softplus",
    "Workspace",
    "item_vectors",
    "row_vectors",
]
