"""Adam for dense parameters and for embedding tables of which a step uses some rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from shortlist.adam import adam_step_
from shortlist.errors import InputError
from shortlist.parameters import Configured, Search, param

_CHUNK = 4096  # rows per chunk, which stay in the cache between operations

Schedule = Literal["constant", "linear", "cosine"]


class OptimizerSettings(Configured):
    """Settings of the optimiser."""

    lr: float = param(default=0.03, above=0, at_most=1e30, help="learning rate", search=Search(1e-3, 0.1, log=True))
    weight_decay: float = param(
        default=0.0,
        at_least=0,
        help="L2 penalty on the rows that a step uses",
        search=Search(choices=(0.0, 1e-6, 1e-5, 3e-5, 1e-4, 3e-4)),
    )
    beta1: float = param(default=0.9, at_least=0, below=1, help="decay of the mean gradient")
    beta2: float = param(default=0.999, at_least=0, below=1, help="decay of the mean squared gradient")
    eps: float = param(default=1e-8, above=0, help="term added to the denominator")
    lazy: bool = param(
        default=True,
        help="update only the embedding rows that the batch uses",
        aliases=("rows",),
        former_values={"touched": True, "all": False},
    )
    schedule: Schedule = param(default="linear", help="schedule of the learning rate over the epochs")
    final_lr_factor: float = param(
        default=0.01, at_least=0, at_most=1, help="final learning rate as a fraction of lr", aliases=("final",)
    )
    warmup: float = param(default=0.0, at_least=0, below=1, help="fraction of the steps with a rising learning rate")

    def __post_init__(self) -> None:
        if self.beta1**2 >= self.beta2:  # the updates of an unused row would diverge
            raise InputError(
                f"{type(self).__name__}.beta2: expected a number above beta1², {self.beta1**2:g}, received {self.beta2}"
            )

    def rate(self, progress: float) -> float:
        """The learning rate after a fraction ``progress`` of the steps.

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
    r"""Adam that approximates dense Adam for embedding tables, at the cost of the rows that a step uses.

    Dense Adam also updates a row in steps that do not use it: its first moment m decays as β₁ᵗ and its second moment v
    as β₂ᵗ, so that over Δ steps the row moves by

    .. math:: \sum_{t<\Delta} \eta\,\frac{\beta_1^t m}{\sqrt{\beta_2^t v}}
              = \eta\,\frac{m}{\sqrt v}\cdot\frac{1-r^\Delta}{1-r},\quad r = \beta_1/\sqrt{\beta_2}.

    Here the moments of a row that is used after Δ steps are decayed by Δ steps, and the row moves at once by the sum of
    the updates until its next use, which is assumed to be another Δ steps later. For Δ = 1 this is Adam. (The usual
    "lazy" Adam omits these updates: users, who are used once per epoch, then move about ten times too little.)

    A sparse gradient contains the rows that were used; in a dense gradient, rows of zeros were not used. The penalty of
    ``weight_decay`` applies to a row in the steps that use it, as is usual for embedding tables, so it does not depend
    on the layout of the gradient. With ``lazy=False`` it applies in every step, as in Adam.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> None:
        self.parameters = list(parameters)
        self.settings = settings
        self.step_count = 0
        self._mean = [torch.zeros_like(p) for p in self.parameters]
        self._square = [torch.zeros_like(p) for p in self.parameters]
        self._last = [torch.zeros(p.shape[:1], dtype=torch.int32, device=p.device) for p in self.parameters]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update the parameters and clear their gradients."""
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
        tables = self.parameters[index].detach(), self._mean[index], self._square[index]
        parameter, mean, square = (tensor.index_select(0, row_N) for tensor in tables)
        self._move(parameter, grad_ND, mean, square, gap_N1, rate)
        for table, rows in zip(tables, (parameter, mean, square), strict=True):
            table[row_N] = rows
        self._last[index][row_N] = self.step_count

    def _move(
        self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, gap: Tensor | None, rate: float
    ) -> None:
        """One in-place step of parameters that were last used ``gap`` steps ago, or in every step."""
        if self.settings.weight_decay:
            gradient = gradient.addcmul(parameter, self._penalised(gradient), value=self.settings.weight_decay)
        adam_step_(
            parameter,
            gradient,
            mean,
            square,
            step=self.step_count,
            lr=rate,
            beta1=self.settings.beta1,
            beta2=self.settings.beta2,
            eps=self.settings.eps,
            gap=gap,
        )

    def _penalised(self, gradient: Tensor) -> Tensor:
        """1 for the rows to which the penalty applies, else 0."""
        if not self.settings.lazy:
            return gradient.new_ones(())
        is_used_N = (gradient != 0).view(len(gradient), -1).any(1)
        return is_used_N.to(gradient.dtype).view(-1, *[1] * (gradient.ndim - 1))

    def state(self) -> dict[str, Tensor]:
        """The state for a checkpoint."""
        parts = {"mean": self._mean, "square": self._square, "last": self._last}
        tensors = {f"{name}.{index}": part for name, group in parts.items() for index, part in enumerate(group)}
        return {**tensors, "step": torch.tensor(self.step_count)}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load what :meth:`state` returned."""
        for name, group in {"mean": self._mean, "square": self._square, "last": self._last}.items():
            for index, part in enumerate(group):
                part.copy_(state[f"{name}.{index}"])
        self.step_count = int(state["step"])
