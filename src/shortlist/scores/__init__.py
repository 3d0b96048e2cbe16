"""Similarities, and the score table that losses read."""

from shortlist.scores.batch import Batch
from shortlist.scores.context import Sizes, TableContext
from shortlist.scores.dense import DenseTable
from shortlist.scores.encoding import Encoding, ScoreEncoding, VectorEncoding, positive_and_drawn
from shortlist.scores.factored import FactoredTable, Workspace
from shortlist.scores.kernels import Exponential, Hinge, Kernel, Sigmoid, Softplus, SquaredHinge, UnitStep
from shortlist.scores.positive_pairs import PairWeight, positive_pair_sum
from shortlist.scores.similarity import Embeddings, Similarity, item_vectors, look_up, row_vectors
from shortlist.scores.table import Over, RankWeight, ScoreTable

__all__ = [
    "Batch",
    "DenseTable",
    "Embeddings",
    "Encoding",
    "Exponential",
    "FactoredTable",
    "Hinge",
    "Kernel",
    "Over",
    "PairWeight",
    "RankWeight",
    "ScoreEncoding",
    "ScoreTable",
    "Sigmoid",
    "Similarity",
    "Sizes",
    "Softplus",
    "SquaredHinge",
    "TableContext",
    "UnitStep",
    "VectorEncoding",
    "Workspace",
    "item_vectors",
    "look_up",
    "positive_and_drawn",
    "positive_pair_sum",
    "row_vectors",
]
