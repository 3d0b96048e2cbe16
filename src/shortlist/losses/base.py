"""What a loss is: its parameters, and a formula over a score table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.parameters import Configured
from shortlist.registry import Registry
from shortlist.scores import DenseTable, ScoreTable, Similarity, Sizes, TableContext
from shortlist.thresholds import Thresholds


class Loss(Configured, nn.Module, ABC):
    """A ranking loss. Subclasses declare parameters and write :meth:`value`; nothing else is needed.

    In your own training loop, call it with scores: ``loss(pos, neg)`` of shapes ``[B]`` and ``[B, N]``, or
    ``loss(scores, labels)`` of shapes ``[B, L]``. Shortlist's loop calls it with a score table.

    State belongs in parameters, which the loop's optimiser updates, or in buffers, which the loss updates itself; both
    are part of every checkpoint. They are created in :meth:`initialize` and updated in :meth:`before_epoch` and
    :meth:`after_step`. Rows without keys are treated as new rows.
    """

    formula: ClassVar[str] = ""
    """The loss of one positive i of row u, in one line."""

    target: ClassVar[str] = ""
    """The metric that the loss optimises."""

    citation: ClassVar[str] = ""

    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names of the loss, by which it is found, too."""

    similarity: ClassVar[Similarity] = "dot"
    """The similarity of the scores, unless the model sets another."""

    sampled: ClassVar[int | None] = None
    """The number of negatives drawn per positive, unless training sets another; None: the full catalogue."""

    cost: ClassVar[str] = ""
    """The computational cost of a step: how often it passes over the items, and for what."""

    use: ClassVar[str] = ""
    """When to use it, in one sentence."""

    collapse_hint: ClassVar[str] = ""
    """What to change if training with this loss collapses."""

    reads_thresholds: ClassVar[bool] = False
    """Whether the formula reads the Top-K threshold of each row."""

    def forward(
        self,
        scores: ScoreTable | Tensor,
        targets: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        weights: Tensor | None = None,
        threshold: Tensor | None = None,
        keys: Tensor | None = None,
        pairs: Tensor | None = None,
        items: Tensor | None = None,
        log_q: Tensor | None = None,
        n_items: int | None = None,
        generator: torch.Generator | None = None,
        reduction: Literal["mean", "sum"] = "mean",
    ) -> Tensor:
        """The loss of a score table, of positive and negative scores, or of scores and labels.

        - ``loss(scores [B], targets [B, N])``: one positive score per row and the scores of its negatives.
        - ``loss(scores [B, L], targets [B, L])``: lists of scores and their labels, graded or binary; a label below 0
          marks padding.

        ``mask`` has the shape of ``targets`` and is false at padding; ``weights`` has the shape of ``scores`` and gives
        the weight of each positive. Some losses need more: the Top-K ``threshold`` of each row [B]; ``keys`` that
        identify rows [B], for state; ``pairs``, of the shape of ``scores``: the index of each positive among all
        training pairs; ``items``, of the shape of ``targets`` or of one of its rows: the items of these scores;
        ``n_items``, the size of the catalogue; a random ``generator``.

        ``log_q`` [N] or [B, N] is the logarithm of the probability with which each negative was drawn. Sums over the
        negatives are then unbiased for sums over the catalogue, and softmax losses correct their logits.
        ``reduction="sum"`` is the mean times the number of positives, or their total weight. Scores in half precision
        and scores under autocast are computed in float32.
        """
        if isinstance(scores, ScoreTable):
            return self.value(scores)
        owner = type(self).__name__
        _check_shapes(owner, scores, targets, mask, weights, threshold, keys, pairs, items)
        assert targets is not None
        if threshold is not None and not self.reads_thresholds:
            raise InputError(f"{owner}.threshold: expected none, which the loss does not read, received one")
        if reduction not in ("mean", "sum"):
            raise InputError(f"{owner}.reduction: expected 'mean' or 'sum', received {reduction!r}")
        scores = _in_full_precision(scores)
        context = TableContext(key_R=keys, item_C=items, threshold_R=threshold, n_items=n_items, generator=generator)
        if scores.ndim == 2:
            if log_q is not None:
                raise InputError(f"{owner}.log_q: expected negative scores [B, N] beside it, received labels [B, L]")
            table = DenseTable.from_labels(
                scores, targets, mask_BL=mask, weight_BL=weights, pair_BL=pairs, context=context
            )
        else:
            context = replace(context, pair_P=pairs, weight_P=weights)
            targets = _in_full_precision(targets)
            table = DenseTable.from_pairs(scores, targets, mask_BN=mask, log_q=log_q, context=context)
        with _without_autocast(scores.device):
            value = self.value(table)
        return value if reduction == "mean" else value * _total_weight(table)

    @abstractmethod
    def value(self, table: ScoreTable) -> Tensor:
        """The formula: a scalar."""

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """Create the state for keys, items and training pairs; called once, before the first epoch.

        It may be created on the CPU: the loop moves the loss to its device afterwards.
        """
        return

    def before_epoch(self, epoch: int) -> None:
        """Prepare for an epoch, counted from 1."""
        return

    def after_step(self, rate: float | None = None, *, grad_scale: float = 1.0) -> None:
        """Update the loss's own state after the optimiser's step.

        ``rate`` is the learning rate of that step; without one the loss uses a rate of its own. ``grad_scale`` is the
        factor by which gradients were scaled, as by ``torch.amp.GradScaler``.
        """
        return

    def thresholds(self, sizes: Sizes) -> Thresholds | None:
        """The Top-K thresholds that the loop estimates for this loss; None if it needs none."""
        return None

    def collapse_hint_for(self) -> str:
        """The part of :attr:`collapse_hint` that the settings do not already follow."""
        return self.collapse_hint

    def weights(self, table: ScoreTable) -> Tensor | None:
        """The weight of each positive by its score relative to its row's threshold; None if the loss has none."""
        return None


def _in_full_precision(scores: Tensor) -> Tensor:
    """Scores in float32 where they are in half precision: sums over many items need more."""
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def _without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """A context in which products are not rounded to half precision, as in torch's own losses."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def _total_weight(table: ScoreTable) -> Tensor:
    """The number of positives, or their total weight."""
    weight_P = table.context.weight_P
    return table.positives().new_tensor(float(table.n_positives)) if weight_P is None else weight_P.sum()


def _check_shapes(
    owner: str,
    scores: Tensor,
    targets: Tensor | None,
    mask: Tensor | None,
    weights: Tensor | None,
    threshold: Tensor | None,
    keys: Tensor | None,
    pairs: Tensor | None,
    items: Tensor | None,
) -> None:
    """Raise an error if the shapes of tensors do not match."""
    if targets is None:
        raise InputError(f"{owner}: expected negative scores [B, N] or labels [B, L], received none")
    both = f"{list(scores.shape)} and {list(targets.shape)}"
    if scores.ndim == 2 and targets.shape != scores.shape:
        raise InputError(f"{owner}: expected scores and labels of one shape [B, L], received {both}")
    if scores.ndim != 2 and (scores.ndim != 1 or targets.ndim != 2 or len(scores) != len(targets)):
        raise InputError(f"{owner}: expected positive scores [B] and negative scores [B, N], received {both}")
    wanted = (
        ("mask", mask, targets.shape),
        ("weights", weights, scores.shape),
        ("threshold", threshold, scores.shape[:1]),
        ("keys", keys, scores.shape[:1]),
        ("pairs", pairs, scores.shape),
    )
    for name, given, shape in wanted:
        if given is not None and given.shape != shape:
            raise InputError(f"{owner}.{name}: expected shape {list(shape)}, received {list(given.shape)}")
    if mask is not None and mask.dtype != torch.bool:
        raise InputError(f"{owner}.mask: expected booleans, received {mask.dtype}")
    if items is not None and items.shape not in (targets.shape, targets.shape[1:]):
        either = f"{list(targets.shape)} or {list(targets.shape[1:])}"
        raise InputError(f"{owner}.items: expected shape {either}, received {list(items.shape)}")


def mean_over_positives(table: ScoreTable, value_P: Tensor, at_P: Tensor | None = None) -> Tensor:
    """The weighted mean over positives; 0 if there are none.

    ``at_P`` are the positives of the values, if they are a subset or in another order. The other positives have the
    value 0.
    """
    weight_P = table.context.weight_P
    if weight_P is None:
        return value_P.sum() / max(1, table.n_positives)
    weight_P = weight_P.to(value_P.dtype)
    total = weight_P.sum().clamp(min=1e-30)
    return (value_P * (weight_P if at_P is None else weight_P[at_P])).sum() / total


def row_weights(table: ScoreTable) -> Tensor | None:
    """The weight of each row: the mean weight of its positives, 0 without positives; None without weights."""
    if table.context.weight_P is None:
        return None
    count_R = torch.bincount(table.row_P, minlength=table.n_rows).clamp_(min=1)
    return table.row_total(table.context.weight_P.to(table.n_represented_R.dtype)) / count_R


def relative_weights(table: ScoreTable) -> Tensor | None:
    """The weight of each positive divided by that of its row; 1 if that is 0; None if positives have no weights."""
    weight_R = row_weights(table)
    if weight_R is None or table.context.weight_P is None:
        return None
    weight_P, of_row_P = table.context.weight_P.to(weight_R.dtype), table.per_positive(weight_R)
    return torch.where(of_row_P > 0, weight_P / of_row_P.clamp(min=1e-30), 1)


def mean_over_rows(table: ScoreTable, value_R: Tensor) -> Tensor:
    """The mean by :func:`row_weights` over rows that have a positive; 0 where there is none."""
    has_R = torch.bincount(table.row_P, minlength=table.n_rows) > 0
    value_R = torch.where(has_R, value_R, 0 * value_R)
    weight_R = row_weights(table)
    if weight_R is None:
        return value_R.sum() / max(1, int(has_R.sum()))
    return (value_R * weight_R.to(value_R.dtype)).sum() / weight_R.sum().clamp(min=1e-30)


def random_like(score: Tensor, generator: torch.Generator | None, dtype: torch.dtype | None = None) -> Tensor:
    """Uniform numbers of the shape and on the device of ``score``, drawn on the device of the generator."""
    device = "cpu" if generator is None else generator.device
    drawn = torch.rand(score.shape, generator=generator, dtype=dtype or score.dtype, device=device)
    return drawn.to(score.device)


registry: Registry[Loss] = Registry("losses")
