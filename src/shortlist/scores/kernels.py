"""Kernels: functions of one score difference, which pairwise losses sum over candidates.

A kernel gives its value and its slope, so that the factored table can write the backward pass by hand. A kernel whose
shape is learnt lists its parameters and gives their slopes too; sums over rows carry gradients to them, sums over pairs
do not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


class Kernel(ABC):
    """A function φ with its derivative φ′, both 0 at −∞, which is where masked candidates are put."""

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Scalars that φ depends on and that gradients of a row's sum flow to."""
        return ()

    def parameter_slopes(self, x: Tensor) -> tuple[Tensor, ...]:
        """∂φ(x)/∂θ of each parameter θ, 0 at −∞."""
        return ()

    @property
    def tilt(self) -> float | None:
        """A λ for which φ(x)·e^{−λx} is smooth and changes little, if there is one; of a log-kernel g, exp(g(x) − λ·x).

        With it sums over pairs of bounded scores need no look at the pairs (:mod:`shortlist.scores.chebyshev`).
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
        """½, by which eˣ on the one side and x on the other are brought close to each other."""
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
    """φ(x) = σ(a·x), a smooth count of who stands above.

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
    """φ(x) = eˣ. For sums whose logarithm is wanted ask for a log-sum-exp: this overflows.

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
    """φ(x) = 1 where x ≥ 0, else 0: the rank itself, ties counted against oneself, without a slope."""

    def value(self, x: Tensor) -> Tensor:
        """1 where x ≥ 0, else 0."""
        return (x >= 0).to(x.dtype)

    def slope(self, x: Tensor) -> Tensor:
        """0."""
        return torch.zeros_like(x)
