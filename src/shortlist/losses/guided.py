"""GuidedRec: a small network learns what DCG is, and the model learns from the network."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from shortlist.losses.base import Loss, mean_over_positives, registry
from shortlist.losses.gains import dcg_discount
from shortlist.parameters import param
from shortlist.scores import ScoreTable, Similarity

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8  # Adam's


@registry.register("guidedrec")
class GuidedRec(Loss):
    r"""GuidedRec: binary cross-entropy of a positive and N negatives, less their DCG as a network estimates it.

    .. math:: L_{ui} = \frac{1}{N+1}\Bigl[N \ln\bigl(1 + e^{-s_i}\bigr)
              + \sum_{j=1}^{N} \ln\bigl(1 + e^{s_j}\bigr)\Bigr] - w\,E\bigl(\sigma(s), y\bigr)

    The network E reads the list of N + 1 pairs (σ(s), label): two layers with tanh, times a layer of all products of
    two entries of the list, to 8 numbers, to one, with tanh. After each step it takes a step of its own Adam to make
    (E − DCG)² smaller. Slots of the list are shuffled by the table's generator, since DCG does not depend on them;
    where there are more than N negatives the generator chooses, and without one the first are taken; slots that stay
    empty are 0. Weights and moments of the network are part of every checkpoint. Sampling weights are not used.

    Published as three steps in turn, of the model by cross-entropy, of the network, and of the model by E; here the two
    of the model are one. In a loop of one's own call ``after_step(rate)`` after the optimiser's step.

    Rashed et al., "A Guided Learning Approach for Item Recommendation via Surrogate Loss Learning", SIGIR 2021.

    >>> GuidedRec(weight=0.0)(torch.tensor([0.0]), torch.zeros(1, 9))
    tensor(1.2477)
    """

    formula = "(N·ln(1 + exp(−s_i)) + Σ_j ln(1 + exp(s_j)))/(N + 1) − w·E(list), E a network that learns DCG"
    target = "DCG"
    citation = "Rashed et al., SIGIR 2021"
    cost = "a small network on ten scores for each positive"
    use = "To compare with: NDCG as a network has learnt it."
    similarity: ClassVar[Similarity] = "cosine"
    sampled: ClassVar[int | None] = 9

    negatives: int = param(default=9, at_least=1, help="negatives N in the list of a positive")
    weight: float = param(default=1.0, at_least=0, help="weight w of the estimated DCG")
    hidden: int = param(default=32, at_least=1, help="width of the network's layers")
    rate: float = param(default=1e-3, above=0, help="learning rate of the network")

    network: Tensor
    mean: Tensor
    square: Tensor
    steps: Tensor

    def __post_init__(self) -> None:
        size, hidden = 1 + self.negatives, self.hidden
        self._shapes = [(2 * size, hidden), (hidden, hidden), (4 * size * size, hidden), (hidden, 8), (8, 1)]
        count = sum(inner * outer + outer for inner, outer in self._shapes)
        for name in ("network", "mean", "square"):
            self.register_buffer(name, torch.zeros(count))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self._lists: tuple[Tensor, Tensor] | None = None
        self.start(0, 0, 0, torch.Generator().manual_seed(0))

    def start(self, n_users: int, n_items: int, n_pairs: int, generator: torch.Generator) -> None:
        """A new network: weights by their layer's width (Glorot), biases 0."""
        parts = []
        for inner, outer in self._shapes:
            spread = math.sqrt(6 / (inner + outer))
            parts += [(2 * torch.rand(inner * outer, generator=generator) - 1) * spread, torch.zeros(outer)]
        self.network.copy_(torch.cat(parts))
        for buffer in (self.mean, self.square, self.steps):
            buffer.zero_()

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        score_PN, there_PN = self._drawn(table)
        pos_P = table.positives()
        count_P = there_PN.sum(1)
        entropy_P = count_P * F.softplus(-pos_P) + (F.softplus(score_PN) * there_PN).sum(1)
        list_PSC, dcg_P = self._slots(table, pos_P, score_PN, there_PN)
        if self.training and torch.is_grad_enabled():
            self._lists = list_PSC.detach(), dcg_P
        estimate_P = self._estimate(self.network.to(pos_P.dtype), list_PSC)
        return mean_over_positives(entropy_P / (count_P + 1) - self.weight * estimate_P)

    def _drawn(self, table: ScoreTable) -> tuple[Tensor, Tensor]:
        """The scores of N negatives of each positive's row, and which of them are there."""
        matrix_RC, taken_RC = table.matrix(), table.is_positive()
        key_RC = torch.zeros_like(matrix_RC)
        if table.generator is not None and matrix_RC.shape[1] > self.negatives:
            key_RC = torch.rand(matrix_RC.shape, generator=table.generator, dtype=matrix_RC.dtype)
        column_RN = key_RC.masked_fill(taken_RC, 2).argsort(dim=1, stable=True)[:, : self.negatives]
        there_RN = ~taken_RC.gather(1, column_RN)
        score_RN = matrix_RC.gather(1, column_RN).masked_fill(~there_RN, 0)
        missing = self.negatives - score_RN.shape[1]
        score_RN, there_RN = F.pad(score_RN, (0, missing)), F.pad(there_RN, (0, missing))
        return table.per_positive(score_RN), table.per_positive(there_RN)

    def _slots(self, table: ScoreTable, pos_P: Tensor, score_PN: Tensor, there_PN: Tensor) -> tuple[Tensor, Tensor]:
        """The lists that the network reads, slots × (σ(s), label), and their DCG."""
        chance_PS = torch.cat([pos_P.unsqueeze(1), score_PN], 1).sigmoid()
        chance_PS = chance_PS * F.pad(there_PN, (1, 0), value=True)
        label_PS = torch.zeros_like(chance_PS)
        label_PS[:, 0] = 1
        rank_P = 1 + ((score_PN.detach() >= pos_P.detach().unsqueeze(1)) & there_PN).sum(1)
        if table.generator is not None:
            order_PS = torch.rand(chance_PS.shape, generator=table.generator).argsort(1)
            chance_PS, label_PS = chance_PS.gather(1, order_PS), label_PS.gather(1, order_PS)
        return torch.stack([chance_PS, label_PS], 2), dcg_discount(rank_P.to(pos_P.dtype))

    def _estimate(self, network: Tensor, list_PSC: Tensor) -> Tensor:
        """E of each list."""
        ends = [0]
        for inner, outer in self._shapes:
            ends += [ends[-1] + inner * outer, ends[-1] + inner * outer + outer]
        parts = [network[start:end] for start, end in pairwise(ends)]

        def layer(number: int, x_PI: Tensor) -> Tensor:
            inner, outer = self._shapes[number]
            return torch.tanh(x_PI @ parts[2 * number].view(inner, outer) + parts[2 * number + 1])

        flat_PI = list_PSC.flatten(1)
        products_PI = (flat_PI.unsqueeze(2) * flat_PI.unsqueeze(1)).flatten(1)
        both_PH = layer(1, layer(0, flat_PI)) * layer(2, products_PI)
        return layer(4, layer(3, both_PH)).squeeze(1)

    def after_step(self, rate: float) -> None:
        """A step of the network's own, on the lists that were seen last."""
        if self._lists is None or not len(self._lists[1]):
            return
        list_PSC, dcg_P = (part.to(self.network.dtype) for part in self._lists)
        self._lists = None
        with torch.enable_grad():
            network = self.network.detach().clone().requires_grad_()
            error = (self._estimate(network, list_PSC) - dcg_P).square().mean()
            (grad,) = torch.autograd.grad(error, network)
        self.steps += 1
        count = int(self.steps)
        self.mean.lerp_(grad, 1 - _BETA1)
        self.square.mul_(_BETA2).addcmul_(grad, grad, value=1 - _BETA2)
        root = (self.square / (1 - _BETA2**count)).sqrt_().add_(_EPS)
        self.network.addcdiv_(self.mean, root, value=-self.rate / (1 - _BETA1**count))
