"""How the gradient is spread over positives: what loops over the scores of the trained model say."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from shortlist.losses import BPR, SL, Loss, SLAtK, registry
from shortlist.negatives import Sample
from shortlist.scores import ScoreTable
from shortlist.training.gradient_concentration import carried_by_top, gradient_sizes
from training.fixtures import training, two_tastes


@pytest.mark.parametrize(
    ("sizes", "share"),
    [
        ([1.0] * 100, 0.05),
        ([96.0, 1.0, 1.0, 1.0, 1.0] + [0.0] * 95, 1.0),
        ([1.0] * 95 + [3.0] * 5, 15 / 110),
        ([2.0, 1.0, 1.0], 0.5),
    ],
)
def test_share_of_the_largest(sizes: list[float], share: float) -> None:
    assert carried_by_top(torch.tensor(sizes), 0.05) == pytest.approx(share)


def pull_of_sl(own: float, others: list[float], beta: float) -> float:
    return 1 / 0.2


def pull_of_bpr(own: float, others: list[float], beta: float) -> float:
    return sum(1 / (1 + math.exp(own - other)) for other in others) / len(others)


def pull_of_slatk(own: float, others: list[float], beta: float) -> float:
    """−w/τ, and what flows through the weight: w(1−w)/τ_w·l."""
    weight = 1 / (1 + math.exp((beta - own) / 2.5))
    term = math.log(sum(math.exp(other / 0.2) for other in others) * 1000 / len(others)) - own / 0.2
    return abs(-weight / 0.2 + weight * (1 - weight) / 2.5 * term)


@pytest.mark.parametrize(
    ("loss", "size_of"),
    [
        (SL(), pull_of_sl),
        (BPR(), pull_of_bpr),
        (SLAtK(k=5, refresh=2, tau_w=2.5), pull_of_slatk),
    ],
    ids=["sl", "bpr", "slatk"],
)
def test_gradients_of_positives(loss: Loss, size_of: Callable[..., float]) -> None:
    """Of every positive once, as worked with loops from the scores of the trained model; batches do not matter."""
    train = two_tastes()
    trained = training(loss, train, candidates="all", epochs=4, batch=16)
    trained.run()
    expected = []
    for user in range(train.n_users):
        score_C: list[float] = trained.model.embeddings().score(torch.tensor([user]))[0].tolist()
        met = train.indices[train.indptr[user] : train.indptr[user + 1]].tolist()
        others = [score for item, score in enumerate(score_C) if item not in met]
        beta = 0.0 if trained.thresholds is None else float(trained.thresholds.read(torch.tensor([user])))
        expected += [size_of(score_C[item], others, beta) for item in met]
    kept = trained.thresholds
    found = gradient_sizes(
        trained.loss,
        trained.batches,
        trained.model,
        torch.Generator().manual_seed(0),
        thresholds=None if kept is None else kept.read,
    )
    assert len(found) == train.n_pairs
    assert sorted(found.tolist()) == pytest.approx(sorted(expected), rel=1e-4)


def test_a_part_of_an_epoch_leaves_everything_as_it_was() -> None:
    trained = training(SL(), candidates="all", epochs=2, batch=8)
    trained.run()
    trained.loss.train()
    model, generator = trained.model, torch.Generator().manual_seed(0)
    whole = gradient_sizes(trained.loss, trained.batches, model, generator)
    some = gradient_sizes(trained.loss, trained.batches, model, generator, at_least=40)
    assert 40 <= len(some) < len(whole) == trained.task.train.n_pairs
    assert trained.batches.size == 8
    assert trained.loss.training
    assert all(parameter.grad is None for parameter in trained.model.parameters())


@pytest.mark.parametrize("weighted", [False, True])
def test_samples_with_weights(weighted: bool) -> None:
    """BPR against a shared sample: each draw counts by its weight, and only the positive's own score is looked at."""
    train = two_tastes()
    trained = training(BPR(), train, candidates="shared", negatives=12, weighted=weighted, distribution="popularity")
    trained.run()
    vectors = trained.model.embeddings()
    expected: list[float] = []
    for batch in trained.batches.epoch(torch.Generator().manual_seed(3)):
        assert isinstance(batch.candidates, Sample)
        item_C, log_weight_C = batch.candidates.item_C, batch.candidates.log_weight_C
        logs = [0.0] * len(item_C) if log_weight_C is None else log_weight_C.tolist()
        for row, item in zip(batch.row_P.tolist(), batch.item_P.tolist(), strict=True):
            user = int(batch.rows[row])
            score_I: list[float] = vectors.score(torch.tensor([user]))[0].tolist()
            met = set(train.row(user).tolist())
            size, total = 0.0, 0.0
            for other, log in zip(item_C.tolist(), logs, strict=True):
                if other not in met:
                    total += 1.0
                    size += math.exp(log) / (1 + math.exp(score_I[item] - score_I[other]))
            population = train.n_items - len(met) if weighted else total
            expected.append(size / population)
    found = gradient_sizes(trained.loss, trained.batches, trained.model, torch.Generator().manual_seed(3))
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


class OffTheMatrix(Loss):
    """Half the mean square of the positives among the candidates: each receives its own score."""

    def value(self, table: ScoreTable) -> Tensor:
        squares_RC = torch.where(~table.is_negative(), table.matrix().square() / 2, 0)
        return squares_RC.sum() / max(1, table.n_positives)


@pytest.mark.parametrize("candidates", ["all", "shared"])
def test_positives_that_a_loss_reads_off_the_matrix(candidates: str) -> None:
    """They receive something as far as they are candidates."""
    trained = training(SL(), candidates=candidates, negatives=12)
    trained.run()
    vectors, expected = trained.model.embeddings(), []
    for batch in trained.batches.epoch(torch.Generator().manual_seed(3)):
        for row, item in zip(batch.row_P.tolist(), batch.item_P.tolist(), strict=True):
            is_candidate = batch.candidates is None or item in batch.candidates.item_C.tolist()
            score = vectors.score(batch.rows[row : row + 1])[0, item].item()
            expected.append(abs(score) if is_candidate else 0.0)
    found = gradient_sizes(OffTheMatrix(), trained.batches, trained.model, torch.Generator().manual_seed(3))
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    assert (0.0 in expected) == (candidates == "shared")


@pytest.mark.parametrize("name", sorted(registry))
def test_every_loss_can_be_looked_at(name: str) -> None:
    """As it is trained unless told otherwise: a finite size for each positive of the epoch, not 0 for all of them."""
    made = training(registry[name](**({"k": 5} if "k" in registry[name].declared else {})))
    kept = made.thresholds
    read = None if kept is None else kept.read
    found = gradient_sizes(made.loss, made.batches, made.model, torch.Generator(), thresholds=read)
    assert len(found) == made.task.train.n_pairs
    assert bool(found.isfinite().all())
    assert float(found.sum()) > 0
