"""Concentration of a loss's gradient: how it is distributed over the positives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from shortlist.losses import Loss
from shortlist.models import TrainableModel
from shortlist.negatives import Sample
from shortlist.scores import Batch, DenseTable, ScoreTable, Workspace
from shortlist.tasks import Batches

_SCORES = 2**21
"""Scores of complete rows per batch; some losses need a multiple of that memory, by the positives per row."""

_ROWS = 64
"""Maximum rows of the full catalogue per batch."""


def gradient_sizes(
    loss: Loss,
    batches: Batches,
    model: TrainableModel,
    generator: torch.Generator,
    *,
    thresholds: Callable[[Tensor], Tensor] | None = None,
    at_least: int | None = None,
) -> Tensor:
    """|∂L/∂s_ui| of the positives of an epoch, where L is the sum over positives.

    Gradients of negatives' scores are not included. ``thresholds`` gives the Top-K thresholds of keys, if the loss
    needs them. With ``at_least``, batches are processed until this number of positives is reached, not for the full
    epoch. Complete rows are processed in smaller batches than in training, since their scores and gradients are in
    memory.
    """
    modes, size = (model.training, loss.training), batches.size
    if batches.rows_are_complete and batches.reaches_all:
        batches.size = min(size, _ROWS, max(1, _SCORES // model.n_items))
    gradients, n_positives, workspace = [], 0, Workspace()
    model.eval()  # vectors are computed once for all batches
    loss.eval()  # keeps the state unchanged
    try:
        for batch in batches.epoch(generator):
            batch = batch.to(model.device)
            with torch.no_grad():
                table = model.encode(batch).table(batch, workspace, generator)
            if thresholds is not None:
                assert batch.key_R is not None
                table = table.with_threshold(thresholds(batch.key_R))
            leaf = _with_leaves(table)
            (loss(leaf) * leaf.n_positives).backward()
            gradients.append(_own(leaf, batch).abs())
            n_positives += leaf.n_positives
            if at_least is not None and n_positives >= at_least:
                break
    finally:
        batches.size = size
        model.train(modes[0])
        loss.train(modes[1])
        loss.zero_grad()
    return torch.cat(gradients) if gradients else torch.empty(0, device=model.device)


def _own(leaf: DenseTable, batch: Batch) -> Tensor:
    """The gradient of each positive's score, including that through the score matrix."""
    own_P = torch.zeros_like(leaf.pos_P) if leaf.pos_P.grad is None else leaf.pos_P.grad
    if leaf.cand_RC.grad is None or batch.drawn is not None:  # drawn items are negatives
        return own_P
    column_P, present_P = batch.item_P, torch.ones_like(batch.item_P, dtype=torch.bool)
    if isinstance(batch.candidates, Sample):
        item_C = batch.candidates.item_C
        column_P = torch.searchsorted(item_C, batch.item_P).clamp_(max=len(item_C) - 1)
        present_P = item_C[column_P] == batch.item_P
    return own_P + leaf.cand_RC.grad[batch.row_P, column_P] * present_P


def carried_by_top(size_P: Tensor, top: float) -> float:
    """The fraction of the total in the largest values, a fraction ``top`` of all; NaN if the total is 0.

    >>> carried_by_top(torch.tensor([1.0, 1.0, 6.0, 2.0]), top=0.25)
    0.6
    """
    count = max(1, round(top * len(size_P)))
    total = float(size_P.double().sum())
    return float(size_P.double().topk(count).values.sum()) / total if total else math.nan


def _with_leaves(table: ScoreTable) -> DenseTable:
    """The same table with scores that are leaves of the graph and with equal weights of positives."""
    is_negative_RC = table.is_negative()
    positive_RC = None if bool(is_negative_RC.all()) else ~is_negative_RC
    return DenseTable(
        table.positives().detach().clone().requires_grad_(),
        table.row_P,
        table.matrix().detach().clone().requires_grad_(),
        positive_RC=positive_RC,
        log_weight=table.log_weights(),
        n_represented_R=table.n_represented_R,
        context=replace(table.context, weight_P=None),
    )
