"""One pass over the catalogue of every query with relevant items, and the values of all metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from shortlist.data import FloatArray, IntArray, Interactions
from shortlist.errors import InputError, unknown
from shortlist.metrics.at_k import AT_K
from shortlist.metrics.hits import Hits, find_hits
from shortlist.metrics.intervals import Interval, bootstrap
from shortlist.metrics.pairwise import PairCounts, PairCountsCollector, auc, check_shares, llpauc, opauc
from shortlist.ranking import (
    Excluded,
    Progress,
    Ranking,
    RankingCollector,
    RowItems,
    Scorer,
    Selector,
    catalogue_size,
    excluded_rows,
    score_catalogue,
)

KS = (5, 10, 20, 50, 100)
"""The default list lengths K."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A value of every metric for every query with relevant items, and their lists.

    ``per_query`` contains ``ndcg@20`` and so on, in the order of ``queries_R``, the indices of the queries (of users,
    if queries are users). ``n_skipped`` queries have no relevant item.
    """

    queries_R: IntArray
    per_query: Mapping[str, FloatArray]
    n_skipped: int
    ranking: Ranking

    def means(self) -> dict[str, float]:
        """The mean of each metric over the queries with a value."""
        return {name: _mean(value_R) for name, value_R in self.per_query.items()}

    def intervals(self, seed: int = 0, *, level: float = 0.95, resamples: int = 1000) -> dict[str, Interval]:
        """Bootstrap intervals of the means: queries are resampled with replacement."""
        return bootstrap(self.per_query, seed, level=level, resamples=resamples)

    def to_frame(self, ids: pl.Series) -> pl.DataFrame:
        """A row for each query: its id, under the name of ``ids``, and a column for each metric."""
        return pl.DataFrame({ids.name: ids[self.queries_R], **self.per_query})


@dataclass(frozen=True, eq=False)
class EvaluationSet:
    """Queries with relevant items, the items excluded from their lists, and the number of skipped queries."""

    queries: Any
    """The input of the scorer; rows are selected by position (:class:`~shortlist.ranking.Queries`)."""

    queries_R: IntArray
    """The index of each query among all queries of the data."""

    truth: RowItems
    exclude: tuple[RowItems, ...] = ()
    n_skipped: int = 0

    @classmethod
    def of_users(cls, truth: Interactions, exclude: Excluded = ()) -> EvaluationSet:
        """The users with items in ``truth``; users without are skipped and counted."""
        users_R = np.flatnonzero(truth.user_counts())
        rows = RowItems.of(truth, users_R)
        return cls(users_R, users_R, rows, excluded_rows(exclude, users_R), truth.n_users - len(users_R))


def evaluate(
    scorer: Scorer,
    truth: Interactions,
    exclude: Excluded = (),
    ks: Sequence[int] = KS,
    *,
    metrics: Iterable[str] | None = None,
    pairwise: bool = False,
    alpha: float = 0.7,
    beta: float = 0.1,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate lists of users over the full catalogue, in one pass for all metrics at all K.

    A user's items in ``exclude`` are not recommended. Users without an item in ``truth`` are skipped and counted. An
    item in both is not recommended and still counts as relevant, as in the protocol of SL@K's authors. ``metrics``
    selects from :data:`~shortlist.metrics.AT_K`. ``pairwise`` adds AUC, OPAUC(β), LLPAUC(α, β) and LLPAUC divided by
    its largest value, for which the full catalogue is sorted for each user.

    >>> import torch
    >>> class ByIndex:
    ...     n_items = 4
    ...     def score(self, queries, out=None):
    ...         return -torch.arange(4.0).repeat(len(queries), 1)
    >>> truth = Interactions.from_pairs([0, 0], [1, 3], user_ids=["ann", "bob"], item_ids=list("wxyz"))
    >>> evaluation = evaluate(ByIndex(), truth, ks=[2], metrics=["recall", "mrr"])
    >>> evaluation.means(), evaluation.n_skipped
    ({'recall@2': 0.5, 'mrr@2': 0.5}, 1)
    """
    if truth.n_items != catalogue_size(scorer):
        raise InputError(f"evaluate: expected a truth over {scorer.n_items} items, received one over {truth.n_items}")
    asked = EvaluationSet.of_users(truth, exclude)
    options: dict[str, Any] = {"metrics": metrics, "pairwise": pairwise, "alpha": alpha, "beta": beta}
    return evaluate_set(scorer, asked, ks, **options, progress=progress)


def evaluate_set(
    scorer: Scorer,
    asked: EvaluationSet,
    ks: Sequence[int] = KS,
    *,
    metrics: Iterable[str] | None = None,
    pairwise: bool = False,
    alpha: float = 0.7,
    beta: float = 0.1,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate the lists of any queries, as :func:`evaluate` does for users."""
    names = _known(AT_K if metrics is None else metrics)
    ks = _checked(ks)
    check_shares(alpha, beta)
    lists = RankingCollector(asked.queries_R, max(ks))
    collector = PairCountsCollector(asked.truth) if pairwise else None

    def visit(rows: slice, selector: Selector) -> None:
        lists.keep(rows, selector)
        if collector is not None:
            collector.keep(rows, selector)

    score_catalogue(
        scorer, asked.queries, max(ks), visit, exclude=asked.exclude, n_items=asked.truth.n_items, progress=progress
    )
    ranking = lists.ranking()
    per_query = values_at(find_hits(ranking, asked.truth), ks, names)
    if collector is not None:
        per_query |= _pairwise(collector.counts(), alpha, beta)
    return Evaluation(asked.queries_R, per_query, asked.n_skipped, ranking)


def values_at(hits: Hits, ks: Sequence[int], metrics: Iterable[str] = tuple(AT_K)) -> dict[str, FloatArray]:
    """The value of each metric at each K for each list, by name: ``ndcg@20``."""
    return {f"{name}@{k}": AT_K[name](hits, k) for name in metrics for k in ks}


def _pairwise(counts: PairCounts, alpha: float, beta: float) -> dict[str, FloatArray]:
    return {
        "auc": auc(counts),
        f"opauc({beta:g})": opauc(counts, beta),
        f"llpauc({alpha:g},{beta:g})": llpauc(counts, alpha, beta),
        f"llpauc({alpha:g},{beta:g})/max": llpauc(counts, alpha, beta, normalised=True),
    }


def _known(metrics: Iterable[str]) -> list[str]:
    names = list(metrics)
    for name in names:
        if name not in AT_K:
            raise unknown("metrics", "name", name, AT_K)
    return names


def _checked(ks: Sequence[int]) -> list[int]:
    if not ks or min(ks) < 1:
        raise InputError(f"evaluate.ks: expected whole numbers of at least 1, received {list(ks)}")
    return sorted(set(ks))


def _mean(value_R: FloatArray) -> float:
    value_V = value_R[~np.isnan(value_R)]
    return float(value_V.mean()) if len(value_V) else float("nan")
