"""One pass over the catalogue of every user that has something to find, and the values of all metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from shortlist.data import FloatArray, IntArray, Interactions
from shortlist.errors import InputError, unknown
from shortlist.metrics.at_k import AT_K
from shortlist.metrics.hits import Hits, find_hits
from shortlist.metrics.intervals import Interval, bootstrap
from shortlist.metrics.pairwise import Standing, Standings, auc, check_shares, llpauc, opauc
from shortlist.ranking import Lists, Progress, Ranking, Scorer, Selector, as_sequence, score_catalogue

KS = (5, 10, 20, 50, 100)
"""The lengths of list that are measured unless others are asked for."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A value of every metric for every user that took something, and the lists that gave them.

    ``per_user`` holds ``ndcg@20`` and so on, in the order of ``users_R``; ``skipped_users`` had nothing to be found.
    """

    users_R: IntArray
    per_user: Mapping[str, FloatArray]
    skipped_users: int
    ranking: Ranking

    def means(self) -> dict[str, float]:
        """The mean of each metric over the users that have a value."""
        return {name: _mean(value_R) for name, value_R in self.per_user.items()}

    def intervals(self, seed: int = 0, *, level: float = 0.95, resamples: int = 1000) -> dict[str, Interval]:
        """Bootstrap intervals of the means: users are drawn again, with replacement."""
        return bootstrap(self.per_user, seed, level=level, resamples=resamples)

    def to_frame(self, user_ids: pl.Series) -> pl.DataFrame:
        """A row a user: ``user_id`` as people know it, and a column a metric."""
        return pl.DataFrame({"user_id": user_ids[self.users_R], **self.per_user})


def evaluate(
    scorer: Scorer,
    truth: Interactions,
    exclude: Interactions | Sequence[Interactions] | None = (),
    ks: Sequence[int] = KS,
    *,
    metrics: Iterable[str] | None = None,
    pairwise: bool = False,
    alpha: float = 0.7,
    beta: float = 0.1,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate over the full catalogue, in one pass for all metrics at all K.

    What a user has in ``exclude`` is not recommended. Users without an item in ``truth`` are left out and counted. An
    item that stands in both cannot be recommended and still counts as one that should have been, as in the protocol of
    SL@K's authors. ``metrics`` names some of :data:`~shortlist.metrics.AT_K`; ``pairwise`` adds AUC, OPAUC(β),
    LLPAUC(α, β) and LLPAUC over its largest value, for which each user's whole catalogue is sorted.

    >>> import torch
    >>> class ByIndex:
    ...     n_items = 4
    ...     def score_all(self, users, out=None):
    ...         return -torch.arange(4.0).repeat(len(users), 1)
    >>> truth = Interactions.from_pairs([0, 0], [1, 3], user_ids=["ann", "bob"], item_ids=list("wxyz"))
    >>> evaluation = evaluate(ByIndex(), truth, ks=[2], metrics=["recall", "mrr"])
    >>> evaluation.means(), evaluation.skipped_users
    ({'recall@2': 0.5, 'mrr@2': 0.5}, 1)
    """
    names = _known(AT_K if metrics is None else metrics)
    ks = _checked(ks)
    check_shares(alpha, beta)
    if truth.n_items != scorer.n_items:
        raise InputError(f"evaluate: expected a truth over {scorer.n_items} items, received one over {truth.n_items}")
    users_R = np.flatnonzero(truth.user_counts())
    lists = Lists(users_R, max(ks))
    standings = Standings(users_R, truth) if pairwise else None

    def visit(rows: slice, selector: Selector) -> None:
        lists.keep(rows, selector)
        if standings is not None:
            standings.keep(rows, selector)

    score_catalogue(scorer, users_R, max(ks), visit, exclude=as_sequence(exclude), progress=progress)
    ranking = lists.ranking()
    per_user = values_at(find_hits(ranking, truth), ks, names)
    if standings is not None:
        per_user |= _pairwise(standings.standing(), alpha, beta)
    return Evaluation(users_R, per_user, truth.n_users - len(users_R), ranking)


def values_at(hits: Hits, ks: Sequence[int], metrics: Iterable[str] = tuple(AT_K)) -> dict[str, FloatArray]:
    """The value of each metric at each K for each list, by name: ``ndcg@20``."""
    return {f"{name}@{k}": AT_K[name](hits, k) for name in metrics for k in ks}


def _pairwise(standing: Standing, alpha: float, beta: float) -> dict[str, FloatArray]:
    return {
        "auc": auc(standing),
        f"opauc({beta:g})": opauc(standing, beta),
        f"llpauc({alpha:g},{beta:g})": llpauc(standing, alpha, beta),
        f"llpauc({alpha:g},{beta:g})/max": llpauc(standing, alpha, beta, normalised=True),
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
