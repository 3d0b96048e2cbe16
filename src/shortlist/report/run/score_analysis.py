"""Analysis of a model's scores: thresholds, weights, estimation errors, gradients. Memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from torch import Tensor

from shortlist.data import IntArray, Interactions, Split
from shortlist.formatting import format_range
from shortlist.losses import Loss
from shortlist.models import Model, TrainableModel
from shortlist.scores import DenseTable
from shortlist.tasks import task_of
from shortlist.thresholds import Estimator, ThresholdError, judge
from shortlist.thresholds.estimators import ESTIMATORS
from shortlist.training import TrainingSettings
from shortlist.training.gradient_concentration import gradient_sizes
from shortlist.training.settings import batches_for

LOOKED_AT = 2**24
"""Maximum number of analysed scores; above it users are sampled."""

FEWEST = 100
"""Minimum number of analysed users, for any size of the catalogue."""

BLOCK = 2**21
"""Maximum number of scores in memory."""

JUDGED = 2**21
"""Maximum number of scores for the evaluation of estimators."""

DIFFERENTIATED = 2**26
"""Maximum number of positives × items for gradients."""

NEGATIVES = 50
"""Number of other items that are sampled for each user."""

DRAWS = 5
"""Samples over which the error of an estimator is averaged."""

SIZES = (100, 300, 1000, 3000, 10_000)
SAMPLED: tuple[Estimator, ...] = ("monte_carlo", "positives_kept", "stratified")
"""Estimators that depend on a sample only; the others need the state of training."""


def some_users(train: Interactions, scores: int, seed: int) -> IntArray:
    """Users with training items, in random order: as many as the number of scores allows."""
    users = np.flatnonzero(train.user_counts())
    most = max(FEWEST, scores // max(1, train.n_items))
    return np.random.default_rng([seed, 0]).permutation(users)[:most]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of some users: R users, P training items, H held-out items and M others.

    ``threshold_R`` is exact: the K-th largest score of the user's whole catalogue. ``rank_P`` is the rank of a
    training item in it, and ``weight_P`` the weight that the loss derives from the threshold, if it does.
    """

    users_R: IntArray
    k: int
    threshold_R: Tensor
    pos_P: Tensor
    row_P: Tensor
    rank_P: Tensor
    weight_P: Tensor | None
    held_H: Tensor
    neg_M: Tensor


@torch.no_grad()
def look(model: Model, split: Split, users: IntArray, k: int, loss: Loss | None, seed: int) -> Scores:
    """Score the catalogue for the given users in blocks, and collect the analysed scores."""
    generator = torch.Generator().manual_seed(seed)
    parts: dict[str, list[Tensor]] = {}

    def keep(**found: Tensor) -> None:
        for name, value in found.items():
            parts.setdefault(name, []).append(value)

    done = 0
    for users_B in _blocks(users, model.n_items):
        table, score_BI = _table(model, split.train, users_B)
        threshold_R = score_BI.topk(k, 1).values[:, -1]
        table = table.with_threshold(threshold_R)
        keep(threshold=threshold_R, pos=table.pos_P, row=table.row_P + done, rank=_ranks(table, score_BI))
        weight_P = None if loss is None else loss.weights(table)
        if weight_P is not None:
            keep(weight=weight_P)
        known_BI = ~table.is_negative()
        for part in (split.valid, split.test):
            if part is not None:
                row_H, item_H = (torch.from_numpy(each).long() for each in part.pairs_of(users_B))
                known_BI[row_H, item_H] = True
                if part is split.test:
                    keep(held=score_BI[row_H, item_H])
        drawn_BM = torch.randint(model.n_items, (len(users_B), NEGATIVES), generator=generator)
        keep(neg=score_BI.gather(1, drawn_BM)[~known_BI.gather(1, drawn_BM)])
        done += len(users_B)

    def joined(name: str) -> Tensor:
        return torch.cat(parts[name]) if name in parts else torch.empty(0)

    weight = joined("weight") if "weight" in parts else None
    return Scores(
        users,
        k,
        joined("threshold"),
        joined("pos"),
        joined("row"),
        joined("rank"),
        weight,
        joined("held"),
        joined("neg"),
    )


def _blocks(users: IntArray, n_items: int) -> Iterator[IntArray]:
    size = max(1, BLOCK // max(1, n_items))
    for start in range(0, len(users), size):
        yield users[start : start + size]


def _table(model: Model, train: Interactions, users: IntArray) -> tuple[DenseTable, Tensor]:
    """The scores of all items for some users, with their training items as positives; on the CPU."""
    score_RI = model.score(np.asarray(users, np.int64)).detach().cpu()
    row_P, item_P = (torch.from_numpy(each).long() for each in train.pairs_of(users))
    positive_RI = torch.zeros_like(score_RI, dtype=torch.bool)
    positive_RI[row_P, item_P] = True
    return DenseTable(score_RI[row_P, item_P], row_P, score_RI, positive_RC=positive_RI), score_RI


def _ranks(table: DenseTable, score_RI: Tensor) -> Tensor:
    """#{j : s_rj ≥ s_p} over the whole catalogue, in portions of positives."""
    size = max(1, BLOCK // max(1, score_RI.shape[1]))
    portions = zip(table.pos_P.split(size), table.row_P.split(size), strict=True)
    found = [(score_RI[row_S] >= pos_S.unsqueeze(1)).sum(1) for pos_S, row_S in portions]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.long)


def outlines(kinds: dict[str, Tensor], bins: int = 60) -> pl.DataFrame:
    """Histograms of several kinds of scores over the same bins, each with 1 at its highest: ``name``, ``x``, ``y``.

    The bins reach over the middle 99.8 % of each kind; values outside are counted in the outermost bins.
    """
    finite = {name: value[value.isfinite()].double().numpy() for name, value in kinds.items()}
    there = {name: value for name, value in finite.items() if len(value)}
    if not there:
        return pl.DataFrame()
    low = min(float(np.quantile(value, 0.001)) for value in there.values())
    high = max(float(np.quantile(value, 0.999)) for value in there.values())
    if high <= low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    rows = []
    for name, value in there.items():
        counts = np.histogram(value.clip(low, high), edges)[0]
        rows += [
            {"name": name, "x": float(x), "y": float(y)} for x, y in zip(middles, counts / counts.max(), strict=True)
        ]
    return pl.DataFrame(rows)


def weight_bins(weight_P: Tensor, bins: int = 40) -> pl.DataFrame:
    """The share of positives in each of equal bins from 0 to 1: ``from``, ``to``, ``share``."""
    counts, edges = np.histogram(weight_P.double().numpy(), bins, (0.0, 1.0))
    return pl.DataFrame({"from": edges[:-1], "to": edges[1:], "share": counts / max(1, counts.sum())})


def weights_by_rank(weight_P: Tensor, rank_P: Tensor, k: int, n_items: int) -> pl.DataFrame:
    """Quartiles of the weight for groups of ranks: ``group``, ``positives``, ``low``, ``mid``, ``high``.

    The groups end at K/4, K, 2·K, 5·K, 20·K, 100·K and the last rank; those without positives are left out.

    >>> groups = weights_by_rank(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1, 2, 9]), k=3, n_items=10)
    >>> groups["group"].to_list(), groups["positives"].to_list()
    (['1', '2–3', '7–10'], [1, 1, 1])
    """
    ends = sorted({min(end, n_items) for end in (max(1, k // 4), k, 2 * k, 5 * k, 20 * k, 100 * k, n_items)})
    begins = [1, *(end + 1 for end in ends[:-1])]
    group_P = np.searchsorted(ends, rank_P.numpy())
    rows = []
    for group, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        here = weight_P.double().numpy()[group_P == group]
        if len(here):
            low, mid, high = np.quantile(here, [0.25, 0.5, 0.75])
            name = format_range(begin, end)
            rows.append({"group": name, "positives": len(here), "low": low, "mid": mid, "high": high})
    return pl.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimators on samples of several sizes, judged by exact thresholds; for one size, all estimates of some users."""

    judged: dict[tuple[Estimator, int], ThresholdError]
    users: int
    shown: int
    """The size of the sample that ``exact_R`` and ``estimate_R`` are about."""

    exact_R: Tensor
    estimate_R: dict[Estimator, Tensor]


@torch.no_grad()
def estimates(model: Model, train: Interactions, users: IntArray, k: int, samples: int, seed: int) -> Estimates:
    """Estimate the thresholds of some users from samples of the catalogue, as training would at this moment."""
    n_items = model.n_items
    users = users[: max(1, min(len(users), max(FEWEST // 2, JUDGED // n_items)))]
    table, score_RI = _table(model, train, users)
    ascending_RI = score_RI.sort(1).values
    sizes = sorted({size for size in (*SIZES, samples) if size < n_items})
    sizes = sizes or sorted({max(1, n_items // part) for part in (4, 2)})
    shown = samples if samples in sizes else sizes[-1]
    judged, shown_R = {}, {}
    for place, estimator in enumerate(SAMPLED):
        for size in sizes:
            draws = []
            for draw in range(DRAWS):
                generator = torch.Generator().manual_seed(seed + 1000 * draw + place)
                value_R = ESTIMATORS[estimator](table, k, n_items, size, generator, None)
                draws.append(judge(value_R, ascending_RI, table.pos_P, table.row_P, k))
                if draw == 0 and size == shown:
                    shown_R[estimator] = value_R
            judged[estimator, size] = _mean(draws)
    return Estimates(judged, len(users), shown, ascending_RI[:, -k], shown_R)


def _mean(judgements: Sequence[ThresholdError]) -> ThresholdError:
    names = ThresholdError.__dataclass_fields__
    return ThresholdError(**{name: float(np.mean([getattr(each, name) for each in judgements])) for name in names})


def gradients(
    model: TrainableModel,
    loss: Loss,
    train: Interactions,
    settings: TrainingSettings,
    k: int | None,
    epoch: int,
    seed: int,
) -> Tensor:
    """|∂L/∂s_ui| of some positives, in steps as training takes them in that epoch; thresholds, if any, are exact."""
    generator = torch.Generator().manual_seed(seed)
    task = task_of(train)
    loss.initialize(task.sizes, generator)
    loss.to(model.device)
    loss.before_epoch(epoch)

    def exact_thresholds(user_R: Tensor) -> Tensor:
        distinct, place_R = torch.unique(user_R, return_inverse=True)
        found = [
            model.score(np.asarray(users_B, np.int64)).topk(k or 1, 1).values[:, -1]
            for users_B in _blocks(distinct.cpu().numpy(), model.n_items)
        ]
        return torch.cat(found)[place_R]

    return gradient_sizes(
        loss,
        batches_for(model, loss, task, settings),
        model,
        generator,
        thresholds=None if k is None else torch.no_grad()(exact_thresholds),
        at_least=min(20_000, max(1000, DIFFERENTIATED // max(1, train.n_items))),
    ).cpu()


def concentration(size_P: Tensor, points: int = 100) -> pl.DataFrame:
    """The share of the total (``y``) that the largest share of positives (``x``) carries, from 0 to 1.

    >>> concentration(torch.tensor([3.0, 1.0]), points=2).rows()
    [(0.0, 0.0), (0.5, 0.75), (1.0, 1.0)]
    """
    descending_P = size_P.double().sort(descending=True).values
    carried = (
        torch.cat([torch.zeros(1, dtype=torch.float64, device=descending_P.device), descending_P.cumsum(0)])
        / descending_P.sum()
    )
    x = np.linspace(0, 1, points + 1)
    y = np.interp(x, np.linspace(0, 1, len(carried)), carried.numpy())
    return pl.DataFrame({"x": x, "y": y})
