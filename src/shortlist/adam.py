"""One step of Adam, for the loop's parameters and for what losses move themselves."""

from __future__ import annotations

import math

from torch import Tensor


def adam_step_(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    *,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    gap: Tensor | None = None,
) -> None:
    r"""Adam's ``step``-th step, in place: parameter, mean gradient and mean squared gradient.

    .. math:: m \leftarrow \beta_1 m + (1-\beta_1) g,\quad v \leftarrow \beta_2 v + (1-\beta_2) g^2,\quad
              p \leftarrow p - \eta\,\frac{m/(1-\beta_1^t)}{\sqrt{v/(1-\beta_2^t)} + \epsilon}

    A negative ``lr`` ascends. With ``gap``, the number of steps since each row was touched last, the averages fade for
    all of them, and the row moves at once by what the mean gradient would move it over the same number of steps
    (:class:`shortlist.training.optimizers.RowAdam`). The bias corrections go into the two numbers of the last lines,
    not into a pass each.

    Kingma & Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.

    >>> import torch
    >>> p, m, v = torch.zeros(1), torch.zeros(1), torch.zeros(1)
    >>> adam_step_(p, torch.tensor([3.0]), m, v, step=1, lr=0.1)
    >>> p
    tensor([-0.1000])
    """
    if gap is None:
        direction = mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2)
    else:
        ratio = beta1 / math.sqrt(beta2)
        direction = mean.mul_(beta1**gap).add_(gradient, alpha=1 - beta1) * ((1 - ratio**gap) / (1 - ratio))
        square.mul_(beta2**gap)
    square.addcmul_(gradient, gradient, value=1 - beta2)
    unit = math.sqrt(1 - beta2**step)
    root = square.sqrt().add_(eps * unit)
    parameter.addcdiv_(direction, root, value=-lr * unit / (1 - beta1**step))
