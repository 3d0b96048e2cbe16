"""Users who arrive after training: a vector that fits their history, with the item vectors held as they are."""

from __future__ import annotations

import torch
from torch import Tensor

from shortlist.scores import FactoredTable, Factors, Workspace
from shortlist.scores.similarity import with_length

STEPS, RATE = 50, 0.05
"""Adam steps, and the length of the first as a share of the vector; the last has length 0."""

_TOGETHER = 256  # users that are fitted at once


def fit_users(vectors: Factors, row_P: Tensor, item_P: Tensor, n_rows: int, tau: float, length: float) -> Tensor:
    r"""The vectors x of a given length that make the softmax loss of each history H smallest.

    .. math:: \ln \sum_{j \notin H} e^{s_j/\tau} - \frac{1}{|H|} \sum_{i \in H} s_i/\tau,\qquad s_j = x \cdot y_j + b_j

    ``vectors`` give y and b. It is what training a user with everything else held comes to: for MF and LightGCN,
    trained by SL on Health and Debian, 96 to 98 of 100 places are those of the users' trained vectors. Starting from
    the mean of the history and moving on a sphere keeps the problem well-conditioned.
    """
    fitted = [
        _fit(vectors, row_P[mine] - start, item_P[mine], min(_TOGETHER, n_rows - start), tau, length)
        for start in range(0, n_rows, _TOGETHER)
        for mine in [(row_P >= start) & (row_P < start + _TOGETHER)]
    ]
    return torch.cat(fitted) if fitted else vectors.item_ID.new_empty(0, vectors.item_ID.shape[1])


def mean_vectors(item_ID: Tensor, row_P: Tensor, item_P: Tensor, n_rows: int) -> Tensor:
    """The mean of the item vectors of each row; 0 for a row without items."""
    total_RD = item_ID.new_zeros(n_rows, item_ID.shape[1]).index_add_(0, row_P, item_ID.index_select(0, item_P))
    return total_RD / torch.bincount(row_P, minlength=n_rows).clamp_(min=1).unsqueeze(1)


def _fit(vectors: Factors, row_P: Tensor, item_P: Tensor, n_rows: int, tau: float, length: float) -> Tensor:
    item_ID, workspace = vectors.item_ID, Workspace()
    weight_P = 1 / torch.bincount(row_P, minlength=n_rows)[row_P]
    direction_RD = with_length(mean_vectors(item_ID, row_P, item_P, n_rows)).requires_grad_()
    optimizer = torch.optim.Adam([direction_RD])
    for number in range(STEPS):
        optimizer.param_groups[0]["lr"] = RATE * (1 - number / STEPS)
        with torch.enable_grad():
            table = FactoredTable(
                with_length(direction_RD, length), item_ID, row_P=row_P, column_P=item_P, bias_C=vectors.bias_I,
                workspace=workspace,
            )  # fmt: skip
            lse_R = table.logsumexp(tau, "negatives")
            lse_R = torch.where(lse_R == -torch.inf, 0, lse_R)  # of a user who has met everything
            loss = lse_R.sum() - (weight_P * table.positives()).sum() / tau
        direction_RD.grad = torch.autograd.grad(loss, direction_RD)[0]
        optimizer.step()
    return with_length(direction_RD.detach(), length)
