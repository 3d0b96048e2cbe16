"""Estimators that go on from the last threshold: by regression, and by looking at few items between looks at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from scores.tables import random_case
from shortlist.scores import DenseTable, FactoredTable, ScoreTable
from shortlist.thresholds import Previous, Thresholds, exact, incremental, regression, stratified
from shortlist.thresholds.estimators import STEPS, WINDOW, Estimator
from shortlist.thresholds.state import needs_full_scan

FORMS = ["dense", "factored"]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def last(value_R: Tensor, updates: int, near_RM: Tensor | None = None) -> Previous:
    return Previous(value_R, torch.full((len(value_R),), updates, dtype=torch.int32), near_RM)


# --------------------------------------------------------------------------------------------------------- regression


def pinball(beta: float, scores: list[float], weights: list[float], p: float) -> float:
    """The loss of quantile regression."""
    parts = zip(scores, weights, strict=True)
    return sum(w * (p * max(0.0, s - beta) + (1 - p) * max(0.0, beta - s)) for s, w in parts) / sum(weights)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("updates", [0, 1, 7])
@pytest.mark.parametrize("weights", [False, True])
def test_regression_takes_steps_down_the_pinball_loss(form: str, updates: int, weights: bool) -> None:
    """Step by step, with the slope of the loss by numerical differences; rows with no and with nearly all positives."""
    k, n, h = 8, 80, 1e-7
    case = random_case(1, rows=6, items=n, weights=weights)
    drawn = list(range(0, n, 2))
    start = torch.linspace(-1, 1, 6, dtype=torch.float64)
    table = getattr(case, form)().restricted(torch.tensor(drawn))
    answer = regression(table, k, n, 0, seeded(), last(start, updates))
    score, positive = case.scores().tolist(), case.positive_mask().tolist()
    omega = [1.0] * n if case.log_weight_C is None else case.log_weight_C.exp().tolist()
    for row in range(6):
        mine = [score[row][j] for j in drawn]
        mean = sum(mine) / len(mine)
        deviation = math.sqrt(sum((s - mean) ** 2 for s in mine) / len(mine))
        kept = [score[row][j] for j in range(n) if positive[row][j]]
        free = [j for j in drawn if not positive[row][j]]
        total = sum(omega[j] for j in free)
        stands_for = [omega[j] * (n - len(kept)) / total for j in free]
        scores, counts = kept + [score[row][j] for j in free], [1.0] * len(kept) + stands_for
        scores.append(-100.0)  # negatives that no draw stands for are below, wherever they are
        counts.append(n - sum(counts))
        beta = start[row].item() if updates else mean
        for step in range(STEPS):
            slope = (pinball(beta + h, scores, counts, 1 - k / n) - pinball(beta - h, scores, counts, 1 - k / n)) / (
                2 * h
            )
            pull = min(1.0, -slope * n / k)
            beta += deviation * pull / math.sqrt(1 + updates * STEPS + step)
        assert answer[row].item() == pytest.approx(beta, abs=1e-5)


@pytest.mark.parametrize("estimator", [regression, stratified])
def test_draws_that_are_all_positives_say_nothing_of_negatives(estimator: Callable[..., Tensor]) -> None:
    """The threshold is then that of the positives alone, and a number."""
    score_RC = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], dtype=torch.float64)
    positive_RC = torch.tensor([[True, True, True], [True, False, False]])
    table = DenseTable.from_matrix(score_RC, positive_RC)
    table.is_full_catalogue = False  # three of fifty items
    start = torch.tensor([2.0, 2.0], dtype=torch.float64)
    beta = estimator(table, 2, 50, 0, seeded(), last(start, 1))
    assert beta[0].item() == 2.0  # two positives reach it
    assert bool(beta.isfinite().all())


def made_data() -> tuple[FactoredTable, int, int]:
    """Users and items on a sphere, 20 positives a user among those that score high: cosines as in training."""
    g = seeded()
    vector_ND = F.normalize(torch.randn(64 + 4000, 16, generator=g), dim=1)
    chosen_RK = (vector_ND[:64] @ vector_ND[64:].T + 0.1 * torch.randn(64, 4000, generator=g)).topk(20, 1).indices
    row_P = torch.arange(64).repeat_interleave(20)
    return FactoredTable(vector_ND[:64], vector_ND[64:], row_P=row_P, column_P=chosen_RK.flatten()), 20, 4000


def errors_over_time(estimator: Estimator, updates: int, samples: int) -> list[float]:
    """Mean |β̂ − β| after each of some updates of a model that stands still."""
    table, k, n_items = made_data()
    beta, g = exact(table, k, n_items, 0, seeded()), seeded(1)
    kept = Thresholds(64, n_items, k, estimator=estimator, samples=samples, refresh=1)
    errors = []
    for _ in range(updates):
        kept.update(torch.arange(64), table, g)
        errors.append(float((kept.value_U - beta).abs().mean()))
    return errors


def test_regression_settles_where_the_model_stands_still() -> None:
    """As its steps get shorter it averages over samples, and ends nearer than any one sample of the same size."""
    found = errors_over_time("regression", 200, samples=600)
    one_sample = errors_over_time("stratified", 10, samples=600)
    assert sum(found[-10:]) < 0.6 * sum(found[:10])
    assert sum(found[-10:]) < 0.6 * sum(one_sample)


def test_regression_of_everything_settles_at_the_threshold() -> None:
    assert errors_over_time("regression", 100, samples=4000)[-1] < 0.005


# -------------------------------------------------------------------------------------------------------- incremental


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [1, 5, 40])
def test_incremental_is_the_kth_of_positives_and_negatives_near_the_top(form: str, k: int) -> None:
    case = random_case(3, rows=6, items=80)
    near_RM = torch.randint(-1, 80, (6, 12), generator=seeded())
    positive_RC = case.positive_mask()
    near_RM[positive_RC.gather(1, near_RM.clamp(min=0))] = -1
    near_RM = torch.stack([F.pad(row.unique(), (0, 12 - len(row.unique())), value=-1) for row in near_RM])
    beta = incremental(getattr(case, form)(), k, 80, 0, seeded(), last(torch.zeros(6), 3, near_RM))
    for row, (score, positive) in enumerate(zip(case.scores().tolist(), positive_RC.tolist(), strict=True)):
        known = [s for s, p in zip(score, positive, strict=True) if p] + [score[j] for j in near_RM[row] if j >= 0]
        expected = sorted(known, reverse=True)[min(k, len(known)) - 1] if known else -math.inf
        assert beta[row].item() == pytest.approx(expected, abs=1e-12)


def test_incremental_without_a_list_is_exact() -> None:
    case = random_case(3, rows=6, items=80)
    assert torch.equal(incremental(case.dense(), 5, 80, 0, seeded()), exact(case.dense(), 5, 80, 0, seeded()))


def test_looks_at_everything_rarely_once_the_model_is_calm() -> None:
    for refresh in (1, 5, 20, 1000):
        looks = [updates for updates in range(400) if needs_full_scan(updates, refresh)]
        gaps = [later - earlier for earlier, later in itertools.pairwise(looks)]
        assert looks[0] == 0
        assert gaps == sorted(gaps)
        assert all(gap == min(refresh, 1 + at // 2) for at, gap in zip(looks, gaps, strict=False))


class CountedTable(FactoredTable):
    """A table that counts the scores it computes for thresholds."""

    computed = 0

    def score_blocks(self, scale: float = 1.0) -> Iterator[tuple[slice, Tensor]]:
        if self._scores_stamp != self.workspace.stamp:
            CountedTable.computed += self.n_rows * len(self.candidate_CD)
        return super().score_blocks(scale)

    def scores_at(self, column_RM: Tensor) -> Tensor:
        if self._scores_stamp != self.workspace.stamp:
            CountedTable.computed += column_RM.numel()
        return super().scores_at(column_RM)


def drifting(epochs: int, items: int = 3000) -> Iterator[ScoreTable]:
    """Epochs of a model in training: vectors move at random, less and less but never nothing, positives to their users.

    60 users, 15 positives each.
    """
    g = seeded(2)
    user_RD, item_ID = torch.randn(60, 16, generator=g), torch.randn(items, 16, generator=g)
    row_P, column_P = torch.arange(60).repeat_interleave(15), torch.randint(items, (60, 40), generator=g)
    column_P = torch.stack([row.unique()[:15] for row in column_P]).flatten()
    for epoch in range(epochs):
        size = 0.03 + 0.4 / (1 + epoch)
        item_ID += size * torch.randn(items, 16, generator=g)
        user_RD += size * torch.randn(60, 16, generator=g)
        user_RD.index_add_(0, row_P, 0.02 * item_ID[column_P])
        yield CountedTable(F.normalize(user_RD, dim=1), F.normalize(item_ID, dim=1), row_P=row_P, column_P=column_P)


def followed(estimator: Estimator, refresh: int, epochs: int) -> tuple[Tensor, float]:
    """β̂ − β of every epoch and user, and how many scores of items were computed for an epoch of a user."""
    kept = Thresholds(60, 3000, 20, estimator=estimator, refresh=refresh)
    deviations, CountedTable.computed = [], 0
    for epoch, table in enumerate(drifting(epochs)):
        if kept.due(epoch + 1) or epoch == 0:  # without thresholds of its first epoch nothing could be compared
            kept.update(torch.arange(60), table, seeded())
        computed = CountedTable.computed
        deviations.append(kept.value_U - exact(table, 20, 3000, 0, seeded()))
        CountedTable.computed = computed
    return torch.stack(deviations), CountedTable.computed / (60 * epochs)


def test_incremental_follows_a_moving_model_better_than_rarer_exact_ones_at_no_higher_cost() -> None:
    """Against exact thresholds every 5 epochs: a third of the error, with fewer scores computed."""
    stale, stale_cost = followed("exact", refresh=5, epochs=80)
    near, near_cost = followed("incremental", refresh=20, epochs=80)
    assert near_cost < 0.75 * stale_cost
    assert near.abs().mean() < 0.33 * stale.abs().mean()
    assert near.abs().mean(1).max() < stale.abs().mean(1).max()


def test_incremental_is_never_above_the_exact_threshold() -> None:
    near, _ = followed("incremental", refresh=30, epochs=60)
    assert near.max() <= 1e-6
    assert near.min() < -1e-4  # it does err


def test_incremental_is_exact_when_it_looks_at_everything() -> None:
    near, _ = followed("incremental", refresh=1, epochs=10)
    assert near.abs().max() <= 1e-6


@pytest.mark.parametrize("updates", [0, 1, 3, 4, 5, 100])
def test_incremental_of_samples_is_a_moving_mean(updates: int) -> None:
    case, before = random_case(0, rows=5, items=80), torch.linspace(-1, 1, 5, dtype=torch.float64)
    table = case.factored().restricted(torch.arange(0, 80, 3))
    new = stratified(table, 8, 80, 0, seeded())
    answer = incremental(table, 8, 80, 0, seeded(), last(before, updates))
    expected = [b + (n - b) / min(updates + 1, WINDOW) for b, n in zip(before.tolist(), new.tolist(), strict=True)]
    assert answer.tolist() == pytest.approx(expected, abs=1e-12)


def test_incremental_of_samples_has_less_error_than_one_sample() -> None:
    """On a moving model whose epochs show 500 of 3000 items; both look at every epoch's sample once."""
    errors = {}
    for estimator in ("stratified", "incremental"):
        kept, g = Thresholds(60, 3000, 20, estimator=estimator, refresh=1), seeded(4)  # type: ignore[arg-type]
        found = []
        for table in drifting(50):
            kept.update(torch.arange(60), table.restricted(torch.randperm(3000, generator=g)[:500]), g)
            found.append(float((kept.value_U - exact(table, 20, 3000, 0, seeded())).abs().mean()))
        errors[estimator] = sum(found[20:]) / 30
    assert errors["incremental"] < 0.75 * errors["stratified"]


# ----------------------------------------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("estimator", ["regression", "incremental"])
def test_state_is_all_that_the_next_update_depends_on(estimator: Estimator) -> None:
    tables = list(drifting(6))
    one, other = (Thresholds(60, 3000, 20, estimator=estimator, samples=300, refresh=9) for _ in range(2))
    for table in tables[:4]:
        one.update(torch.arange(60), table, seeded())
    other.load_state({name: tensor.clone() for name, tensor in one.state().items()})
    for table in tables[4:]:
        for kept in (one, other):
            kept.update(torch.arange(60), table, seeded())
        assert torch.equal(one.value_U, other.value_U)
    fresh = Thresholds(60, 3000, 20, estimator=estimator, samples=300, refresh=9)
    fresh.update(torch.arange(60), tables[-1], seeded())
    assert not torch.equal(one.value_U, fresh.value_U)


def test_users_who_come_later_get_lists_of_their_own() -> None:
    table = next(drifting(1))
    kept = Thresholds(100, 3000, 20, estimator="incremental")
    kept.update(torch.arange(60), table, seeded())
    kept.update(torch.arange(60), table, seeded())
    kept.update(torch.arange(40, 100), table, seeded())
    assert kept.near_UM is not None
    assert bool((kept.near_UM >= 0).all())
    torch.testing.assert_close(kept.value_U[40:], exact(table, 20, 3000, 0, seeded()), atol=1e-6, rtol=0)
