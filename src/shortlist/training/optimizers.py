"""Adam, for parameters of which a step touches every row or only some."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.parameters import Configured, Search, param

_CHUNK = 4096  # rows that are worked on at once, so that they stay in the cache from one operation to the next

Schedule = Literal["constant", "linear", "cosine"]


class OptimizerSettings(Configured):
    """How parameters are moved."""

    lr: float = param(default=0.03, above=0, at_most=1e30, help="learning rate", search=Search(1e-3, 0.1, log=True))
    weight_decay: float = param(
        default=0.0,
        at_least=0,
        help="L2 penalty, on the rows that a step looks at",
        search=Search(choices=(0.0, 1e-6, 1e-5, 3e-5, 1e-4, 3e-4)),
    )
    beta1: float = param(default=0.9, at_least=0, below=1, help="decay of the mean gradient")
    beta2: float = param(default=0.999, at_least=0, below=1, help="decay of the mean squared gradient")
    eps: float = param(default=1e-8, above=0, help="what keeps the division finite")
    lazy: bool = param(
        default=True,
        help="update only the embedding rows that the batch touches",
        aliases=("rows",),
        former_values={"touched": True, "all": False},
    )
    schedule: Schedule = param(default="linear", help="how the learning rate falls over the epochs")
    final_lr_factor: float = param(
        default=0.01, at_least=0, at_most=1, help="final learning rate as a fraction of lr", aliases=("final",)
    )
    warmup: float = param(default=0.0, at_least=0, below=1, help="share of the steps in which the learning rate rises")

    def __post_init__(self) -> None:
        if self.beta1**2 >= self.beta2:  # a row would coast for ever, faster and faster
            raise InputError(
                f"{type(self).__name__}.beta2: expected a number above beta1², {self.beta1**2:g}, received {self.beta2}"
            )

    def rate(self, progress: float) -> float:
        """The learning rate when a share ``progress`` of the steps is done.

        >>> OptimizerSettings(lr=0.1, schedule="linear", final_lr_factor=0.0).rate(0.75)
        0.025
        """
        if progress < self.warmup:
            return self.lr * progress / self.warmup
        rest = min(1.0, (progress - self.warmup) / (1 - self.warmup))
        if self.schedule == "constant":
            return self.lr
        left = 1 - rest if self.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * rest))
        return self.lr * (self.final_lr_factor + (1 - self.final_lr_factor) * left)


class RowAdam:
    r"""Adam whose cost for a table of vectors is that of the rows a step touched, and whose result is that of Adam.

    Dense Adam keeps moving a row in the steps that do not touch it: its mean gradient m fades as β₁ᵗ and its mean
    square v as β₂ᵗ, so that over Δ steps the row coasts by

    .. math:: \sum_{t<\Delta} \eta\,\frac{\beta_1^t m}{\sqrt{\beta_2^t v}}
              = \eta\,\frac{m}{\sqrt v}\cdot\frac{1-r^\Delta}{1-r},\quad r = \beta_1/\sqrt{\beta_2}.

    Here a row that comes up after Δ steps has its moments faded for them, and is moved at once by what it would coast
    until it comes up again, which is taken to be another Δ. For Δ = 1 this is Adam. (The usual "lazy" Adam leaves the
    coasting out: users, who come up once an epoch, then move about ten times too little.)

    A gradient that is a sparse tensor marks a parameter of which rows were touched; in a dense one, rows of zeros were
    not. The penalty of ``weight_decay`` counts for a row in the steps that touch it, as is usual for tables of vectors,
    so that it does not depend on how the gradient comes. With ``rows="all"`` it counts in every step, as in Adam.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> None:
        self.parameters = list(parameters)
        self.settings = settings
        self.step_count = 0
        self._mean = [torch.zeros_like(p) for p in self.parameters]
        self._square = [torch.zeros_like(p) for p in self.parameters]
        self._last = [torch.zeros(p.shape[:1], dtype=torch.int32) for p in self.parameters]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move the parameters along their gradients, and forget the gradients."""
        self.step_count += 1
        for index, parameter in enumerate(self.parameters):
            gradient, parameter.grad = parameter.grad, None
            if gradient is None:
                continue
            if gradient.is_sparse and self.settings.lazy:
                self._step_rows(index, gradient.coalesce(), rate)
            else:
                self._step_all(index, gradient.to_dense() if gradient.is_sparse else gradient, rate)

    def _step_all(self, index: int, gradient: Tensor, rate: float) -> None:
        tensors = self.parameters[index].detach(), gradient, self._mean[index], self._square[index]
        chunks = (torch.atleast_1d(tensor).split(_CHUNK) for tensor in tensors)
        for parameter, part, mean, square in zip(*chunks, strict=True):
            self._move(parameter, part, mean, square, None, rate)
        self._last[index].fill_(self.step_count)

    def _step_rows(self, index: int, gradient: Tensor, rate: float) -> None:
        row_N, grad_ND = gradient.indices()[0], gradient.values()
        gap_N1 = (self.step_count - self._last[index][row_N]).unsqueeze(1).to(grad_ND.dtype)
        gap_N1 = gap_N1.view(-1, *[1] * (grad_ND.ndim - 1))
        kept = self.parameters[index].detach(), self._mean[index], self._square[index]
        parameter, mean, square = (tensor.index_select(0, row_N) for tensor in kept)
        self._move(parameter, grad_ND, mean, square, gap_N1, rate)
        for whole, rows in zip(kept, (parameter, mean, square), strict=True):
            whole[row_N] = rows
        self._last[index][row_N] = self.step_count

    def _move(
        self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, gap: Tensor | None, rate: float
    ) -> None:
        """One step, in place, of parameters that come up after ``gap`` steps, or in every step.

        The corrections for the start of the averages go into the two numbers of the last lines, not into a pass each.
        """
        beta1, beta2 = self.settings.beta1, self.settings.beta2
        if self.settings.weight_decay:
            gradient = gradient.addcmul(parameter, self._penalised(gradient), value=self.settings.weight_decay)
        if gap is None:
            way = mean.lerp_(gradient, 1 - beta1)
            square.mul_(beta2)
        else:
            ratio = beta1 / math.sqrt(beta2)
            way = mean.mul_(beta1**gap).add_(gradient, alpha=1 - beta1) * ((1 - ratio**gap) / (1 - ratio))
            square.mul_(beta2**gap)
        square.addcmul_(gradient, gradient, value=1 - beta2)
        unit = math.sqrt(1 - beta2**self.step_count)
        root = square.sqrt().add_(self.settings.eps * unit)
        parameter.addcdiv_(way, root, value=-rate * unit / (1 - beta1**self.step_count))

    def _penalised(self, gradient: Tensor) -> Tensor:
        """1 for the rows to which the penalty applies, else 0."""
        if not self.settings.lazy:
            return gradient.new_ones(())
        touched_N = (gradient != 0).view(len(gradient), -1).any(1)
        return touched_N.to(gradient.dtype).view(-1, *[1] * (gradient.ndim - 1))

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        parts = {"mean": self._mean, "square": self._square, "last": self._last}
        tensors = {f"{name}.{index}": part for name, group in parts.items() for index, part in enumerate(group)}
        return {**tensors, "step": torch.tensor(self.step_count)}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state` gave."""
        for name, group in {"mean": self._mean, "square": self._square, "last": self._last}.items():
            for index, part in enumerate(group):
                part.copy_(state[f"{name}.{index}"])
        self.step_count = int(state["step"])
