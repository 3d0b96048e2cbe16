"""Kernels: functions of one score difference, which pairwise losses sum over candidates.

A kernel gives its value and its slope, so that the factored table can write the backward pass by hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


class Kernel(ABC):
    """A function φ with its derivative φ′, both 0 at −∞, which is where masked candidates are put."""

    @abstractmethod
    def value(self, x: Tensor) -> Tensor:
        """φ(x)."""

    @abstractmethod
    def slope(self, x: Tensor) -> Tensor:
        """φ′(x)."""


@dataclass(frozen=True)
class Softplus(Kernel):
    """φ(x) = ln(1 + eˣ), the kernel of BPR and BCE.

    >>> Softplus().value(torch.tensor([0.0]))
    tensor([0.6931])
    """

    def value(self, x: Tensor) -> Tensor:
        """ln(1 + eˣ), without overflow."""
        return F.softplus(x, threshold=40.0)

    def slope(self, x: Tensor) -> Tensor:
        """σ(x)."""
        return torch.sigmoid(x)


@dataclass(frozen=True)
class Hinge(Kernel):
    """φ(x) = max(0, x + m)."""

    margin: float = 1.0

    def value(self, x: Tensor) -> Tensor:
        """max(0, x + m)."""
        return (x + self.margin).clamp_(min=0)

    def slope(self, x: Tensor) -> Tensor:
        """1 where x > −m, else 0."""
        return (x > -self.margin).to(x.dtype)
