"""A device that is not there: its tensors hold their numbers on the CPU, and whatever a real accelerator refuses fails.

The tensors of the device are wrappers around tensors of the CPU. Every operation of torch on them comes through
:func:`_run`, which unwraps, computes on the CPU and wraps again. Values are therefore real, and those of the CPU. It
refuses what mixes the device with the CPU: a tensor made without a device, an index that has stayed behind, a
generator of the CPU. As on real devices, copies between the two are explicit, and a number without dimensions may
stand beside tensors of the device where an operation works number by number.

To torch's own code the device is called ``meta``, which has kernels for shapes but none for numbers: a tensor of that
device which is no wrapper has none, and is refused too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from shortlist.ranking import tiling
from shortlist.training import TrainingSettings

DEVICE = torch.device("meta")

aten = torch.ops.aten

_COPIES = (aten._to_copy.default, aten.copy_.default)
_RESHAPING = (
    aten.unsqueeze_.default,
    aten.squeeze_.default,
    aten.squeeze_.dim,
    aten.t_.default,
    aten.transpose_.default,
)
_TAKING_NUMBERS = (aten.index_put_.default, aten.index_put.default, aten.fill_.Tensor, aten.masked_fill_.Tensor)

downloads: list[int] = []
"""How many numbers each copy from the device has taken to the CPU."""


class StrayTensor(RuntimeError):
    """An operation of which a real device would have refused an argument."""


class OnDevice(Tensor):
    """A tensor of the device; ``held`` has its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor, requires_grad: bool = False) -> OnDevice:
        strides = None if held.is_sparse else held.stride()
        made: OnDevice = Tensor._make_wrapper_subclass(
            cls, held.shape, strides=strides, dtype=held.dtype, device=DEVICE, requires_grad=requires_grad
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _run(func, args, kwargs or {})

    def __tensor_flatten__(self) -> tuple[list[str], None]:  # a parameter that moves stays the same object
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner: Mapping[str, Tensor], *_: Any) -> OnDevice:
        return OnDevice(inner["held"])

    def __repr__(self, *_: Any) -> str:
        return f"OnDevice({self.held!r})"

    # an index of numpy's reaches the device by a copy
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(torch.from_numpy(index).to(DEVICE) if isinstance(index, np.ndarray) else index)

    # torch has these for no subclass

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def numpy(self, **_: Any) -> Any:
        raise StrayTensor("numpy: a tensor of the device")

    def new_tensor(self, data: Any, *, dtype: torch.dtype | None = None) -> Tensor:
        return torch.tensor(data, dtype=dtype or self.dtype).to(DEVICE)

    @property
    def is_sparse(self) -> bool:
        return self.held.is_sparse

    @property
    def is_meta(self) -> bool:
        return False

    def coalesce(self) -> OnDevice:
        return OnDevice(self.held.coalesce())

    def indices(self) -> OnDevice:
        return OnDevice(self.held.indices())

    def values(self) -> OnDevice:
        return OnDevice(self.held.values())

    def to_dense(self, *_: Any, **__: Any) -> OnDevice:
        return OnDevice(self.held.to_dense())


def _run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """One operation: on the CPU as it is, on the device, or between the two."""
    leaves, structure = tree_flatten((tuple(args), dict(kwargs)))
    wrapped = [leaf for leaf in leaves if isinstance(leaf, OnDevice)]
    plain = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, OnDevice)]
    asked = kwargs.get("device")
    to_device = bool(wrapped) if asked is None else torch.device(asked) == DEVICE
    if not wrapped and not to_device:
        return func(*args, **kwargs)
    if any(tensor.device == DEVICE for tensor in plain):
        raise StrayTensor(f"{func}: a tensor of the device without numbers")
    if to_device and any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise StrayTensor(f"{func}: a generator of the CPU for tensors of the device")
    if wrapped and func not in _COPIES:
        takes_numbers = torch.Tag.pointwise in func.tags or func in _TAKING_NUMBERS
        for tensor in plain:
            if tensor.ndim or not takes_numbers:
                raise StrayTensor(f"{func}: a tensor of the CPU, {list(tensor.shape)}, among tensors of the device")
    if func is aten._local_scalar_dense.default or (func is aten._to_copy.default and not to_device):
        downloads.append(wrapped[0].numel())
    if func is aten.copy_.default and not isinstance(args[0], OnDevice):
        downloads.append(args[0].numel())
        args[0].copy_(args[1].held)
        return args[0]
    if func in (aten.add_.Tensor, aten.add.Tensor) and all(isinstance(part, OnDevice) for part in args[:2]):
        first, second = args[:2]
        if first.is_sparse and not second.is_sparse:  # as torch does where it can see it
            total = OnDevice(second.held + first.held)
            if func is aten.add_.Tensor:
                first.held = total.held
                return first
            return total
    held = [leaf.held if isinstance(leaf, OnDevice) else leaf for leaf in leaves]
    held = [torch.device("cpu") if isinstance(leaf, torch.device) else leaf for leaf in held]
    inner_args, inner_kwargs = tree_unflatten(held, structure)
    result = func(*inner_args, **inner_kwargs)
    if func in _RESHAPING:  # the wrapper takes the new shape
        with torch._C._DisableTorchDispatch():
            func(*args, **kwargs)
        return args[0]
    if not to_device:
        return result
    known = {id(tensor.held): tensor for tensor in wrapped}
    with torch.inference_mode(False):  # else what is returned for a view could not take part in counting versions
        return tree_map_only(Tensor, lambda each: known[id(each)] if id(each) in known else OnDevice(each), result)


class _Operations(TorchDispatchMode):
    """Also sees operations that have no tensor of the device yet: those that make one."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _run(func, args, kwargs or {})


class _Literals(TorchFunctionMode):
    """Numbers that are written out reach the device by a copy; those of ``meta`` would be dropped."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor) and device is not None and torch.device(device) == DEVICE:
            if isinstance(args[0], OnDevice):
                return func(*args, **kwargs)
            return func(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        return func(*args, **kwargs)


def _enter() -> None:
    """For a thread of its own: modes belong to threads."""
    _Literals().__enter__()
    _Operations().__enter__()


@contextmanager
def on_device() -> Iterator[None]:
    """All that is trained in this context is trained on the device, and ranked by threads that know it."""
    with pytest.MonkeyPatch.context() as patch, _Literals(), _Operations():
        patch.setattr(TrainingSettings, "torch_device", lambda _: DEVICE)
        patch.setattr(tiling, "ThreadPoolExecutor", functools.partial(ThreadPoolExecutor, initializer=_enter))
        yield


def is_on_device(tensor: Tensor) -> bool:
    return isinstance(tensor, OnDevice)


def numbers(tensor: Tensor) -> Tensor:
    """The values, wherever they are."""
    return tensor.held if isinstance(tensor, OnDevice) else tensor
