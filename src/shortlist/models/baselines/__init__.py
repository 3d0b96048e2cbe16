"""Models without a loss: counted, solved in closed form, or fitted by their own algorithm."""

from shortlist.models.baselines.ease import EASE
from shortlist.models.baselines.ials import IALS
from shortlist.models.baselines.item_knn import ItemKNN
from shortlist.models.baselines.popularity import Popularity

__all__ = ["EASE", "IALS", "ItemKNN", "Popularity"]
