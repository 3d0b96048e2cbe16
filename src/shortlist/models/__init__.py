"""Models: they produce scores and know nothing of losses."""

from shortlist.models.base import Baseline, Factored, Model, registry
from shortlist.models.baselines import EASE, IALS, ItemKNN, Popularity
from shortlist.models.mf import MF

__all__ = ["EASE", "IALS", "MF", "Baseline", "Factored", "ItemKNN", "Model", "Popularity", "registry"]
