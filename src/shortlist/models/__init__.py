"""Models: they produce scores, independently of losses."""

from shortlist.models.base import Baseline, Factored, Model, PairScorer, TrainableModel, registry
from shortlist.models.baselines import EASE, IALS, ItemKNN, Popularity
from shortlist.models.graph_models import LightGCN, LightGCNpp, SimGCL, XSimGCL
from shortlist.models.history_models import Pooled, SimpleX
from shortlist.models.mf import MF
from shortlist.models.ncf import NCF

__all__ = [
    "EASE",
    "IALS",
    "MF",
    "NCF",
    "Baseline",
    "Factored",
    "ItemKNN",
    "LightGCN",
    "LightGCNpp",
    "Model",
    "PairScorer",
    "Pooled",
    "Popularity",
    "SimGCL",
    "SimpleX",
    "TrainableModel",
    "XSimGCL",
    "registry",
]
