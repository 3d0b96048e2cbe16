"""Top-K thresholds of users in your own training loop."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.scores import DenseTable, TableContext
from shortlist.thresholds.estimators import stratified


class TopKThreshold(nn.Module):
    """The Top-K threshold of each user, kept from update to update: what SL@K and its kin compare positives with.

    It is 0 before the first update. Update it from the scores of the whole catalogue every few epochs, or in every step
    from those of sampled negatives, of which each stands for many items. The thresholds are a buffer: they move with
    ``to(device)`` and are part of the state dict.

    >>> threshold = TopKThreshold(n_users=3, k=2)
    >>> threshold.update(torch.tensor([0, 2]), torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]]))
    >>> threshold(torch.tensor([0, 1, 2]))
    tensor([2., 0., 4.])
    """

    value_U: Tensor

    def __init__(self, n_users: int, k: int) -> None:
        super().__init__()
        if n_users < 1 or k < 1:
            raise InputError(f"TopKThreshold: expected n_users and k of at least 1, received {n_users} and {k}")
        self.k = k
        self.register_buffer("value_U", torch.zeros(n_users))

    def forward(self, users: Tensor) -> Tensor:
        """The thresholds of some users [B], as ``loss(…, threshold=…)`` takes them."""
        return self.value_U.index_select(0, users)

    @torch.no_grad()
    def update(self, users: Tensor, scores: Tensor) -> None:
        """Take the k-th largest of the scores of all items [B, I]."""
        if scores.ndim != 2 or len(scores) != len(users) or scores.shape[1] < self.k:
            received = f"{list(scores.shape)} for {len(users)} users"
            expected = f"scores [B, I] of at least {self.k} items"
            raise InputError(f"TopKThreshold.update: expected {expected}, received {received}")
        self.value_U[users] = scores.topk(self.k, 1).values[:, -1].to(self.value_U.dtype)

    @torch.no_grad()
    def update_from_sample(self, users: Tensor, pos: Tensor, neg: Tensor, n_items: int) -> None:
        """Estimate from a positive [B] and N sampled negatives [B, N] of each user in a catalogue of ``n_items``.

        A positive counts for itself, each negative for an equal share of the other items.
        """
        table = DenseTable.from_pairs(pos, neg, context=TableContext(n_items=n_items))
        estimate = stratified(table, self.k, n_items, neg.shape[1], torch.Generator())
        self.value_U[users] = estimate.to(self.value_U.dtype)
