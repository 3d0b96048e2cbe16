"""Draws of negatives: never a positive, each with the right chance, the same for the same seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from shortlist.negatives import BatchCandidates, PairNegatives, Sample, SharedCandidates, popularity_mass


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def csr(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    indptr = torch.tensor([0, *np.cumsum([len(row) for row in rows])])
    return indptr, torch.tensor([item for row in rows for item in row], dtype=torch.int32)


ROWS = [[0, 1, 2], [], [9], [0], [3, 4, 5, 6, 7], list(range(10)), [1, 3, 5, 7, 9], [0, 9], list(range(9)), []]
"""Users at both ends of the catalogue, without items, with all, with all but the last."""


class TestPairNegatives:
    def test_reaches_every_item_not_met_and_no_other(self) -> None:
        negatives = PairNegatives(*csr(ROWS), n_items=10)
        drawn_BN = negatives.draw(torch.arange(10), 400, seeded())
        assert drawn_BN.shape == (10, 400)
        for row, drawn in zip(ROWS, drawn_BN.tolist(), strict=True):
            assert set(drawn) == (set(range(10)) - set(row) or {0})

    @pytest.mark.parametrize("user", [user for user, row in enumerate(ROWS) if len(row) < 9])
    def test_is_uniform(self, user: int) -> None:
        negatives = PairNegatives(*csr(ROWS), n_items=10)
        drawn = negatives.draw(torch.tensor([user]), 20_000, seeded(user)).flatten()
        free = sorted(set(range(10)) - set(ROWS[user]))
        count = torch.bincount(drawn, minlength=10)[free].numpy()
        assert stats.chisquare(count).pvalue > 1e-3

    def test_draws_are_independent(self) -> None:
        """Neighbouring draws of one user, and the first draws of two users."""
        negatives = PairNegatives(*csr([[0], [0]]), n_items=5)
        drawn_BN = negatives.draw(torch.tensor([0, 1]), 20_000, seeded()) - 1
        for one, other in ((drawn_BN[0, :-1], drawn_BN[0, 1:]), (drawn_BN[0], drawn_BN[1])):
            pairs = torch.bincount(4 * one + other, minlength=16).numpy()
            assert stats.chisquare(pairs).pvalue > 1e-3

    def test_a_user_may_come_up_many_times_and_in_any_order(self) -> None:
        negatives = PairNegatives(*csr(ROWS), n_items=10)
        user_B = torch.tensor([6, 2, 6, 0, 6])
        for user, drawn in zip(user_B.tolist(), negatives.draw(user_B, 50, seeded()).tolist(), strict=True):
            assert not set(drawn) & set(ROWS[user])

    def test_random_sets(self) -> None:
        rng = np.random.default_rng(0)
        for n_items in (1, 2, 50, 3000):
            rows = [sorted(rng.choice(n_items, rng.integers(0, n_items + 1), replace=False)) for _ in range(20)]
            negatives = PairNegatives(*csr(rows), n_items=n_items)
            for row, drawn in zip(rows, negatives.draw(torch.arange(20), 60, seeded()).tolist(), strict=True):
                assert len(row) == n_items or not set(drawn) & set(row)
                assert 0 <= min(drawn) <= max(drawn) < n_items

    def test_the_same_seed_draws_the_same(self) -> None:
        negatives = PairNegatives(*csr(ROWS), n_items=10)
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


class TestByPopularity:
    """Draws for a pair in proportion to a power of popularity."""

    def made(self, power: float, exclude: bool = True) -> tuple[PairNegatives, Tensor]:
        count_I = torch.tensor([0, 1, 50, 200, 7, 7, 30, 1000, 2, 3])
        rows = ROWS if exclude else [[] for _ in ROWS]
        mass_I = popularity_mass(count_I, power, len(ROWS))
        return PairNegatives(*csr(rows), n_items=10, mass_I=mass_I), count_I.double().clamp(min=1) ** power

    @pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("exclude", [True, False])
    def test_shares_are_those_of_items_not_met(self, power: float, exclude: bool) -> None:
        negatives, weight_I = self.made(power, exclude)
        drawn_BN = negatives.draw(torch.arange(10), 20_000, seeded(1))
        for user, met in enumerate(ROWS):
            free = [item for item in range(10) if not exclude or item not in met]
            count_I = torch.bincount(drawn_BN[user], minlength=10)
            if not free:
                assert count_I.tolist() == [20_000] + [0] * 9
                continue
            assert int(count_I.sum()) == int(count_I[free].sum())  # nothing that was met
            expected = 20_000 * weight_I[free] / weight_I[free].sum()
            assert len(free) == 1 or stats.chisquare(count_I[free].numpy(), expected.numpy()).pvalue > 1e-4

    @pytest.mark.parametrize("exclude", [True, False])
    def test_weights_are_the_inverse_of_expected_draws(self, exclude: bool) -> None:
        negatives, weight_I = self.made(0.75, exclude)
        drawn_BN = negatives.draw(torch.arange(10), 30, seeded(2))
        log_weight_BN = negatives.log_weights(torch.arange(10), drawn_BN)
        for user, met in enumerate(ROWS):
            free = [item for item in range(10) if not exclude or item not in met]
            total = float(weight_I[free].sum())
            for item, log_weight in zip(drawn_BN[user].tolist(), log_weight_BN[user].tolist(), strict=True):
                expected = np.log(total / (30 * float(weight_I[item]))) if free else -np.inf
                assert log_weight == pytest.approx(expected, abs=1e-5)

    def test_shares_are_kept_among_many_users_and_items(self) -> None:
        """The largest sets leave the fewest bits for masses; nothing rare is lost."""
        count_I = torch.randint(0, 100_000, (500_000,), generator=seeded())
        weight_I = count_I.double().clamp(min=1) ** 0.75
        for n_users in (10, 1_000_000, 50_000_000):
            mass_I = popularity_mass(count_I, 0.75, n_users)
            assert int(mass_I.sum()) * n_users < 2**62
            often_I = weight_I / weight_I.sum() > 1e-7
            error_I = mass_I / mass_I.sum() / (weight_I / weight_I.sum()) - 1
            assert float(error_I[often_I].abs().max()) < 1e-3
            assert int(mass_I.min()) >= 1

    def test_the_same_seed_draws_the_same(self) -> None:
        negatives, _ = self.made(0.75)
        one, same, other = (negatives.draw(torch.arange(10), 30, seeded(seed)) for seed in (1, 1, 2))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


# ----------------------------------------------------------------------------------- sums are right on average

MET = [[0, 1], [1, 2, 3], [1, 4], [0, 5], [1, 2], [6], [1, 6, 7], [3]]
"""Eight users; item 1 is popular, and nobody has met items 8 and 9."""

VALUE_I = torch.tensor([3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0, 5.0, 3.5, 8.0], dtype=torch.float64)
"""What is summed, one number an item."""


def counts() -> Tensor:
    return torch.bincount(csr(MET)[1].long(), minlength=10)


def exact_sums(items: range = range(10)) -> list[float]:
    return [sum(float(VALUE_I[item]) for item in items if item not in met) for met in MET]


def positives_of(users: list[int]) -> Tensor:
    return torch.tensor([item for user in users for item in MET[user]])


def sum_over(sample: Sample, user: int) -> float:
    """The weighted sum over the negatives of a user in a shared sample."""
    assert sample.log_weight_C is not None
    pairs = zip(sample.item_C.tolist(), sample.log_weight_C.double().exp().tolist(), strict=True)
    return sum(weight * float(VALUE_I[item]) for item, weight in pairs if item not in MET[user])


@pytest.mark.parametrize("rows", [2, 3, 5, 7, 8])
def test_in_batch_sums_are_unbiased(rows: int) -> None:
    """The mean over every batch that a user can be in, all of them enumerated, is the sum over items that are met."""
    candidates, exact = BatchCandidates(counts(), n_users=8), exact_sums(range(8))
    for user in range(8):
        others = [other for other in range(8) if other != user]
        batches = [[user, *chosen] for chosen in itertools.combinations(others, rows - 1)]
        sums = [sum_over(candidates.draw(positives_of(batch), rows, None, seeded()), user) for batch in batches]
        assert sum(sums) / len(sums) == pytest.approx(exact[user], rel=1e-5)


SHARED: dict[str, tuple[range, Callable[[list[int], torch.Generator], Sample]]] = {
    "uniform": (range(10), lambda users, g: SharedCandidates(counts(), weighted=True).draw(4, g)),
    "popularity": (range(10), lambda users, g: SharedCandidates(counts(), "popularity").draw(4, g)),
    "in-batch": (range(8), lambda users, g: BatchCandidates(counts(), 8).draw(positives_of(users), 4, None, g)),
    "in-batch, some": (range(8), lambda users, g: BatchCandidates(counts(), 8).draw(positives_of(users), 4, 3, g)),
    "mixed": (range(10), lambda users, g: BatchCandidates(counts(), 8, 0.5).draw(positives_of(users), 4, None, g)),
    "mixed, some": (range(10), lambda users, g: BatchCandidates(counts(), 8, 0.4).draw(positives_of(users), 4, 5, g)),
}
"""For each way to sample: which items its sums stand for, and a draw for a batch of four users."""


@pytest.mark.parametrize("name", SHARED)
def test_sums_over_shared_samples_are_unbiased(name: str) -> None:
    """Mean of 6000 batches against the exact sum, within 4 standard errors, which are below 3 % of it."""
    items, draw = SHARED[name]
    g, exact = seeded(11), exact_sums(items)
    sums: list[list[float]] = [[] for _ in MET]
    for _ in range(6000):
        users = torch.randperm(8, generator=g)[:4].tolist()
        sample = draw(users, g)
        assert sample.item_C.tolist() == sorted(set(sample.item_C.tolist()))
        for user in users:
            sums[user].append(sum_over(sample, user))
    for user in range(8):
        error = float(np.std(sums[user]) / len(sums[user]) ** 0.5)
        assert error < 0.03 * exact[user]
        assert abs(np.mean(sums[user]) - exact[user]) < 4 * error + 1e-5 * exact[user]


@pytest.mark.parametrize("power", [None, 0.75])
@pytest.mark.parametrize("exclude", [True, False])
def test_sums_over_draws_for_a_pair_are_unbiased(power: float | None, exclude: bool) -> None:
    """Mean of 20,000 times 5 draws for each user, within 4 standard errors, which are below 1 %."""
    met = MET if exclude else [[] for _ in MET]
    mass_I = None if power is None else popularity_mass(counts(), power, 8)
    negatives = PairNegatives(*csr(met), n_items=10, mass_I=mass_I)
    for user in range(8):
        user_B = torch.full((20_000,), user)
        drawn_BN = negatives.draw(user_B, 5, seeded(user))
        sum_B = (negatives.log_weights(user_B, drawn_BN).double().exp() * VALUE_I[drawn_BN]).sum(1)
        exact = sum(float(VALUE_I[item]) for item in range(10) if item not in met[user])
        error = float(sum_B.std() / 20_000**0.5)
        assert error < 0.01 * exact
        assert abs(float(sum_B.mean()) - exact) < 4 * error + 1e-5 * exact


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_batch_of_one_user_has_weights_that_are_numbers(share: float) -> None:
    sample = BatchCandidates(counts(), 8, share).draw(torch.tensor([0, 1]), 1, 4, seeded())
    assert sample.log_weight_C is not None
    assert bool(sample.log_weight_C.isfinite().all())
    if not share:
        assert sample.item_C.tolist() == [0, 1]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_batch_candidates_of_one_seed_are_the_same(share: float) -> None:
    candidates = BatchCandidates(torch.arange(1000), 2000, share)
    draws = [candidates.draw(torch.arange(100, 400), 50, 40, seeded(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0].item_C, draws[1].item_C)
    assert not torch.equal(draws[0].item_C, draws[2].item_C)
    assert len(draws[0].item_C) <= 40


def test_chances_of_large_sets_are_precise() -> None:
    """Against whole-number binomials, where logarithms of factorials are large and nearly cancel."""
    count_I = torch.tensor([1, 2, 30, 5000, 900_000, 999_000])
    sample = BatchCandidates(count_I, 1_000_000).draw(torch.arange(6), 1024, None, seeded())
    assert sample.log_weight_C is not None
    for count, log_weight in zip(count_I.tolist(), sample.log_weight_C.tolist(), strict=True):
        none = Fraction(1)
        for taken in range(1023):
            none *= Fraction(999_999 - count - taken, 999_999 - taken)
        assert log_weight == pytest.approx(-np.log(float(1 - none)), rel=1e-4, abs=1e-6)
