"""GuidedRec: a small network learns to predict DCG, and the model maximises the prediction."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from shortlist.adam import adam_step_
from shortlist.losses.base import Loss, mean_over_positives, random_like, registry
from shortlist.losses.gains import dcg_discount
from shortlist.parameters import param
from shortlist.scores import ScoreTable, Similarity, Sizes


@registry.register("guidedrec")
class GuidedRec(Loss):
    r"""GuidedRec: binary cross-entropy of a positive and N negatives, minus their DCG as estimated by a network.

    .. math:: L_{ui} = \frac{1}{N+1}\Bigl[N \ln\bigl(1 + e^{-s_i}\bigr)
              + \sum_{j=1}^{N} \ln\bigl(1 + e^{s_j}\bigr)\Bigr] - w\,E\bigl(\sigma(s), y\bigr)

    The network E reads the list of N + 1 pairs (σ(s), label): two layers with tanh, multiplied by a layer over all
    products of two entries of the list, then a layer of 8 units and one of 1 unit, each with tanh. After each step of
    the model, the network takes an Adam step that reduces (E − DCG)². The table's generator shuffles the slots of the
    list, since DCG does not depend on their order. If there are more than N negatives, the generator selects N; without
    a generator the first N are taken. Empty slots are 0. Weights and moments of the network are part of every
    checkpoint. Sampling weights are not used.

    The publication alternates three steps: of the model by cross-entropy, of the network, and of the model by E. Here
    the two steps of the model are one. In your own training loop, call ``after_step(rate)`` after the optimiser's step.

    Rashed et al., "A Guided Learning Approach for Item Recommendation via Surrogate Loss Learning", SIGIR 2021.

    >>> GuidedRec(weight=0.0)(torch.tensor([0.0]), torch.zeros(1, 9))
    tensor(1.2477)
    """

    formula = "(N·ln(1 + exp(−s_i)) + Σ_j ln(1 + exp(s_j)))/(N + 1) − w·E(list), E a network that predicts DCG"
    target = "DCG"
    citation = "Rashed et al., SIGIR 2021"
    cost = "a small network on ten scores for each positive"
    use = "As a baseline: NDCG predicted by a network."
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
        self._lists: tuple[Tensor, Tensor, Tensor | None] | None = None
        self.initialize(Sizes(), torch.Generator().manual_seed(0))

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        """A new network with Glorot-uniform weights and zero biases."""
        parts = []
        for inner, outer in self._shapes:
            spread = math.sqrt(6 / (inner + outer))
            parts += [(2 * torch.rand(inner * outer, generator=generator) - 1) * spread, torch.zeros(outer)]
        self.network.copy_(torch.cat(parts))
        for buffer in (self.mean, self.square, self.steps):
            buffer.zero_()

    def value(self, table: ScoreTable) -> Tensor:
        """The mean over positives."""
        score_PN, present_PN = self._drawn(table)
        pos_P = table.positives()
        count_P = present_PN.sum(1)
        entropy_P = count_P * F.softplus(-pos_P) + (F.softplus(score_PN) * present_PN).sum(1)
        list_PSC, dcg_P = self._slots(table, pos_P, score_PN, present_PN)
        if self.training and torch.is_grad_enabled():
            self._lists = list_PSC.detach(), dcg_P, table.context.weight_P
        estimate_P = self._estimate(self.network.to(pos_P.dtype), list_PSC)
        return mean_over_positives(table, entropy_P / (count_P + 1) - self.weight * estimate_P)

    def _drawn(self, table: ScoreTable) -> tuple[Tensor, Tensor]:
        """The scores of N negatives of each positive's row, and a mask that is false at padding."""
        matrix_RC, taken_RC = table.matrix(), ~table.is_negative()
        key_RC = torch.zeros_like(matrix_RC)
        if table.context.generator is not None and matrix_RC.shape[1] > self.negatives:
            key_RC = random_like(matrix_RC, table.context.generator)
        column_RN = key_RC.masked_fill(taken_RC, 2).argsort(dim=1, stable=True)[:, : self.negatives]
        present_RN = ~taken_RC.gather(1, column_RN)
        score_RN = matrix_RC.gather(1, column_RN).masked_fill(~present_RN, 0)
        missing = self.negatives - score_RN.shape[1]
        score_RN, present_RN = F.pad(score_RN, (0, missing)), F.pad(present_RN, (0, missing))
        return table.per_positive(score_RN), table.per_positive(present_RN)

    def _slots(self, table: ScoreTable, pos_P: Tensor, score_PN: Tensor, present_PN: Tensor) -> tuple[Tensor, Tensor]:
        """The lists that the network reads, slots × (σ(s), label), and their DCG."""
        probability_PS = torch.cat([pos_P.unsqueeze(1), score_PN], 1).sigmoid()
        probability_PS = probability_PS * F.pad(present_PN, (1, 0), value=True)
        label_PS = torch.zeros_like(probability_PS)
        label_PS[:, 0] = 1
        rank_P = 1 + ((score_PN.detach() >= pos_P.detach().unsqueeze(1)) & present_PN).sum(1)
        if table.context.generator is not None:
            order_PS = random_like(probability_PS, table.context.generator, torch.float32).argsort(1)
            probability_PS, label_PS = probability_PS.gather(1, order_PS), label_PS.gather(1, order_PS)
        return torch.stack([probability_PS, label_PS], 2), dcg_discount(rank_P.to(pos_P.dtype))

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
        hidden_PH = layer(1, layer(0, flat_PI)) * layer(2, products_PI)
        return layer(4, layer(3, hidden_PH)).squeeze(1)

    def after_step(self, rate: float | None = None, *, grad_scale: float = 1.0) -> None:
        """An Adam step of the network on the lists of the last forward pass."""
        if self._lists is None or not len(self._lists[1]):
            return
        list_PSC, dcg_P = (part.to(self.network.dtype) for part in self._lists[:2])
        weight_P = None if self._lists[2] is None else self._lists[2].to(self.network.dtype)
        self._lists = None
        with torch.enable_grad():
            network = self.network.detach().clone().requires_grad_()
            error_P = (self._estimate(network, list_PSC) - dcg_P).square()
            error = error_P.mean() if weight_P is None else (error_P * weight_P).sum() / weight_P.sum().clamp(min=1e-30)
            (grad,) = torch.autograd.grad(error, network)
        self.steps += 1
        adam_step_(self.network, grad, self.mean, self.square, step=int(self.steps), lr=self.rate)
