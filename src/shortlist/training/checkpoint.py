"""Checkpoints: one file, replaced atomically and verified by a checksum when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.errors import InputError, WriteError
from shortlist.files import atomic_file

Compared = Callable[[Mapping[str, Any], Mapping[str, Any]], str | None]
"""Describes the difference between a saved configuration and a given one; None if they are equal."""


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and their metadata, which is stored as JSON."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file atomically. A crash leaves the old one or the new one."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    digest = _digest(tensors, json.dumps(checkpoint.facts))
    # one entry, because the order of several entries is not deterministic
    metadata = {"facts": json.dumps({**checkpoint.facts, "digest": digest})}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as draft:
            save_file(tensors, draft, metadata)
    except (OSError, SafetensorError) as problem:
        raise WriteError(f"{path}: the checkpoint cannot be written: {problem}") from problem


def load(path: Path) -> Checkpoint:
    """Read a checkpoint; an error if it is truncated or altered."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        digest = facts.pop("digest")
    except FileNotFoundError as problem:
        raise InputError(f"{path}: expected a checkpoint to resume from, received nothing") from problem
    except (OSError, SafetensorError, KeyError, ValueError) as problem:
        raise InputError(f"{path}: expected a complete checkpoint, received a damaged file ({problem})") from problem
    if digest != _digest(tensors, json.dumps(facts)):
        raise InputError(f"{path}: expected the checkpoint as it was written, received an altered file")
    return Checkpoint(tensors, facts)


def config_diff(saved: Mapping[str, Any], given: Mapping[str, Any], prefix: str = "") -> str | None:
    """Describe the first difference between two configurations.

    >>> config_diff({"loss": {"tau": 0.1}}, {"loss": {"tau": 0.2}})
    'loss.tau: expected 0.1, received 0.2'
    """
    for key in [*saved, *(key for key in given if key not in saved)]:
        old, new = saved.get(key), given.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = config_diff(old, new, f"{prefix}{key}.")
            if inner is not None:
                return inner
        elif old != new:
            return f"{prefix}{key}: expected {old!r}, received {new!r}"
    return None


def _digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    """A checksum of a checkpoint: its metadata, and name, dtype, shape and content of each tensor."""
    digest = hashlib.blake2b(facts.encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
