"""Draws of negatives: never a positive, each with the right chance, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from shortlist.negatives import SharedCandidates, UniformNegatives


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def csr(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    indptr = torch.tensor([0, *np.cumsum([len(row) for row in rows])])
    return indptr, torch.tensor([item for row in rows for item in row], dtype=torch.int32)


ROWS = [[0, 1, 2], [], [9], [0], [3, 4, 5, 6, 7], list(range(10)), [1, 3, 5, 7, 9], [0, 9], list(range(9)), []]
"""Users at both ends of the catalogue, without items, with all, with all but the last."""


class TestUniformNegatives:
    def test_reaches_every_item_not_met_and_no_other(self) -> None:
        negatives = UniformNegatives(*csr(ROWS), n_items=10)
        drawn_BN = negatives.draw(torch.arange(10), 400, seeded())
        assert drawn_BN.shape == (10, 400)
        for row, drawn in zip(ROWS, drawn_BN.tolist(), strict=True):
            assert set(drawn) == (set(range(10)) - set(row) or {0})

    @pytest.mark.parametrize("user", [user for user, row in enumerate(ROWS) if len(row) < 9])
    def test_is_uniform(self, user: int) -> None:
        negatives = UniformNegatives(*csr(ROWS), n_items=10)
        drawn = negatives.draw(torch.tensor([user]), 20_000, seeded(user)).flatten()
        free = sorted(set(range(10)) - set(ROWS[user]))
        count = torch.bincount(drawn, minlength=10)[free].numpy()
        assert stats.chisquare(count).pvalue > 1e-3

    def test_draws_are_independent(self) -> None:
        """Neighbouring draws of one user, and the first draws of two users."""
        negatives = UniformNegatives(*csr([[0], [0]]), n_items=5)
        drawn_BN = negatives.draw(torch.tensor([0, 1]), 20_000, seeded()) - 1
        for one, other in ((drawn_BN[0, :-1], drawn_BN[0, 1:]), (drawn_BN[0], drawn_BN[1])):
            pairs = torch.bincount(4 * one + other, minlength=16).numpy()
            assert stats.chisquare(pairs).pvalue > 1e-3

    def test_a_user_may_come_up_many_times_and_in_any_order(self) -> None:
        negatives = UniformNegatives(*csr(ROWS), n_items=10)
        user_B = torch.tensor([6, 2, 6, 0, 6])
        for user, drawn in zip(user_B.tolist(), negatives.draw(user_B, 50, seeded()).tolist(), strict=True):
            assert not set(drawn) & set(ROWS[user])

    def test_random_sets(self) -> None:
        rng = np.random.default_rng(0)
        for n_items in (1, 2, 50, 3000):
            rows = [sorted(rng.choice(n_items, rng.integers(0, n_items + 1), replace=False)) for _ in range(20)]
            negatives = UniformNegatives(*csr(rows), n_items=n_items)
            for row, drawn in zip(rows, negatives.draw(torch.arange(20), 60, seeded()).tolist(), strict=True):
                assert len(row) == n_items or not set(drawn) & set(row)
                assert 0 <= min(drawn) <= max(drawn) < n_items

    def test_the_same_seed_draws_the_same(self) -> None:
        negatives = UniformNegatives(*csr(ROWS), n_items=10)
        one, same, other = (negatives.draw(torch.arange(10), 30, seeded(seed)) for seed in (1, 1, 2))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


COUNTS = torch.tensor([0, 1, 50, 200, 7, 7, 30, 1000])


class TestSharedCandidates:
    @pytest.mark.parametrize("distribution", ["uniform", "popularity"])
    def test_each_item_is_listed_once_in_order(self, distribution: str) -> None:
        candidates = SharedCandidates(COUNTS, distribution)  # type: ignore[arg-type]
        for seed in range(20):
            item_C = candidates.draw(6, seeded(seed)).item_C
            assert item_C.tolist() == sorted(set(item_C.tolist()))
            assert 1 <= len(item_C) <= 6
            assert 0 <= int(item_C.min()) <= int(item_C.max()) < 8

    def test_uniform_needs_no_weights_and_is_uniform(self) -> None:
        candidates, g = SharedCandidates(COUNTS), seeded()
        samples = [candidates.draw(3, g) for _ in range(4000)]
        assert all(sample.log_weight_C is None for sample in samples)
        count = torch.bincount(torch.cat([sample.item_C for sample in samples]), minlength=8)
        chance = 1 - (1 - 1 / 8) ** 3
        assert bool(((count / 4000 - chance).abs() < 4 * (chance * (1 - chance) / 4000) ** 0.5).all())

    @pytest.mark.parametrize("power", [0.0, 0.5, 0.75, 1.0])
    @pytest.mark.parametrize("draws", [1, 5, 40])
    def test_weight_is_the_inverse_of_the_chance_to_be_drawn(self, power: float, draws: int) -> None:
        """1/(1 − (1 − Q)^N), with Q by popularity^power; an item that nobody met counts as if met once."""
        share = COUNTS.double().clamp(min=1) ** power
        chance = 1 - (1 - share / share.sum()) ** draws
        candidates, g = SharedCandidates(COUNTS, "popularity", power), seeded(draws)
        found = torch.zeros(8, dtype=torch.float64)
        for _ in range(3000):
            sample = candidates.draw(draws, g)
            found[sample.item_C] += 1
            assert sample.log_weight_C is not None
            torch.testing.assert_close(sample.log_weight_C.double(), -chance[sample.item_C].log(), rtol=1e-5, atol=1e-6)
        error = (chance * (1 - chance) / 3000).sqrt()
        assert bool(((found / 3000 - chance).abs() < 4.5 * error + 1e-3).all())

    def test_one_item_that_is_always_drawn(self) -> None:
        sample = SharedCandidates(torch.tensor([3]), "popularity").draw(4, seeded())
        assert sample.item_C.tolist() == [0]
        assert sample.log_weight_C is not None
        assert sample.log_weight_C.tolist() == pytest.approx([0.0], abs=1e-6)

    @pytest.mark.parametrize("distribution", ["uniform", "popularity"])
    def test_the_same_seed_draws_the_same(self, distribution: str) -> None:
        candidates = SharedCandidates(torch.arange(1, 1000), distribution)  # type: ignore[arg-type]
        one, same, other = (candidates.draw(50, seeded(seed)).item_C for seed in (1, 1, 2))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
