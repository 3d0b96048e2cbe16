"""Epochs cover the data once, and the three kinds of batches read the same scores."""

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
from shortlist.negatives import RowSample, Sample
from shortlist.scores import Batch, Embeddings, ScoreTable, Softplus, Workspace
from shortlist.tasks import SampledPairs, SharedSample, UserBatches, WholeCatalogue
from shortlist.tasks.batches import collaborative_batches
from shortlist.training import TrainingSettings
from training.fixtures import interactions, started, two_tastes

ROWS = [[0, 3, 4], [], [1], list(range(7)), [2, 6], [0, 1, 2, 3, 4, 5], [5]]
KINDS = ["all", "shared-uniform", "shared-popularity", "shared-in_batch", "shared-mixed", "pairs", "pairs-popularity"]
MODELS: list[dict[str, Any]] = [
    {"similarity": similarity, "item_bias": bias}
    for similarity, bias in itertools.product(["dot", "cosine", "half_cosine"], [False, True])
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batches_of(kind: str, train: Interactions, size: int = 3) -> UserBatches:
    candidates, _, distribution = kind.partition("-")
    settings = {"candidates": candidates, "batch": size, "negatives": 4} | (
        {"distribution": distribution} if distribution else {}
    )
    return collaborative_batches(train, TrainingSettings(**settings), None)


def pairs_of(batches: list[Batch]) -> list[tuple[int, int]]:
    return [
        pair for batch in batches for pair in zip(batch.rows[batch.row_P].tolist(), batch.item_P.tolist(), strict=True)
    ]


def tensors_of(value: Batch | Sample | RowSample) -> dict[str, Tensor]:
    """All tensors of a batch and of its candidates, by name."""
    found = {name: part for name, part in vars(value).items() if isinstance(part, Tensor)}
    if isinstance(value, Batch) and value.candidates is not None:
        assert isinstance(value.candidates, Sample | RowSample)
        found |= {f"candidates.{name}": part for name, part in tensors_of(value.candidates).items()}
    return found


def table_of(model: MF, batch: Batch) -> ScoreTable:
    return model.encode(batch).table(batch, Workspace())


def all_pairs(train: Interactions) -> list[tuple[int, int]]:
    return list(zip(train.users_of_pairs().tolist(), train.indices.tolist(), strict=True))


def with_bias(model: MF) -> MF:
    """The model with a bias, which starts at 0, of different values."""
    bias_I = model.embeddings().bias_I
    if bias_I is not None:
        with torch.no_grad():
            bias_I.copy_(torch.linspace(-1, 1, model.n_items))
    return model


@pytest.mark.parametrize("kind", KINDS)
class TestEpoch:
    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    def test_covers_every_pair_once(self, kind: str, size: int) -> None:
        train = interactions(ROWS, 7)
        batches = batches_of(kind, train, size)
        for seed in range(3):
            epoch = list(batches.epoch(seeded(seed)))
            assert len(epoch) == batches.steps
            assert all(batch.n_rows == len(batch.rows) <= size for batch in epoch)
            assert sorted(pairs_of(epoch)) == all_pairs(train)

    def test_rows_and_positives_are_numbered_as_the_data_numbers_them(self, kind: str) -> None:
        train = interactions(ROWS, 7)
        users_P = torch.from_numpy(train.users_of_pairs()).long()
        for batch in batches_of(kind, train).epoch(seeded()):
            assert batch.key_R is not None
            assert batch.pair_P is not None
            assert torch.equal(batch.key_R, batch.rows)
            assert torch.equal(users_P[batch.pair_P], batch.rows[batch.row_P])
            assert torch.equal(torch.tensor(train.indices).long()[batch.pair_P], batch.item_P)

    def test_rows_are_users_with_all_their_positives_or_pairs(self, kind: str) -> None:
        batches = batches_of(kind, interactions(ROWS, 7))
        users = torch.cat([batch.rows for batch in batches.epoch(seeded())]).tolist()
        if batches.rows_are_complete:
            assert sorted(users) == [0, 2, 3, 4, 5, 6]
        else:
            assert len(users) == batches.train.n_pairs

    def test_the_seed_decides_the_order(self, kind: str) -> None:
        batches = batches_of(kind, two_tastes(), 8)
        one, same, other = (list(batches.epoch(seeded(seed))) for seed in (1, 1, 2))
        for batch, again in zip(one, same, strict=True):
            mine, theirs = tensors_of(batch), tensors_of(again)
            assert {"rows", "row_P", "item_P", "key_R", "pair_P"} <= mine.keys() == theirs.keys()
            assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        assert pairs_of(one) != pairs_of(other)

    def test_two_epochs_of_one_generator_differ(self, kind: str) -> None:
        batches, g = batches_of(kind, two_tastes(), 8), seeded()
        assert pairs_of(list(batches.epoch(g))) != pairs_of(list(batches.epoch(g)))


def test_pairs_are_set_against_items_not_met() -> None:
    train = interactions(ROWS, 7)
    for batch in SampledPairs(train, 5, 30).epoch(seeded()):
        assert batch.drawn is not None
        for user, drawn in zip(batch.rows.tolist(), batch.drawn.item_RN.tolist(), strict=True):
            assert len(ROWS[user]) == 7 or not set(drawn) & set(ROWS[user])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_complete_rows_are_all_users_with_all_their_positives(kind: str, size: int) -> None:
    """In the order of their indices, ranked among the whole catalogue, whatever the batches of training are."""
    train = interactions(ROWS, 7)
    rows = list(batches_of(kind, train).complete_rows(size))
    assert all(batch.n_rows <= size and batch.candidates is None for batch in rows)
    assert torch.cat([batch.rows for batch in rows]).tolist() == [0, 2, 3, 4, 5, 6]
    assert pairs_of(rows) == all_pairs(train)


# -------------------------------------------------------------------------------------------------------- score tables


def expected_scores(batch: Batch, vectors: Embeddings, train: Interactions) -> tuple[Tensor, Tensor, Tensor]:
    """Positives' scores, candidates' scores and which of these are no negatives, straight from the model."""
    score_RI = vectors.score(batch.rows)
    if batch.drawn is not None:
        drawn_RN = score_RI.gather(1, batch.drawn.item_RN)
        weighted = batch.drawn.log_weight_RN is not None  # then a user who has met everything has no negatives
        none_R = torch.from_numpy(train.user_counts()[batch.rows] == train.n_items) & weighted
        return score_RI[batch.row_P, batch.item_P], drawn_RN, none_R.unsqueeze(1).expand(drawn_RN.shape)
    column_C = batch.candidates.item_C if isinstance(batch.candidates, Sample) else torch.arange(train.n_items)
    met_RI = torch.zeros_like(score_RI, dtype=torch.bool)
    met_RI[batch.row_P, batch.item_P] = True
    return score_RI[batch.row_P, batch.item_P], score_RI[:, column_C], met_RI[:, column_C]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", MODELS)
def test_tables_read_the_scores_of_the_model(kind: str, settings: dict[str, Any]) -> None:
    train = interactions(ROWS, 7)
    model = with_bias(started(train, **settings))
    for batch in batches_of(kind, train).epoch(seeded()):
        table = table_of(model, batch)
        pos_P, score_RC, positive_RC = expected_scores(batch, model.embeddings(), train)
        torch.testing.assert_close(table.positives(), pos_P)
        torch.testing.assert_close(table.matrix(), score_RC)
        assert torch.equal(~table.is_negative(), positive_RC)
        weight_C = weights_of(batch, score_RC)
        terms_RC = (weight_C * (score_RC / 0.5).exp()).masked_fill(positive_RC, 0)
        torch.testing.assert_close(table.logsumexp(0.5, "negatives"), terms_RC.sum(1).log())
        torch.testing.assert_close(table.row_sum(Softplus()), row_sums(score_RC, positive_RC, weight_C))
        expected_population = (~positive_RC).sum(1).float()
        if log_weights_of(batch) is not None:  # the weights make the sample represent all items
            expected_population = torch.tensor([7.0 - len(ROWS[user]) for user in batch.rows.tolist()])
        assert torch.equal(table.n_represented_R, expected_population)


def log_weights_of(batch: Batch) -> Tensor | None:
    """The logarithms of the weights that a batch gives its candidates, if it gives any."""
    if isinstance(batch.candidates, Sample):
        return batch.candidates.log_weight_C
    return None if batch.drawn is None else batch.drawn.log_weight_RN


def weights_of(batch: Batch, score_RC: Tensor) -> Tensor:
    """The weights of a batch's candidates, 1 where it gives none."""
    log_weight = log_weights_of(batch)
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

    def plainly(batch: Batch, vectors: Embeddings) -> Tensor:
        pos_P, score_RC, positive_RC = expected_scores(batch, vectors, train)
        weight_C = weights_of(batch, score_RC)
        pair_PC = score_RC[batch.row_P] - pos_P.unsqueeze(1)
        weight_PC = weight_C.expand(score_RC.shape)[batch.row_P]
        pairs = row_sums(pair_PC, positive_RC[batch.row_P], weight_PC)
        return pos_P.sum() + 2 * row_sums(score_RC, positive_RC, weight_C).sum() + pairs.sum()

    for batch in batches_of(kind, train).epoch(seeded()):
        grads = []
        for way in ("table", "plain"):
            model = with_bias(started(train, **settings))
            value = questions(table_of(model, batch)) if way == "table" else plainly(batch, model.embeddings())
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
    batch = next(iter(batches_of(kind, train, size).epoch(seeded())))
    table_of(model, batch).logsumexp(0.5).sum().backward()
    looked_up = {*batch.item_P.tolist()}
    if isinstance(batch.candidates, Sample):
        looked_up |= set(batch.candidates.item_C.tolist())
    elif batch.drawn is not None:
        looked_up |= set(batch.drawn.item_RN.flatten().tolist())
    for parameter, rows in ((model.user, set(batch.rows.tolist())), (model.item, looked_up)):
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
    batch = next(iter(batches_of(kind, train, 10).epoch(seeded())))
    loss = SL()(table_of(model, batch))
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
    exact = loss(table_of(model, whole))
    mass_I = None if distribution == "uniform" else torch.from_numpy(train.item_counts()).long() + 1
    pairs = SampledPairs(train, size=10, count=3000, mass_I=mass_I, weighted=weighted)
    (batch,) = pairs.epoch(seeded())
    table = table_of(model, batch)
    assert table.catalogue_negatives_R().tolist() == [{0: 3.0, 1: 8.0, 2: 6.0}[u] for u in batch.rows.tolist()]
    torch.testing.assert_close(loss(table), exact, rtol=0.02, atol=0)


def test_draws_for_pairs_may_include_what_the_user_has_met() -> None:
    train = interactions(ROWS, 7)
    met = {True: 0, False: 0}
    for exclude in met:
        settings = TrainingSettings(candidates="pairs", negatives=20, batch=5, exclude=exclude)
        for batch in collaborative_batches(train, settings, None).epoch(seeded()):
            assert batch.drawn is not None
            pairs = zip(batch.rows.tolist(), batch.drawn.item_RN.tolist(), strict=True)
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
        with pytest.raises(InputError, match=r"^training\.distribution: expected 'uniform' or 'popularity' if items"):
            collaborative_batches(train, settings, None)
        return
    batch = next(iter(collaborative_batches(train, settings, None).epoch(seeded())))
    has_weights = weighted if weighted is not None else distribution != "uniform"
    assert (log_weights_of(batch) is not None) == has_weights
    table = table_of(started(train), batch)
    everything = torch.full((table.n_rows,), 24.0)  # 30 items, 6 positives
    assert torch.equal(table.n_represented_R, everything) == has_weights


def test_in_batch_takes_every_item_of_the_step_unless_told_how_many() -> None:
    train = two_tastes()
    for negatives in (None, 7):
        settings = TrainingSettings(candidates="shared", distribution="in_batch", batch=4, negatives=negatives)
        for batch in collaborative_batches(train, settings, None).epoch(seeded()):
            assert isinstance(batch.candidates, Sample)
            own, item_C = set(batch.item_P.tolist()), batch.candidates.item_C
            assert set(item_C.tolist()) <= own
            assert len(item_C) == (len(own) if negatives is None else 7)


def test_the_usual_number_of_negatives_decides_the_kind_of_batches_unless_set() -> None:
    train = two_tastes()
    assert isinstance(collaborative_batches(train, TrainingSettings(), None), WholeCatalogue)
    assert isinstance(collaborative_batches(train, TrainingSettings(), 1), SampledPairs)
    assert isinstance(collaborative_batches(train, TrainingSettings(candidates="all"), 1), WholeCatalogue)
    assert isinstance(collaborative_batches(train, TrainingSettings(candidates="shared"), None), SharedSample)
    pairs = collaborative_batches(train, TrainingSettings(candidates="pairs", negatives=7, batch=5), 3)
    assert isinstance(pairs, SampledPairs)
    assert (pairs.count, pairs.size) == (7, 5)


def test_nothing_to_train_on_is_said() -> None:
    with pytest.raises(InputError, match=r"^training: expected at least one interaction, received none"):
        collaborative_batches(interactions([[], []], 3), TrainingSettings(), None)
