"""Ranked lists over the whole catalogue."""

from shortlist.ranking.scorer import Scorer
from shortlist.ranking.selector import Selector
from shortlist.ranking.tiling import Progress, score_catalogue
from shortlist.ranking.topk import Lists, Ranking, as_sequence, check_k, top_k

__all__ = ["Lists", "Progress", "Ranking", "Scorer", "Selector", "as_sequence", "check_k", "score_catalogue", "top_k"]
