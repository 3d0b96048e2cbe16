"""How the gradient of a loss is spread over the positives: by few of them, or by all alike."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from shortlist.losses import Loss
from shortlist.models.base import PairScorer
from shortlist.scores import DenseTable, Factors, ScoreTable, Workspace
from shortlist.training.batches import Batches, Step, score_table

AS_ONE = 2**21
"""Scores of whole rows that are looked at together; for some losses, as many times over as rows have positives."""

MOST_ROWS = 64
"""Rows of the whole catalogue that are looked at together, however short they are."""


def gradient_sizes(
    loss: Loss,
    batches: Batches,
    source: Factors | PairScorer,
    generator: torch.Generator,
    *,
    thresholds: Callable[[Tensor], Tensor] | None = None,
    at_least: int | None = None,
) -> Tensor:
    """|∂L/∂s_ui| of the positives of an epoch, where L is the sum over positives: what each one's own score receives.

    What the scores of negatives receive is not counted. ``thresholds`` tells the Top-K thresholds of given users, where
    the loss reads any. With ``at_least``, steps are taken until so many positives have been seen, and not the whole
    epoch. Whole rows are taken in smaller steps than in training: their scores are held together with their gradients.
    """
    was_training, size = loss.training, batches.size
    if batches.rows_are_users and batches.reaches_all:
        n_items = source.n_items if isinstance(source, PairScorer) else len(source.item_ID)
        batches.size = min(size, MOST_ROWS, max(1, AS_ONE // n_items))
    found, seen, workspace = [], 0, Workspace()
    loss.eval()  # what it remembers of users stays as it is
    try:
        for step in batches.epoch(generator):
            with torch.no_grad():
                table = score_table(step, source, workspace)
            table.generator = generator
            table.threshold_R = None if thresholds is None else thresholds(step.user_R)
            leaf = _with_leaves(table)
            (loss(leaf) * leaf.n_positives).backward()
            found.append(_own(leaf, step).abs())
            seen += leaf.n_positives
            if at_least is not None and seen >= at_least:
                break
    finally:
        batches.size = size
        loss.train(was_training)
        loss.zero_grad()
    return torch.cat(found) if found else torch.empty(0)


def _own(leaf: DenseTable, step: Step) -> Tensor:
    """What the score of each positive receives, also where a loss has read it off the matrix."""
    own_P = torch.zeros_like(leaf.pos_P) if leaf.pos_P.grad is None else leaf.pos_P.grad
    if leaf.cand_RC.grad is None or step.drawn_RN is not None:  # draws are negatives
        return own_P
    column_P, there_P = step.item_P, torch.ones_like(step.item_P, dtype=torch.bool)
    if step.shared_C is not None:
        column_P = torch.searchsorted(step.shared_C, step.item_P).clamp_(max=len(step.shared_C) - 1)
        there_P = step.shared_C[column_P] == step.item_P
    return own_P + leaf.cand_RC.grad[step.row_P, column_P] * there_P


def carried_by_top(size_P: Tensor, top: float) -> float:
    """The share of the total that the largest ones carry; no number where there is nothing to carry.

    >>> carried_by_top(torch.tensor([1.0, 1.0, 6.0, 2.0]), top=0.25)
    0.6
    """
    count = max(1, round(top * len(size_P)))
    total = float(size_P.double().sum())
    return float(size_P.double().topk(count).values.sum()) / total if total else math.nan


def _with_leaves(table: ScoreTable) -> DenseTable:
    """The same table over scores that gradients end in."""
    leaf = DenseTable(
        table.positives().detach().clone().requires_grad_(),
        table.row_P,
        table.matrix().detach().clone().requires_grad_(),
        positive_RC=table.is_positive(),
        log_weight=table.log_weights(),
        n_represented_R=table.n_represented_R,
        threshold_R=table.threshold_R,
    )
    leaf.user_R, leaf.pair_P, leaf.item_C = table.user_R, table.pair_P, table.item_C
    leaf.n_items, leaf.negatives_R, leaf.generator = table.n_items, table.negatives_R, table.generator
    return leaf
