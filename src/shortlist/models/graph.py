"""Propagation over the user–item graph: sparse products with hand-written backward passes.

A product with the interaction matrix is a weighted sum of rows for each user or item, which ``embedding_bag`` computes.
It is faster than scipy and, depending on the machine, somewhat faster or slower than torch's own sparse product
(``benchmarks/propagation.py`` compares them).
It has no ``out`` argument, and needs none: training keeps freed memory (:mod:`shortlist.training.malloc`). The order of
summation within a row does not depend on the number of threads, so the results are bit-exact for any number of them.
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

_CHUNK = 2048  # rows per chunk of noise, which stay in the cache between operations

_LEAST = torch.iinfo(torch.int64).min

Perturb = Callable[[Tensor], None]
"""Modifies the embeddings of a layer in place, without gradient."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix in CSR form: the offsets of rows, the column and the weight of each entry.

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
    """A matrix between users and items, and its transpose for the backward pass."""

    matrix: Sparse
    transposed: Sparse

    def reversed(self) -> Adjacency:
        """The transpose."""
        return Adjacency(self.transposed, self.matrix)

    def times(self, vector_MD: Tensor) -> Tensor:
        """The product, with gradients."""
        product_ND: Tensor = _Product.apply(vector_MD, self)  # type: ignore[no-untyped-call]
        return product_ND


class _Product(torch.autograd.Function):
    """``y = M·x`` with ``∂L/∂x = Mᵀ·∂L/∂y``."""

    @staticmethod
    def forward(ctx: Any, vector_MD: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency
        return adjacency.matrix.times(vector_MD)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor, None]:
        return ctx.adjacency.transposed.times(grad_ND), None


class InteractionGraph(nn.Module):
    """The bipartite user–item graph as a module: its state is the pairs, from which matrices are built.

    What is derived from the pairs moves with them to another device, but is not part of the state.

    >>> train = Interactions.from_pairs([0, 0, 1], [2, 0, 1], user_ids=["ann", "bob"], item_ids=["x", "y", "z"])
    >>> InteractionGraph.of(train).adjacency(0.5, 0.5).matrix.weight_E
    tensor([0.7071, 0.7071, 1.0000])
    """

    indptr: Tensor
    indices: Tensor
    count_U: Tensor
    count_I: Tensor
    user_E: Tensor
    _order_E: Tensor
    _item_start: Tensor
    _user_of_item_E: Tensor

    def __init__(self, indptr: Tensor, indices: Tensor, n_items: int) -> None:
        super().__init__()
        self.register_buffer("indptr", indptr)
        self.register_buffer("indices", indices)
        count_U, count_I = indptr.diff(), torch.bincount(indices, minlength=n_items)
        user_U = torch.arange(len(count_U), dtype=torch.int32, device=indptr.device)
        user_E, order_E = torch.repeat_interleave(user_U, count_U), torch.argsort(indices, stable=True)
        derived = {
            "count_U": count_U,
            "count_I": count_I,
            "user_E": user_E,
            "_order_E": order_E,
            "_item_start": F.pad(count_I.cumsum(0), (1, 0)).to(indptr.dtype),
            "_user_of_item_E": user_E[order_E],
        }
        for name, tensor in derived.items():
            self.register_buffer(name, tensor, persistent=False)

    @classmethod
    def of(cls, train: Interactions) -> InteractionGraph:
        """The pairs of the training set."""
        indptr, indices = (torch.from_numpy(np.array(part, np.int32)) for part in (train.indptr, train.indices))
        return cls(indptr, indices, train.n_items)

    def adjacency(self, user_power: float, item_power: float) -> Adjacency:
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
        """The mean over each user's items with a random fraction of the pairs dropped; 0 where none is left."""
        drawn_E = torch.rand(len(self.indices), generator=generator, device=generator.device)
        keep_E = drawn_E.to(self.indices.device) >= dropped
        n_kept_U = torch.zeros(len(self.count_U), device=keep_E.device).index_add_(0, self.user_E, keep_E.float())
        return self.weighted(keep_E / n_kept_U.clamp_(min=1)[self.user_E])


UserItem = tuple[Tensor, Tensor]
"""The embeddings of users and those of items."""


def layer_sums(
    user_UD: Tensor,
    item_ID: Tensor,
    adjacency: Adjacency,
    weights: Sequence[Sequence[float]],
    perturb: Perturb | None = None,
) -> list[UserItem]:
    r"""Weighted sums of the layers of a linear propagation, one for each row of weights.

    .. math:: E^{k+1} = \hat A E^k \;(+\,\text{noise}),\qquad S_o = \sum_k w_{ok} E^k,\qquad
              \hat A = \begin{pmatrix} 0 & M \\ M^\top & 0 \end{pmatrix}

    Since Â is symmetric, the gradient is the same polynomial of Â applied to the gradients of the sums,
    ``Σ_k Â^k Σ_o w_ok G_o``, evaluated by Horner's scheme: the backward pass has as many products as the forward pass,
    and no layer is stored between them.
    """
    flat = _LayerSums.apply(user_UD, item_ID, adjacency, weights, perturb)  # type: ignore[no-untyped-call]
    return list(zip(flat[::2], flat[1::2], strict=True))


class _LayerSums(torch.autograd.Function):
    """The sums of :func:`layer_sums`, with user and item halves alternating."""

    @staticmethod
    def forward(
        ctx: Any,
        user_UD: Tensor,
        item_ID: Tensor,
        adjacency: Adjacency,
        weights: Sequence[Sequence[float]],
        perturb: Perturb | None,
    ) -> tuple[Tensor, ...]:
        ctx.adjacency, ctx.weights = adjacency, weights
        sums: list[Tensor | None] = [None] * (2 * len(weights))
        layer = (user_UD, item_ID)
        for depth, weight_O in enumerate(zip(*weights, strict=True)):
            if depth:
                layer = _next_layer(adjacency, *layer)
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
                total = list(_next_layer(ctx.adjacency, total[0], total[1]))
            for place, weight in enumerate(weight_O):
                for half in (0, 1):
                    total[half] = _plus(total[half], grads[2 * place + half], weight)
        return (*total, None, None, None)


def _next_layer(adjacency: Adjacency, user_UD: Tensor, item_ID: Tensor) -> UserItem:
    """The next layer: users from their items, items from their users."""
    return adjacency.matrix.times(item_ID), adjacency.transposed.times(user_UD)


def _plus(total: Tensor | None, part: Tensor, weight: float) -> Tensor | None:
    """``total + weight·part``, in place if there is a total."""
    if weight == 0:
        return total
    return part * weight if total is None else total.add_(part, alpha=weight)


def noise(size: float, generator: torch.Generator) -> Perturb:
    """``e + ε·sign(e)⊙z/|z|`` with z uniform in the unit cube: a step of length ε within the orthant of e.

    A coordinate of z is the magnitude of 16 random bits. One random number gives four of them, since generating random
    numbers is most of the cost.
    """

    def perturb(vector_ND: Tensor) -> None:
        rows, dim = min(_CHUNK, len(vector_ND)), vector_ND.shape[1]
        room_RD, sign_RD = vector_ND.new_empty(2, rows, dim)
        bits_RB = torch.empty(rows, -(-dim // 4), dtype=torch.int64, device=generator.device)
        for part_RD in vector_ND.split(_CHUNK):
            drawn_RB = bits_RB[: len(part_RD)].random_(_LEAST, None, generator=generator)
            z_RD = room_RD[: len(part_RD)].copy_(drawn_RB.view(torch.int16)[:, :dim])
            length_R1 = torch.linalg.vector_norm(z_RD, dim=1, keepdim=True).clamp_(min=1)
            z_RD.abs_().mul_(torch.sign(part_RD, out=sign_RD[: len(part_RD)]))
            part_RD.addcdiv_(z_RD, length_R1, value=size)

    return perturb
