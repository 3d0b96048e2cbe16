"""Kernels: functions of one score difference, which pairwise losses sum over candidates.

A kernel gives its value and its slope, which the hand-written backward pass of the factored table needs. A kernel with
learned parameters lists them and gives their slopes too. Sums over rows pass gradients to them, sums over pairs do not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


class Kernel(ABC):
    """A function φ with its derivative φ′. Both are 0 at −∞, the score of masked candidates."""

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Scalars that φ depends on. The gradient of a row's sum flows to them."""
        return ()

    def parameter_slopes(self, x: Tensor) -> tuple[Tensor, ...]:
        """∂φ(x)/∂θ of each parameter θ, 0 at −∞."""
        return ()

    @property
    def tilt(self) -> float | None:
        """A λ for which φ(x)·e^{−λx} is smooth and changes little, if there is one; of a log-kernel g, exp(g(x) − λ·x).

        It allows sums over pairs of bounded scores without enumerating the pairs (:mod:`shortlist.scores.chebyshev`).
        """
        return None

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

    @property
    def tilt(self) -> float:
        """½, which balances the growth eˣ on one side and x on the other."""
        return 0.5

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


@dataclass(frozen=True)
class SquaredHinge(Kernel):
    """φ(x) = max(0, x + m)².

    >>> SquaredHinge(margin=1.0).value(torch.tensor([-2.0, 0.0, 1.0]))
    tensor([0., 1., 4.])
    """

    margin: float = 1.0

    def value(self, x: Tensor) -> Tensor:
        """max(0, x + m)²."""
        return (x + self.margin).clamp(min=0).square()

    def slope(self, x: Tensor) -> Tensor:
        """2·max(0, x + m)."""
        return (x + self.margin).clamp_(min=0).mul_(2)


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """φ(x) = σ(a·x), a smooth indicator of x > 0.

    >>> Sigmoid().value(torch.tensor([0.0]))
    tensor([0.5000])
    """

    sharpness: float = 1.0

    @property
    def tilt(self) -> float:
        """a/2, which leaves ½/cosh(a·x/2)."""
        return self.sharpness / 2

    def value(self, x: Tensor) -> Tensor:
        """σ(a·x)."""
        return torch.sigmoid(x * self.sharpness)

    def slope(self, x: Tensor) -> Tensor:
        """a·σ(a·x)·(1 − σ(a·x))."""
        share = torch.sigmoid(x * self.sharpness)
        return share.mul(1 - share).mul_(self.sharpness)


@dataclass(frozen=True)
class Exponential(Kernel):
    """φ(x) = eˣ. It overflows for large x: use a log-sum-exp where the logarithm of the sum is needed.

    >>> Exponential().value(torch.tensor([0.0]))
    tensor([1.])
    """

    def value(self, x: Tensor) -> Tensor:
        """eˣ."""
        return x.exp()

    def slope(self, x: Tensor) -> Tensor:
        """eˣ."""
        return x.exp()


@dataclass(frozen=True)
class UnitStep(Kernel):
    """φ(x) = 1 where x ≥ 0, else 0: its sum is the exact rank, ties counted against the positive. The slope is 0."""

    def value(self, x: Tensor) -> Tensor:
        """1 where x ≥ 0, else 0."""
        return (x >= 0).to(x.dtype)

    def slope(self, x: Tensor) -> Tensor:
        """0."""
        return torch.zeros_like(x)
