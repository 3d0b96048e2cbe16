"""Checked tensors of a model's state: a damaged file must not reach code that trusts its indices."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from shortlist.errors import InputError

INDEX_TYPES = (torch.int32, torch.int64)


def get_tensor(state: Mapping[str, Tensor], name: str, *shape: int | None) -> Tensor:
    """A tensor of float32 with the given shape, in which None stands for any size.

    >>> get_tensor({"item": torch.zeros(3, 2)}, "item", None, 4)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: item: expected float32 of shape [?, 4], received float32 of shape [3, 2]
    """
    tensor = _get(state, name)
    is_right = tensor.dim() == len(shape) and all(
        size is None or size == received for size, received in zip(shape, tensor.shape, strict=True)
    )
    if not is_right or tensor.dtype != torch.float32:
        wanted = ", ".join("?" if size is None else str(size) for size in shape)
        raise InputError(f"{name}: expected float32 of shape [{wanted}], received {_in_words(tensor)}")
    return tensor


def get_csr(
    state: Mapping[str, Tensor], prefix: str, n_columns: int, n_rows: int | None = None
) -> tuple[Tensor, Tensor]:
    """Row pointers and column indices of a sparse matrix: pointers that rise from 0 to the end, indices in range.

    >>> state = {"pairs.indptr": torch.tensor([0, 2]), "pairs.indices": torch.tensor([0, 7])}
    >>> get_csr(state, "pairs", n_columns=5)
    Traceback (most recent call last):
    ...
    shortlist.errors.InputError: pairs.indices: expected indices from 0 to 4, received 0 to 7
    """
    indptr, indices = (_get(state, f"{prefix}.{name}") for name in ("indptr", "indices"))
    for name, tensor in (("indptr", indptr), ("indices", indices)):
        if tensor.dim() != 1 or tensor.dtype not in INDEX_TYPES:
            raise InputError(f"{prefix}.{name}: expected a row of whole numbers, received {_in_words(tensor)}")
    if not len(indptr) or (n_rows is not None and len(indptr) != n_rows + 1):
        wanted = "at least one pointer" if n_rows is None else f"{n_rows + 1} pointers"
        raise InputError(f"{prefix}.indptr: expected {wanted}, received {len(indptr)}")
    if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices) or bool((indptr[1:] < indptr[:-1]).any()):
        raise InputError(f"{prefix}.indptr: expected pointers that rise from 0 to {len(indices)}, received others")
    if len(indices):
        low, high = (int(bound) for bound in torch.aminmax(indices))
        if not 0 <= low <= high < n_columns:
            raise InputError(f"{prefix}.indices: expected indices from 0 to {n_columns - 1}, received {low} to {high}")
    return indptr, indices


def check_finite(state: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not numbers."""
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"{name}: expected finite numbers, received NaN or infinity")


def _get(state: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in state:
        raise InputError(f"{name}: expected a tensor, received none")
    return state[name]


def _in_words(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {list(tensor.shape)}"
