"""Similarities of vectors, reduced to inner products.

Cosine and half-cosine scores are inner products of vectors that are first scaled to a fixed length. Scaling once per
vector, not once per pair, lets the score table use plain matrix products.
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

_EPS = 1e-12  # lower bound of the norm in divisions: a zero vector has score 0 with every other

_CHUNK = 2048  # rows per chunk: a few hundred kilobytes, which stay in the cache between passes


@dataclass(frozen=True)
class Embeddings:
    """A vector for each user and item, their similarity, and an optional bias of the items.

    >>> embeddings = Embeddings(torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0], [0.0, 2.0]]), "cosine")
    >>> embeddings.score(torch.tensor([0]))
    tensor([[1.0000, 0.8000]])
    """

    user_UD: Tensor
    item_ID: Tensor
    similarity: Similarity = "dot"
    bias_I: Tensor | None = None

    def normalized(self) -> Embeddings:
        """Vectors whose inner products are the scores, except for the bias."""
        user_UD, item_ID = row_vectors(self.user_UD, self.similarity), item_vectors(self.item_ID, self.similarity)
        return Embeddings(user_UD, item_ID, "dot", self.bias_I)

    def score(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        """Scores of the full catalogue for the given users."""
        row_RD = row_vectors(self.user_UD.index_select(0, users), self.similarity)
        return inner_products(row_RD, item_vectors(self.item_ID, self.similarity), self.bias_I, out)


def similarity_bound(similarity: Similarity) -> float | None:
    """The largest absolute value of the similarity; None if it is unbounded."""
    return _ROW_LENGTH.get(similarity)


def row_vectors(vector_RD: Tensor, similarity: Similarity) -> Tensor:
    """The left side of the inner product: unit length for cosine, half of it for half-cosine."""
    return vector_RD if similarity == "dot" else with_length(vector_RD, _ROW_LENGTH[similarity])


def item_vectors(vector_ID: Tensor, similarity: Similarity) -> Tensor:
    """The right side of the inner product: unit length for cosine and half-cosine."""
    return vector_ID if similarity == "dot" else with_length(vector_ID, 1.0)


def look_up(vector_ND: Tensor, index: Tensor) -> Tensor:
    """Selected rows of a matrix; a parameter gets a sparse gradient of these rows if they are fewer than all.

    >>> vectors = torch.eye(3).requires_grad_()
    >>> look_up(vectors, torch.tensor([2])).sum().backward()
    >>> vectors.grad.is_sparse
    True
    """
    return F.embedding(index, vector_ND, sparse=vector_ND.is_leaf and index.numel() < len(vector_ND))


def inner_products(row_RD: Tensor, item_CD: Tensor, bias_C: Tensor | None, out: Tensor | None = None) -> Tensor:
    """``row_RD @ item_CD.T (+ bias_C)``, into ``out`` if it is given and on the same device."""
    if out is not None and out.device != row_RD.device:
        out = None
    if bias_C is None:
        return torch.mm(row_RD, item_CD.T, out=out)
    return torch.addmm(bias_C, row_RD, item_CD.T, out=out)


def with_length(vector_ND: Tensor, length: float = 1.0) -> Tensor:
    """Each row scaled to the given length: ``length · x / |x|``."""
    scaled: Tensor = _WithLength.apply(vector_ND, length)  # type: ignore[no-untyped-call]
    return scaled


class _WithLength(torch.autograd.Function):
    """``y = ℓ·x/|x|``, with ``∂L/∂x = (ℓ/|x|)·(g − (g·x̂)·x̂)``, in chunks of rows that fit in the cache."""

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
