"""How two vectors are compared, reduced to what everything else computes: an inner product.

Cosine and half-cosine scores are inner products of vectors that were brought to a fixed length first. Doing that once
per vector, and not once per pair, is what lets the score table work with plain matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Similarity = Literal["dot", "cosine", "half_cosine"]

_ROW_LENGTH: dict[Similarity, float] = {"cosine": 1.0, "half_cosine": 0.5}

_EPS = 1e-12  # the shortest length that is divided by: a zero vector has score 0 with everything

_CHUNK = 2048  # rows that are worked on at once: a few hundred kilobytes, so that they stay in the cache between passes


@dataclass(frozen=True)
class Factors:
    """A factored model: a vector for each user and item, how they are compared, and a bias of the items if there is
    one.

    >>> factors = Factors(torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0], [0.0, 2.0]]), "cosine")
    >>> factors.score_all(torch.tensor([0]))
    tensor([[1.0000, 0.8000]])
    """

    user_UD: Tensor
    item_ID: Tensor
    similarity: Similarity = "dot"
    bias_I: Tensor | None = None

    @property
    def bound(self) -> float | None:
        """The largest absolute value that a score can have, where there is one."""
        return None if self.bias_I is not None else _ROW_LENGTH.get(self.similarity)

    def directions(self) -> tuple[Tensor, Tensor]:
        """User and item vectors whose plain inner products are the scores, the bias excepted."""
        return row_vectors(self.user_UD, self.similarity), item_vectors(self.item_ID, self.similarity)

    def score_all(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        """Scores of the whole catalogue for the given users."""
        row_RD = row_vectors(self.user_UD.index_select(0, users), self.similarity)
        return inner_products(row_RD, item_vectors(self.item_ID, self.similarity), self.bias_I, out)


def row_vectors(vector_RD: Tensor, similarity: Similarity) -> Tensor:
    """The left side of the inner product: unit length for cosine, half of it for half-cosine."""
    return vector_RD if similarity == "dot" else with_length(vector_RD, _ROW_LENGTH[similarity])


def item_vectors(vector_ID: Tensor, similarity: Similarity) -> Tensor:
    """The right side of the inner product: unit length for cosine and half-cosine."""
    return vector_ID if similarity == "dot" else with_length(vector_ID, 1.0)


def look_up(vector_ND: Tensor, index: Tensor) -> Tensor:
    """Some rows of a matrix; a parameter gets a gradient of just these rows, where they are fewer than all.

    >>> vectors = torch.eye(3).requires_grad_()
    >>> look_up(vectors, torch.tensor([2])).sum().backward()
    >>> vectors.grad.is_sparse
    True
    """
    return F.embedding(index, vector_ND, sparse=vector_ND.is_leaf and index.numel() < len(vector_ND))


def inner_products(row_RD: Tensor, item_CD: Tensor, bias_C: Tensor | None, out: Tensor | None = None) -> Tensor:
    """``row_RD @ item_CD.T (+ bias_C)``, into ``out`` if it is given."""
    if bias_C is None:
        return torch.mm(row_RD, item_CD.T, out=out)
    return torch.addmm(bias_C, row_RD, item_CD.T, out=out)


def with_length(vector_ND: Tensor, length: float = 1.0) -> Tensor:
    """Each row scaled to the given length: ``length · x / |x|``."""
    scaled: Tensor = _WithLength.apply(vector_ND, length)  # type: ignore[no-untyped-call]
    return scaled


class _WithLength(torch.autograd.Function):
    """``y = ℓ·x/|x|``, with ``∂L/∂x = (ℓ/|x|)·(g − (g·x̂)·x̂)``, in chunks of rows that stay in the cache."""

    @staticmethod
    def forward(ctx: Any, vector_ND: Tensor, length: float) -> Tensor:
        scaled_ND = torch.empty_like(vector_ND)
        norm_N1 = vector_ND.new_empty(len(vector_ND), 1)
        for x, y, norm in zip(*(part.split(_CHUNK) for part in (vector_ND, scaled_ND, norm_N1)), strict=True):
            torch.linalg.vector_norm(x, dim=1, keepdim=True, out=norm)
            torch.div(x, norm.clamp_(min=_EPS).div_(length), out=y)
        ctx.save_for_backward(scaled_ND, norm_N1)
        ctx.length = length
        return scaled_ND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor, None]:
        scaled_ND, norm_N1 = ctx.saved_tensors  # the stored norm is |x|/ℓ
        result_ND = torch.empty_like(grad_ND)
        for g, y, norm, out in zip(*(t.split(_CHUNK) for t in (grad_ND, scaled_ND, norm_N1, result_ND)), strict=True):
            along = torch.linalg.vecdot(g, y).div_(ctx.length**2).unsqueeze_(1)
            torch.addcmul(g, y, along, value=-1, out=out).div_(norm)
        return result_ND, None
