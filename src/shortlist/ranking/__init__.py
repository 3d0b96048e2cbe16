"""Ranked lists over the full catalogue."""

from shortlist.ranking.rows import Excluded, RowItems, excluded_rows
from shortlist.ranking.scorer import Queries, Scorer, catalogue_size
from shortlist.ranking.selector import Selector
from shortlist.ranking.tiling import Progress, score_catalogue
from shortlist.ranking.topk import Ranking, RankingCollector, check_k, query_numbers, top_k

__all__ = [
    "Excluded",
    "Progress",
    "Queries",
    "Ranking",
    "RankingCollector",
    "RowItems",
    "Scorer",
    "Selector",
    "catalogue_size",
    "check_k",
    "excluded_rows",
    "query_numbers",
    "score_catalogue",
    "top_k",
]
