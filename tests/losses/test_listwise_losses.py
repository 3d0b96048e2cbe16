"""Listwise losses and relaxed sorts beyond the suite: graded labels, limits, random orders, bounded memory."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from sklearn.metrics import ndcg_score
from torch import Tensor

from losses.entries.listwise import logsumexp
from losses.graded import graded_table, separated
from scores.tables import random_case, with_context
from shortlist.errors import InputError
from shortlist.losses import SL, ListMLE, ListNet, Loss, NeuralNDCG, SmoothNDCG, relaxed_sorts
from shortlist.losses.relaxed_sorts import PaddedLists
from shortlist.scores import DenseTable, FactoredTable


@pytest.mark.parametrize("k", [None, 1, 3, 50])
@pytest.mark.parametrize("loss", [SmoothNDCG(sigma=1e-3), NeuralNDCG(tau=1e-2)])
def test_a_hard_sort_gives_ndcg(loss: Loss, k: int | None) -> None:
    """scikit-learn's NDCG takes gains as they are given."""
    score_RC, label_RC = separated(1)
    expected = ndcg_score(2.0 ** label_RC.numpy() - 1, score_RC.numpy(), k=k)
    made = type(loss)(**{**loss.settings(), "k": k})
    assert made(graded_table(score_RC, label_RC)).item() == pytest.approx(-expected, rel=1e-9)


@pytest.mark.parametrize("loss", [SmoothNDCG(k=3), NeuralNDCG()])
def test_blocks_of_lists_change_nothing(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(0, rows=7, items=10)
    whole = loss(case.factored())
    grads = torch.autograd.grad(whole, case.vectors())
    monkeypatch.setattr(relaxed_sorts, "_BLOCK", 1)
    value = loss(case.factored())
    torch.testing.assert_close(value, whole, rtol=1e-12, atol=0)
    for one, other in zip(torch.autograd.grad(value, case.vectors()), grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-14)
    with torch.no_grad():
        torch.testing.assert_close(loss(case.factored()), whole)


@pytest.mark.parametrize("loss", [SmoothNDCG(), NeuralNDCG()])
def test_long_lists_are_refused_before_they_take_memory(loss: Loss) -> None:
    user_RD, item_CD = torch.zeros(100_000, 1), torch.zeros(1_000_000, 1)  # their scores would take 400 GB
    at = torch.zeros(1, dtype=torch.long)
    table = FactoredTable(user_RD, item_CD, row_P=at, column_P=at)
    longest = loss.settings()["longest"]
    message = rf"^{type(loss).__name__}.longest: expected lists of at most {longest} items, received 1000000; train ag"
    with pytest.raises(InputError, match=message):
        loss(table)


@pytest.mark.parametrize("loss", [SmoothNDCG(longest=8), NeuralNDCG(longest=8)])
def test_a_weighted_sample_is_a_short_list_of_a_long_catalogue(loss: Loss) -> None:
    """A list is as long as what is at hand, not as what it stands for."""
    pos, neg = torch.tensor([0.5, 0.1]), torch.tensor([[0.4, 0.0], [0.2, 0.3]])
    n_represented_R = torch.full((2,), 8000.0)
    log_weight = torch.full((2,), 4000.0).log()
    table = DenseTable(pos, torch.arange(2), neg, log_weight=log_weight, n_represented_R=n_represented_R)
    assert torch.equal(loss(table), loss(pos, neg))


def test_the_width_of_smooth_ndcg_falls_from_epoch_to_epoch() -> None:
    pos, neg = torch.tensor([0.5, 0.1]), torch.tensor([[0.4, 0.0], [0.2, 0.3]])
    loss = SmoothNDCG(sigma=0.8, anneal=0.5)
    for epoch, sigma in ((1, 0.8), (2, 0.4), (4, 0.1), (1, 0.8)):
        loss.before_epoch(epoch)
        torch.testing.assert_close(loss(pos, neg), SmoothNDCG(sigma=sigma)(pos, neg))


def test_scaling_makes_the_sort_doubly_stochastic() -> None:
    case = random_case(1, rows=6, items=12)
    loss = NeuralNDCG(iterations=500, tolerance=1e-9)
    lists = PaddedLists.of(case.factored(), None, 100, "test")
    start = torch.rand(6, 24, lists.score_RL.shape[1], generator=torch.Generator().manual_seed(0)).double()
    start = start[:, : lists.score_RL.shape[1]]
    there = lists.present_RL.unsqueeze(1) & (
        torch.arange(lists.score_RL.shape[1]) < lists.present_RL.sum(1, keepdim=True)
    ).unsqueeze(2)
    share = loss._scaled(start * there, lists.present_RL)
    torch.testing.assert_close(share.sum(1), lists.present_RL.double(), rtol=0, atol=1e-8)
    torch.testing.assert_close(share.sum(2), there.any(2).double(), rtol=0, atol=1e-8)


# ---------------------------------------------------------------------------------------------- ListNet and ListMLE


@pytest.mark.parametrize("loss", [ListNet(tau=0.3), ListMLE(tau=0.3)])
def test_with_one_positive_it_is_the_softmax_loss(loss: Loss) -> None:
    g = torch.Generator().manual_seed(0)
    pos, neg = torch.randn(5, generator=g).double(), torch.randn(5, 9, generator=g).double()
    torch.testing.assert_close(loss(pos, neg), SL(tau=0.3, denominator="all")(pos, neg), rtol=1e-12, atol=0)


@pytest.mark.parametrize("target", ["proportional", "softmax"])
def test_listnet_of_graded_labels(target: str) -> None:
    score_RC, label_RC = separated(2)
    expected = 0.0
    for scores, labels in zip(score_RC.tolist(), label_RC.tolist(), strict=True):
        asked = [float(y) if target == "proportional" else math.exp(y) for y in labels]
        expected -= sum(a / sum(asked) * (s - logsumexp(scores)) for a, s in zip(asked, scores, strict=True))
    value = ListNet(target_distribution=target)(graded_table(score_RC, label_RC))  # type: ignore[arg-type]
    assert value.item() == pytest.approx(expected / len(score_RC), rel=1e-9)


def plackett_luce(ordered: list[float], places: int) -> float:
    return sum(logsumexp(ordered[k:]) - ordered[k] for k in range(places))


def test_listmle_draws_in_the_order_of_labels() -> None:
    """Labels that all differ leave nothing to chance."""
    g = torch.Generator().manual_seed(3)
    score_RC = torch.randn(4, 5, generator=g).double()
    label_RC = torch.stack([torch.randperm(5, generator=g) for _ in range(4)])
    table = with_context(graded_table(score_RC, label_RC), generator=g)
    rows = [
        [s for _, s in sorted(zip(labels, scores, strict=True), reverse=True)]
        for labels, scores in zip(label_RC.tolist(), score_RC.tolist(), strict=True)
    ]
    for places, length in (("positives", 4), ("all", 5)):
        expected = sum(plackett_luce(row, length) for row in rows) / 16
        assert ListMLE(places=places)(table).item() == pytest.approx(expected, rel=1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize(("places", "length"), [("positives", 3), ("all", 5)])
def test_listmle_shuffles_equal_labels(places: str, length: int) -> None:
    """Over many calls every order comes up equally often; the same generator gives the same order."""
    positives, negatives = [0.5, -0.2, 1.0], [0.3, -0.8]
    table = DenseTable(
        torch.tensor(positives, dtype=torch.float64),
        torch.zeros(3, dtype=torch.long),
        torch.tensor([negatives], dtype=torch.float64),
    )
    loss = ListMLE(places=places)  # type: ignore[arg-type]
    seeded = with_context(table, generator=torch.Generator().manual_seed(0))
    values = torch.stack([loss(seeded) for _ in range(4000)])
    orders = itertools.product(itertools.permutations(positives), itertools.permutations(negatives))
    expected = [plackett_luce([*first, *rest], length) / 3 for first, rest in orders]
    mean, error = sum(expected) / len(expected), float(values.std()) / 4000**0.5
    assert float(values.mean()) == pytest.approx(mean, abs=4 * error)
    assert min(expected) == pytest.approx(float(values.min()), rel=1e-9)
    assert max(expected) == pytest.approx(float(values.max()), rel=1e-9)
    again: list[Tensor] = []
    for _ in range(2):
        again.append(loss(with_context(table, generator=torch.Generator().manual_seed(7))))
    assert torch.equal(*again)
