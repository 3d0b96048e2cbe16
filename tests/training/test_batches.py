"""Epochs cover the data once, and the three kinds of steps read the same scores."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.losses import SL, CROLoss
from shortlist.models.mf import MF
from shortlist.scores import Factors, ScoreTable, Softplus, Workspace
from shortlist.training.batches import Batches, SampledPairs, SharedSample, Step, WholeCatalogue, score_table
from shortlist.training.settings import TrainingSettings, make_batches
from training.fixtures import interactions, started, two_tastes

ROWS = [[0, 3, 4], [], [1], list(range(7)), [2, 6], [0, 1, 2, 3, 4, 5], [5]]
KINDS = ["all", "shared-uniform", "shared-popularity", "shared-in_batch", "shared-mixed", "pairs", "pairs-popularity"]
MODELS: list[dict[str, Any]] = [
    {"similarity": similarity, "item_bias": bias}
    for similarity, bias in itertools.product(["dot", "cosine", "half_cosine"], [False, True])
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batches_of(kind: str, train: Interactions, size: int = 3) -> Batches:
    candidates, _, distribution = kind.partition("-")
    settings = {"candidates": candidates, "batch": size, "negatives": 4} | (
        {"distribution": distribution} if distribution else {}
    )
    return make_batches(train, TrainingSettings(**settings), None)


def pairs_of(steps: list[Step]) -> list[tuple[int, int]]:
    return [pair for step in steps for pair in zip(step.user_R[step.row_P].tolist(), step.item_P.tolist(), strict=True)]


def all_pairs(train: Interactions) -> list[tuple[int, int]]:
    return list(zip(train.users_of_pairs().tolist(), train.indices.tolist(), strict=True))


def with_bias(model: MF) -> Factors:
    """A model's vectors; a bias starts at 0, so that it gets some values that can be told apart."""
    if model.factors().bias_I is not None:
        with torch.no_grad():
            model.factors().bias_I.copy_(torch.linspace(-1, 1, model.n_items))
    return model.factors()


@pytest.mark.parametrize("kind", KINDS)
class TestEpoch:
    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    def test_covers_every_pair_once(self, kind: str, size: int) -> None:
        train = interactions(ROWS, 7)
        batches = batches_of(kind, train, size)
        for seed in range(3):
            steps = list(batches.epoch(seeded(seed)))
            assert len(steps) == batches.steps
            assert all(len(step.user_R) <= size for step in steps)
            assert sorted(pairs_of(steps)) == all_pairs(train)

    def test_rows_are_users_with_all_their_positives_or_pairs(self, kind: str) -> None:
        batches = batches_of(kind, interactions(ROWS, 7))
        users = torch.cat([step.user_R for step in batches.epoch(seeded())]).tolist()
        if batches.rows_are_users:
            assert sorted(users) == [0, 2, 3, 4, 5, 6]
        else:
            assert len(users) == batches.train.n_pairs

    def test_the_seed_decides_the_order(self, kind: str) -> None:
        batches = batches_of(kind, two_tastes(), 8)
        one, same, other = (list(batches.epoch(seeded(seed))) for seed in (1, 1, 2))
        for step, again in zip(one, same, strict=True):
            for mine, theirs in zip(vars(step).values(), vars(again).values(), strict=True):
                assert (mine is None and theirs is None) or torch.equal(mine, theirs)
        assert pairs_of(one) != pairs_of(other)

    def test_two_epochs_of_one_generator_differ(self, kind: str) -> None:
        batches, g = batches_of(kind, two_tastes(), 8), seeded()
        assert pairs_of(list(batches.epoch(g))) != pairs_of(list(batches.epoch(g)))


def test_pairs_are_set_against_items_not_met() -> None:
    train = interactions(ROWS, 7)
    for step in SampledPairs(train, 5, 30).epoch(seeded()):
        assert step.drawn_RN is not None
        for user, drawn in zip(step.user_R.tolist(), step.drawn_RN.tolist(), strict=True):
            assert len(ROWS[user]) == 7 or not set(drawn) & set(ROWS[user])


# -------------------------------------------------------------------------------------------------------- score tables


def expected_scores(step: Step, factors: Factors, train: Interactions) -> tuple[Tensor, Tensor, Tensor]:
    """Positives' scores, candidates' scores and which of these are positives of the row, straight from the model."""
    score_RI = factors.score_all(step.user_R)
    if step.drawn_RN is not None:
        drawn_RN = score_RI.gather(1, step.drawn_RN)
        weighted = step.log_weight_RN is not None  # then a user who has met everything has no negatives
        none_R = torch.from_numpy(train.user_counts()[step.user_R] == train.n_items) & weighted
        return score_RI[step.row_P, step.item_P], drawn_RN, none_R.unsqueeze(1).expand(drawn_RN.shape)
    column_C = torch.arange(train.n_items) if step.shared_C is None else step.shared_C
    met_RI = torch.zeros_like(score_RI, dtype=torch.bool)
    met_RI[step.row_P, step.item_P] = True
    return score_RI[step.row_P, step.item_P], score_RI[:, column_C], met_RI[:, column_C]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", MODELS)
def test_tables_read_the_scores_of_the_model(kind: str, settings: dict[str, Any]) -> None:
    train = interactions(ROWS, 7)
    factors = with_bias(started(train, **settings))
    for step in batches_of(kind, train).epoch(seeded()):
        table = score_table(step, factors, Workspace())
        pos_P, score_RC, positive_RC = expected_scores(step, factors, train)
        torch.testing.assert_close(table.positives(), pos_P)
        torch.testing.assert_close(table.matrix(), score_RC)
        assert torch.equal(table.is_positive(), positive_RC)
        weight_C = weights_of(step, score_RC)
        terms_RC = (weight_C * (score_RC / 0.5).exp()).masked_fill(positive_RC, 0)
        torch.testing.assert_close(table.logsumexp(0.5, "negatives"), terms_RC.sum(1).log())
        torch.testing.assert_close(table.row_sum(Softplus()), row_sums(score_RC, positive_RC, weight_C))
        expected_population = (~positive_RC).sum(1).float()
        if step.log_weight_C is not None:  # the weights make the sample stand for all items
            expected_population = 7 - torch.bincount(step.row_P, minlength=len(step.user_R)).float()
        if step.log_weight_RN is not None:
            expected_population = torch.tensor([7.0 - len(ROWS[user]) for user in step.user_R.tolist()])
        assert torch.equal(table.n_represented_R, expected_population)


def weights_of(step: Step, score_RC: Tensor) -> Tensor:
    """The weights that a step says its candidates have, 1 where it says nothing."""
    log_weight = step.log_weight_RN if step.log_weight_C is None else step.log_weight_C
    return torch.ones_like(score_RC) if log_weight is None else log_weight.exp().expand(score_RC.shape)


def row_sums(score_RC: Tensor, positive_RC: Tensor, weight_C: Tensor) -> Tensor:
    return (weight_C * torch.nn.functional.softplus(score_RC)).masked_fill(positive_RC, 0).sum(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", MODELS)
def test_gradients_are_those_of_plain_scores(kind: str, settings: dict[str, Any]) -> None:
    """A weighted sum of everything that a loss may ask for, against the same computed from one matrix of scores."""
    train = interactions(ROWS, 7)

    def questions(table: ScoreTable) -> Tensor:
        return table.positives().sum() + 2 * table.row_sum(Softplus()).sum() + table.pair_sum(Softplus()).sum()

    def plainly(step: Step, factors: Factors) -> Tensor:
        pos_P, score_RC, positive_RC = expected_scores(step, factors, train)
        weight_C = weights_of(step, score_RC)
        pair_PC = score_RC[step.row_P] - pos_P.unsqueeze(1)
        weight_PC = weight_C.expand(score_RC.shape)[step.row_P]
        pairs = row_sums(pair_PC, positive_RC[step.row_P], weight_PC)
        return pos_P.sum() + 2 * row_sums(score_RC, positive_RC, weight_C).sum() + pairs.sum()

    for step in batches_of(kind, train).epoch(seeded()):
        grads = []
        for way in ("table", "plain"):
            model = started(train, **settings)
            factors = with_bias(model)
            value = questions(score_table(step, factors, Workspace())) if way == "table" else plainly(step, factors)
            value.backward()
            grads.append([p.grad.to_dense() if p.grad.is_sparse else p.grad for p in model.parameters()])
        for ours, theirs in zip(*grads, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 200])
def test_gradients_touch_only_rows_that_were_looked_up(kind: str, size: int) -> None:
    """Where fewer rows are looked up than there are, the gradient is made of these rows alone."""
    train = two_tastes()  # 40 users, 30 items
    model = started(train)
    step = next(iter(batches_of(kind, train, size).epoch(seeded())))
    score_table(step, model.factors(), Workspace()).logsumexp(0.5).sum().backward()
    looked_up = {*step.item_P.tolist()}
    for part in (step.shared_C, step.drawn_RN):
        looked_up |= set() if part is None else set(part.flatten().tolist())
    for parameter, rows in ((model.user, set(step.user_R.tolist())), (model.item, looked_up)):
        every_item = parameter is model.item and kind == "all"
        touched = parameter.grad.to_dense().any(1).nonzero().flatten().tolist()
        assert set(touched) <= rows or every_item
        if size == 2:
            assert parameter.grad.is_sparse != every_item


@pytest.mark.parametrize("kind", ["pairs", "pairs-popularity"])
def test_users_who_have_met_everything_do_no_harm(kind: str) -> None:
    """With weights nothing stands against them, and no gradient is lost in it."""
    train = interactions([[0, 1, 2], [1], [0]], 3)
    model = started(train)
    step = next(iter(batches_of(kind, train, 10).epoch(seeded())))
    loss = SL()(score_table(step, model.factors(), Workspace()))
    loss.backward()
    assert bool(loss.isfinite())
    assert all(bool(parameter.grad.to_dense().isfinite().all()) for parameter in model.parameters())


# ------------------------------------------------------------------------------------------------------ what is asked


@pytest.mark.parametrize(("distribution", "weighted"), [("uniform", False), ("uniform", True), ("popularity", True)])
def test_pairs_stand_for_the_negatives_of_their_user(distribution: str, weighted: bool) -> None:
    """A row knows one positive of its user, and yet how many negatives the user has: the rank is right on average."""
    train = interactions([[0, 1, 2, 3, 4, 5], [2], [0, 3, 6]], n_items=9)
    model, loss = started(train), CROLoss(kernel="sigmoid", alpha=0.0)
    (whole,) = WholeCatalogue(train, size=3).epoch(seeded())
    exact = loss(score_table(whole, model.factors(), Workspace()))
    mass_I = None if distribution == "uniform" else torch.from_numpy(train.item_counts()).long() + 1
    pairs = SampledPairs(train, size=10, count=3000, mass_I=mass_I, weighted=weighted)
    (step,) = pairs.epoch(seeded())
    table = score_table(step, model.factors(), Workspace())
    assert table.catalogue_negatives_R().tolist() == [{0: 3.0, 1: 8.0, 2: 6.0}[u] for u in step.user_R.tolist()]
    torch.testing.assert_close(loss(table), exact, rtol=0.02, atol=0)


def test_draws_for_pairs_may_include_what_the_user_has_met() -> None:
    train = interactions(ROWS, 7)
    met = {True: 0, False: 0}
    for exclude in met:
        settings = TrainingSettings(candidates="pairs", negatives=20, batch=5, exclude=exclude)
        for step in make_batches(train, settings, None).epoch(seeded()):
            assert step.drawn_RN is not None
            pairs = zip(step.user_R.tolist(), step.drawn_RN.tolist(), strict=True)
            met[exclude] += sum(item in ROWS[user] for user, drawn in pairs if len(ROWS[user]) < 7 for item in drawn)
    assert met[True] == 0
    assert met[False] > 50


@pytest.mark.parametrize("distribution", ["uniform", "popularity", "in_batch", "mixed"])
@pytest.mark.parametrize("weighted", [None, True, False])
@pytest.mark.parametrize("candidates", ["shared", "pairs"])
def test_samples_are_weighted_where_asked_or_needed(distribution: Any, weighted: bool | None, candidates: Any) -> None:
    """Population says what the weights make of the sample: all negatives; without weights it is the sample's own."""
    settings = TrainingSettings(candidates=candidates, distribution=distribution, weighted=weighted, negatives=5)
    train = two_tastes()
    if candidates == "pairs" and distribution in {"in_batch", "mixed"}:
        with pytest.raises(
            InputError, match=r"^training\.distribution: expected 'uniform' or 'popularity' where items"
        ):
            make_batches(train, settings, None)
        return
    step = next(iter(make_batches(train, settings, None).epoch(seeded())))
    has_weights = weighted if weighted is not None else distribution != "uniform"
    assert (step.log_weight_C is not None or step.log_weight_RN is not None) == has_weights
    table = score_table(step, started(train).factors(), Workspace())
    everything = torch.full((table.n_rows,), 24.0)  # 30 items, 6 positives
    assert torch.equal(table.n_represented_R, everything) == has_weights


def test_in_batch_takes_every_item_of_the_step_unless_told_how_many() -> None:
    train = two_tastes()
    for negatives in (None, 7):
        settings = TrainingSettings(candidates="shared", distribution="in_batch", batch=4, negatives=negatives)
        for step in make_batches(train, settings, None).epoch(seeded()):
            assert step.shared_C is not None
            own = set(step.item_P.tolist())
            assert set(step.shared_C.tolist()) <= own
            assert len(step.shared_C) == (len(own) if negatives is None else 7)


def test_a_loss_decides_how_steps_are_cut_unless_told_otherwise() -> None:
    train = two_tastes()
    assert isinstance(make_batches(train, TrainingSettings(), None), WholeCatalogue)
    assert isinstance(make_batches(train, TrainingSettings(), 1), SampledPairs)
    assert isinstance(make_batches(train, TrainingSettings(candidates="all"), 1), WholeCatalogue)
    assert isinstance(make_batches(train, TrainingSettings(candidates="shared"), None), SharedSample)
    pairs = make_batches(train, TrainingSettings(candidates="pairs", negatives=7, batch=5), 3)
    assert isinstance(pairs, SampledPairs)
    assert (pairs.count, pairs.size) == (7, 5)


def test_nothing_to_train_on_is_said() -> None:
    with pytest.raises(InputError, match=r"^training: expected at least one interaction, received none"):
        make_batches(interactions([[], []], 3), TrainingSettings(), None)
