"""Ranked lists over the whole catalogue."""

from shortlist.ranking.scorer import Scorer
from shortlist.ranking.selection import Selector
from shortlist.ranking.tiles import Progress, sweep
from shortlist.ranking.topk import Lists, Ranking, as_sequence, check_k, top_k

__all__ = ["Lists", "Progress", "Ranking", "Scorer", "Selector", "as_sequence", "check_k", "sweep", "top_k"]
