"""GuidedRec beyond the suite: its network learns DCG by steps of its own, and slots are shuffled."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from losses.entries.guided import estimate
from losses.entries.lambdas import discount
from scores.tables import random_case
from shortlist.losses import GuidedRec
from shortlist.scores import DenseTable, Sizes, TableContext


def pairs(seed: int, rows: int = 6, negatives: int = 3) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, generator=g), torch.randn(rows, negatives, generator=g)


def test_the_network_takes_steps_of_adam_towards_dcg() -> None:
    """Five steps beside torch's own Adam, on an error that is written down again."""
    loss, theirs = GuidedRec(negatives=3, hidden=4, rate=0.01), GuidedRec(negatives=3, hidden=4)
    weights = theirs.network.clone().requires_grad_()
    adam = torch.optim.Adam([weights], lr=0.01)
    for step in range(5):
        pos, neg = pairs(step)
        loss(pos.requires_grad_(), neg).backward()
        loss.after_step(0.5)
        chance = torch.cat([pos.detach().unsqueeze(1), neg], 1).sigmoid()
        label = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(6, 4)
        dcg = torch.tensor([discount(1 + int((n >= p).sum())) for p, n in zip(pos.detach(), neg, strict=True)])
        adam.zero_grad()
        (theirs._estimate(weights, torch.stack([chance, label], 2)) - dcg).square().mean().backward()
        adam.step()
        torch.testing.assert_close(loss.network, weights.detach(), rtol=1e-5, atol=1e-7)
    assert int(loss.steps) == 5
    slots = [(float(c), float(y)) for c, y in zip(chance[0], label[0], strict=True)]
    value = theirs._estimate(loss.network, torch.stack([chance, label], 2))[0]
    assert float(value) == pytest.approx(estimate(loss.network.tolist(), 4, slots), rel=1e-5)


def test_the_network_learns_what_dcg_is() -> None:
    """On lists it has not seen, with shuffled slots, its error falls far below that of the best constant."""
    loss = GuidedRec(negatives=3, hidden=16, rate=0.01)
    generator = torch.Generator().manual_seed(0)

    def error(seed: int) -> tuple[float, float]:
        pos, neg = pairs(seed, rows=500)
        loss(pos.requires_grad_(), neg, generator=generator)
        assert loss._lists is not None
        lists, dcg, _ = loss._lists
        return float((loss._estimate(loss.network, lists) - dcg).square().mean()), float(dcg.var())

    for seed in range(400):
        pos, neg = pairs(1000 + seed, rows=64)
        loss(pos.requires_grad_(), neg, generator=generator)
        loss.after_step(0.0)
    left, constant = error(1)
    assert left < 0.3 * constant


def test_nothing_is_kept_where_nothing_is_trained() -> None:
    loss, before = GuidedRec(negatives=3, hidden=4), GuidedRec(negatives=3, hidden=4).network
    pos, neg = pairs(0)
    loss.after_step(0.1)
    with torch.no_grad():
        loss(pos, neg)
    loss.eval()(pos.requires_grad_(), neg)
    loss.after_step(0.1)
    assert torch.equal(loss.network, before)
    loss.train()(pos[:0], neg[:0])
    loss.after_step(0.1)  # a step without a positive
    assert torch.equal(loss.network, before)


def test_a_seed_decides_the_network() -> None:
    one, other = GuidedRec(), GuidedRec()
    assert torch.equal(one.network, other.network)
    one.initialize(Sizes(n_keys=0, n_items=0, n_pairs=0), torch.Generator().manual_seed(5))
    assert not torch.equal(one.network, other.network)
    other.initialize(Sizes(n_keys=9, n_items=9, n_pairs=9), torch.Generator().manual_seed(5))
    assert torch.equal(one.network, other.network)


def test_slots_are_shuffled_by_the_generator() -> None:
    loss = GuidedRec(negatives=3, hidden=4)
    pos, neg = pairs(1)
    values = [loss(pos, neg, generator=torch.Generator().manual_seed(seed)).item() for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]
    loss(pos.requires_grad_(), neg, generator=torch.Generator().manual_seed(0))
    assert loss._lists is not None
    label_PS = loss._lists[0][:, :, 1]
    assert label_PS.sum(1).tolist() == [1.0] * 6
    assert len(set(label_PS.argmax(1).tolist())) > 1


def test_negatives_are_chosen_among_those_of_the_row() -> None:
    """Positives stand out by their scores: a list that took one for a negative would have a far higher loss."""
    case = random_case(3, rows=6, items=20)
    positive_RC = case.positive_mask()
    score_RC = torch.where(positive_RC, 50.0, torch.arange(20.0) / 100).double()
    context = TableContext(generator=torch.Generator().manual_seed(0))
    table = DenseTable.from_matrix(score_RC, positive_RC, context=context)
    loss = GuidedRec(negatives=4, weight=0.0)
    values = {loss(table).item() for _ in range(20)}
    assert len(values) > 10
    assert max(values) < 0.8  # 4/5·ln(1 + e^0.2)
