"""Models: they produce scores and know nothing of losses."""

from shortlist.models.base import Baseline, Model, registry
from shortlist.models.baselines import EASE, IALS, ItemKNN, Popularity

__all__ = ["EASE", "IALS", "Baseline", "ItemKNN", "Model", "Popularity", "registry"]
