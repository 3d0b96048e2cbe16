"""Propagation over the graph of users and items: sparse products that run backwards as they run forwards.

A product with the matrix of pairs is a sum of weighted rows for each user or item, which is what ``embedding_bag``
computes, faster than scipy and, as the machine has it, somewhat faster or slower than torch's own sparse product
(``benchmarks/propagation.py`` measures them side by side).
It has no output that can be kept, and needs none: training keeps freed memory (:mod:`shortlist.training.malloc`). A row
is summed in one order whatever the number of threads, so that the same bits come out on any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from shortlist.data import Interactions

_CHUNK = 2048  # rows that are disturbed at once, so that they stay in the cache from one operation to the next

_LEAST = torch.iinfo(torch.int64).min

Disturb = Callable[[Tensor], None]
"""Alters the vectors of a layer in place, in a way that has no gradient."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix in CSR form: where rows begin, the column and the weight of each entry.

    >>> matrix = Sparse(torch.tensor([0, 2, 2]), torch.tensor([0, 2]), torch.tensor([1.0, 0.5]))
    >>> matrix.times(torch.tensor([[1.0], [2.0], [4.0]]))
    tensor([[3.],
            [0.]])
    """

    start_N: Tensor
    column_E: Tensor
    weight_E: Tensor

    @torch.no_grad()
    def times(self, vector_MD: Tensor) -> Tensor:
        """The product with a dense matrix; a row without entries gives 0."""
        return F.embedding_bag(
            self.column_E,
            vector_MD.contiguous(),
            self.start_N,
            mode="sum",
            per_sample_weights=self.weight_E,
            include_last_offset=True,
        )


@dataclass(frozen=True, eq=False)
class Adjacency:
    """A matrix between users and items, and its transpose: what one carries forwards the other carries back."""

    matrix: Sparse
    transposed: Sparse

    def reversed(self) -> Adjacency:
        """The same link seen from the other side."""
        return Adjacency(self.transposed, self.matrix)

    def times(self, vector_MD: Tensor) -> Tensor:
        """The product, gradients included."""
        product_ND: Tensor = _Product.apply(vector_MD, self)  # type: ignore[no-untyped-call]
        return product_ND


class _Product(torch.autograd.Function):
    """``y = M·x`` with ``∂L/∂x = Mᵀ·∂L/∂y``."""

    @staticmethod
    def forward(ctx: Any, vector_MD: Tensor, link: Adjacency) -> Tensor:
        ctx.link = link
        return link.matrix.times(vector_MD)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor, None]:
        return ctx.link.transposed.times(grad_ND), None


class InteractionGraph(nn.Module):
    """Who met what, as a part of a model: the state holds the pairs, the matrices are made from them.

    >>> met = Interactions.from_pairs([0, 0, 1], [2, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> InteractionGraph.of(met).link(0.5, 0.5).matrix.weight_E
    tensor([0.7071, 0.7071, 1.0000])
    """

    indptr: Tensor
    indices: Tensor

    def __init__(self, indptr: Tensor, indices: Tensor, n_items: int) -> None:
        super().__init__()
        self.register_buffer("indptr", indptr)
        self.register_buffer("indices", indices)
        self.count_U = indptr.diff()
        self.count_I = torch.bincount(indices, minlength=n_items)
        user_E = torch.repeat_interleave(torch.arange(len(self.count_U), dtype=torch.int32), self.count_U)
        self.user_E = user_E
        self._order_E = torch.argsort(indices, stable=True)
        self._item_start = F.pad(self.count_I.cumsum(0), (1, 0)).to(indptr.dtype)
        self._user_of_item_E = user_E[self._order_E]

    @classmethod
    def of(cls, train: Interactions) -> InteractionGraph:
        """The pairs of the training set."""
        indptr, indices = (torch.from_numpy(np.array(part, np.int32)) for part in (train.indptr, train.indices))
        return cls(indptr, indices, train.n_items)

    def link(self, user_power: float, item_power: float) -> Adjacency:
        """Users × items with the weight ``d_u^−a · d_i^−b`` for each pair; d are the numbers of pairs."""
        user_U, item_I = (
            count.float().clamp_(min=1).pow_(-power)
            for count, power in ((self.count_U, user_power), (self.count_I, item_power))
        )
        return self.weighted(user_U[self.user_E] * item_I[self.indices])

    def weighted(self, weight_E: Tensor) -> Adjacency:
        """Users × items with a weight for each pair, in the order of the pairs."""
        return Adjacency(
            Sparse(self.indptr, self.indices, weight_E),
            Sparse(self._item_start, self._user_of_item_E, weight_E[self._order_E]),
        )

    def thinned_mean(self, dropped: float, generator: torch.Generator) -> Adjacency:
        """The mean over each user's items with a share of the pairs left out at random; 0 where none is left."""
        kept_E = torch.rand(len(self.indices), generator=generator) >= dropped
        kept_U = torch.zeros(len(self.count_U)).index_add_(0, self.user_E, kept_E.float())
        return self.weighted(kept_E / kept_U.clamp_(min=1)[self.user_E])


UserItem = tuple[Tensor, Tensor]
"""The vectors of users and those of items."""


def layer_sums(
    user_UD: Tensor,
    item_ID: Tensor,
    link: Adjacency,
    weights: Sequence[Sequence[float]],
    perturb: Disturb | None = None,
) -> list[UserItem]:
    r"""Weighted sums of the layers of a linear propagation, one for each row of weights.

    .. math:: E^{k+1} = \hat A E^k \;(+\,\text{noise}),\qquad S_o = \sum_k w_{ok} E^k,\qquad
              \hat A = \begin{pmatrix} 0 & M \\ M^\top & 0 \end{pmatrix}

    Since Â is its own transpose, the gradient is the same polynomial of Â applied to the gradients of the sums,
    ``Σ_k Â^k Σ_o w_ok G_o``, evaluated by Horner's scheme: as many products backwards as forwards, and no layer is kept
    from one pass to the other.
    """
    flat = _LayerSums.apply(user_UD, item_ID, link, weights, perturb)  # type: ignore[no-untyped-call]
    return list(zip(flat[::2], flat[1::2], strict=True))


class _LayerSums(torch.autograd.Function):
    """The sums of :func:`layer_sums`, user and item halves one after another."""

    @staticmethod
    def forward(
        ctx: Any,
        user_UD: Tensor,
        item_ID: Tensor,
        link: Adjacency,
        weights: Sequence[Sequence[float]],
        perturb: Disturb | None,
    ) -> tuple[Tensor, ...]:
        ctx.link, ctx.weights = link, weights
        sums: list[Tensor | None] = [None] * (2 * len(weights))
        layer = (user_UD, item_ID)
        for depth, weight_O in enumerate(zip(*weights, strict=True)):
            if depth:
                layer = _spread(link, *layer)
                if perturb is not None:
                    perturb(layer[0])
                    perturb(layer[1])
            for place, weight in enumerate(weight_O):
                for half in (0, 1):
                    sums[2 * place + half] = _plus(sums[2 * place + half], layer[half], weight)
        return tuple(torch.zeros_like(layer[i % 2]) if part is None else part for i, part in enumerate(sums))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        total: list[Tensor | None] = [None, None]
        for weight_O in reversed(list(zip(*ctx.weights, strict=True))):
            if total[0] is not None and total[1] is not None:
                total = list(_spread(ctx.link, total[0], total[1]))
            for place, weight in enumerate(weight_O):
                for half in (0, 1):
                    total[half] = _plus(total[half], grads[2 * place + half], weight)
        return (*total, None, None, None)


def _spread(link: Adjacency, user_UD: Tensor, item_ID: Tensor) -> UserItem:
    """One layer further: users from their items, items from their users."""
    return link.matrix.times(item_ID), link.transposed.times(user_UD)


def _plus(total: Tensor | None, part: Tensor, weight: float) -> Tensor | None:
    """``total + weight·part``, in place where there is a total."""
    if weight == 0:
        return total
    return part * weight if total is None else total.add_(part, alpha=weight)


def noise(size: float, generator: torch.Generator) -> Disturb:
    """``e + ε·sign(e)⊙z/|z|`` with z uniform in the unit cube: a step of length ε within the orthant of e.

    A coordinate of z is the magnitude of 16 random bits: four come of a draw, which is most of what noise costs.
    """

    def perturb(vector_ND: Tensor) -> None:
        rows, dim = min(_CHUNK, len(vector_ND)), vector_ND.shape[1]
        room_RD, sign_RD = vector_ND.new_empty(2, rows, dim)
        bits_RB = torch.empty(rows, -(-dim // 4), dtype=torch.int64)
        for part_RD in vector_ND.split(_CHUNK):
            drawn_RB = bits_RB[: len(part_RD)].random_(_LEAST, None, generator=generator)
            z_RD = room_RD[: len(part_RD)].copy_(drawn_RB.view(torch.int16)[:, :dim])
            length_R1 = torch.linalg.vector_norm(z_RD, dim=1, keepdim=True).clamp_(min=1)
            z_RD.abs_().mul_(torch.sign(part_RD, out=sign_RD[: len(part_RD)]))
            part_RD.addcdiv_(z_RD, length_R1, value=size)

    return perturb
