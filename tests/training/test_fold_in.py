"""Users who arrive after training, beside the same users trained in."""

from functools import cache
from importlib import import_module

import numpy as np
import pytest
import torch

from shortlist.data import IntArray, Interactions
from shortlist.errors import InputError, ShortlistError
from shortlist.losses import SL
from shortlist.losses import registry as losses
from shortlist.models import IALS, MF, Factored, registry
from shortlist.models.folded import FoldInUsers
from shortlist.training import OptimizerSettings, Training, TrainingSettings, fold_in

FACTORED = sorted(name for name in registry if issubclass(registry[name], Factored))
HISTORIES = ("pooled", "simgcl", "xsimgcl")
"""Models whose users have nothing of their own."""
LATE = np.arange(0, 400, 10)
K = 10


@pytest.fixture(scope="module")
def train() -> Interactions:
    """400 users, each with two of eight tastes; a taste prefers 25 of 200 items, some more than others."""
    rng = np.random.default_rng(0)
    users, items = [], []
    for user in range(400):
        chance = np.full(200, 0.05)
        for taste in rng.choice(8, 2, replace=False):
            chance[25 * taste : 25 * taste + 25] += np.linspace(2.0, 0.2, 25)
        met = rng.choice(200, 12, replace=False, p=chance / chance.sum())
        users += [user] * 12
        items += met.tolist()
    return Interactions.from_pairs(users, items, user_ids=np.arange(400), item_ids=np.arange(200))


@cache
def fitted(name: str, loss: str, train: Interactions, seed: int = 0) -> Factored:
    """A model whose scores are those that the loss is usually trained with."""
    model = registry[name](dim=16, similarity=losses[loss].similarity)
    assert isinstance(model, Factored)
    training(model, loss, train, seed).run()
    return model


def training(model: Factored, loss: str, train: Interactions, seed: int) -> Training:
    settings = TrainingSettings(epochs=15, batch=50 if losses[loss].sampled is None else 200)  # users, or pairs
    return Training(model, losses[loss](), train, training=settings, optimizer=OptimizerSettings(lr=0.03), seed=seed)


def folded(model: Factored, loss: str, histories: list[IntArray]) -> torch.Tensor:
    return model.score(fold_in(model, losses[loss](), histories))


def lists(score_RI: torch.Tensor, train: Interactions) -> list[set[int]]:
    """The best items of each late user that are not in the user's history."""
    for row, user in enumerate(LATE):
        score_RI[row, train.row(user).tolist()] = -torch.inf
    return [set(best) for best in score_RI.topk(K).indices.tolist()]


def overlap(first: list[set[int]], second: list[set[int]]) -> float:
    return float(np.mean([len(a & b) / K for a, b in zip(first, second, strict=True)]))


@pytest.mark.parametrize(
    ("name", "loss", "nearly"),
    [
        *((name, "sl", 0.85) for name in FACTORED),
        ("mf", "slatk", 0.85),
        ("mf", "bpr", 0.65),
        ("mf", "bce", 0.65),
        ("mf", "mse", 0.75),
        ("lightgcn", "bpr", 0.75),
        ("lightgcn", "bce", 0.75),
        ("lightgcn_pp", "bpr", 0.8),
        ("simplex", "bpr", 0.75),
    ],
)
def test_a_late_user_gets_nearly_the_list_of_a_user_who_was_there(
    name: str, loss: str, nearly: float, train: Interactions
) -> None:
    """With the items held, most places; trained without the users, as many as two seeds have in common."""
    histories = [train.row(user) for user in LATE]
    there = fitted(name, loss, train)
    expected = lists(there.score(LATE), train)
    assert overlap(expected, lists(folded(there, loss, histories), train)) > nearly
    without = fitted(name, loss, train.select(~np.isin(train.users_of_pairs(), LATE)))
    by_chance = overlap(expected, lists(fitted(name, loss, train, seed=1).score(LATE), train))
    assert overlap(expected, lists(folded(without, loss, histories), train)) > by_chance - 0.05


@pytest.mark.parametrize("name", FACTORED)
def test_what_is_made_of_a_history_and_a_vector_of_ones_own_is_the_model(name: str, train: Interactions) -> None:
    """Those who were there, by their histories and their own free vectors, are as the model has them."""
    model = fitted(name, "sl", train)
    users = model.fold_in([train.row(user) for user in LATE])
    own_ND = model.get_parameter("user").detach()[LATE] if users.own else torch.zeros(())
    vectors = model.embeddings()
    torch.testing.assert_close(users.fixed_ND + users.own * own_ND, vectors.user_UD.detach()[LATE])
    assert users.similarity == vectors.similarity
    if users.own:
        assert users.length == pytest.approx(float(model.get_parameter("user").detach().norm(dim=1).mean()))


@pytest.mark.parametrize("name", [name for name in FACTORED if name not in HISTORIES])
def test_users_who_have_met_nothing_do_not_count_for_the_length(name: str, train: Interactions) -> None:
    """They keep the vectors that they start with."""
    few = train.select(train.users_of_pairs() < 40)
    model = fitted(name, "bpr", few)
    user_UD = model.get_parameter("user").detach()
    assert not user_UD[40:].any()
    assert model.fold_in([few.row(3)]).length == pytest.approx(float(user_UD[:40].norm(dim=1).mean()))


@pytest.mark.parametrize("loss", ["bpr", "bce", "sl"])
def test_as_near_as_training_the_user_again(loss: str, train: Interactions) -> None:
    """Draws and starts differ from seed to seed: users who are trained again, items held, get other lists too."""
    there = fitted("mf", loss, train)
    expected = lists(there.score(LATE), train)
    again = MF(dim=16, similarity=losses[loss].similarity)
    second = training(again, loss, train, seed=1)
    again.item.requires_grad_(False).copy_(there.item.detach())
    second.run()
    trained_again = overlap(expected, lists(again.score(LATE), train))
    found = overlap(expected, lists(folded(there, loss, [train.row(user) for user in LATE]), train))
    assert found > trained_again - 0.06


def test_the_order_of_a_history_and_its_company_do_not_matter(train: Interactions) -> None:
    model = fitted("mf", "sl", train)
    alone = fold_in(model, SL(), [np.array([3, 1, 2])])
    twice = fold_in(model, SL(), [np.array([2, 3, 3, 1])])
    torch.testing.assert_close(twice, alone, rtol=0, atol=0)
    among = fold_in(model, SL(), [train.row(5), np.array([1, 2, 3]), *(train.row(user) for user in range(300))])
    torch.testing.assert_close(among[1:2], alone, rtol=1e-3, atol=1e-3)
    assert among.shape == (302, 16)
    assert fold_in(model, SL(), []).shape == (0, 16)


def test_long_histories_beside_it_take_no_draws_from_a_short_one(train: Interactions) -> None:
    """What is drawn differs from call to call, how much does not: as near to itself among others as alone."""
    model, loss = fitted("mf", "bpr", train), losses["bpr"]()
    short = [train.row(user)[:2] for user in LATE]
    long = [np.arange(150) + start for start in range(40)]
    exact, alone, among = (
        model.score(vectors[: len(short)])
        for vectors in (
            fold_in(model, loss, short, TrainingSettings(negatives=100)),
            fold_in(model, loss, short),
            fold_in(model, loss, [*short, *long]),
        )
    )
    error_alone, error_among = ((score - exact).square().mean().sqrt().item() for score in (alone, among))
    assert error_among < 1.3 * error_alone


def test_memory_is_bounded_whatever_is_drawn(train: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer are fitted at once, and get the same."""
    model, histories = fitted("mf", "sl", train), [train.row(user) for user in LATE]
    together = fold_in(model, SL(), histories)
    sizes: list[int] = []
    taken = FoldInUsers.part

    def counted(users: FoldInUsers, rows: slice) -> FoldInUsers:
        part = taken(users, rows)
        sizes.append(len(part.fixed_ND))
        return part

    monkeypatch.setattr(FoldInUsers, "part", counted)
    monkeypatch.setattr(import_module("shortlist.training.fold_in"), "_MAX_NUMBERS", 7 * 200 + 5)  # seven rows
    torch.testing.assert_close(fold_in(model, SL(), histories), together, rtol=1e-3, atol=1e-3)
    assert sizes == [7, 7, 7, 7, 7, 5]
    sizes.clear()
    monkeypatch.setattr(import_module("shortlist.training.fold_in"), "_MAX_NUMBERS", 3 * (12 * 50 + 256) * 16)
    fold_in(model, losses["bpr"](), histories, TrainingSettings(negatives=50))
    assert set(sizes) == {3, 1}


def test_thresholds_are_looked_up_however_seldom_the_run_did(train: Interactions) -> None:
    model = fitted("mf", "slatk", train)
    often, seldom = (
        fold_in(model, losses["slatk"](k=K, tau_w=0.3, refresh=refresh), [train.row(4)]) for refresh in (1, 1000)
    )
    assert torch.equal(often, seldom)


def test_draws_leave_out_what_was_met_as_the_run_did(train: Interactions) -> None:
    """Of 200 items 199 were met: drawn negatives are the one that is left, or nearly all of them are met."""
    model, history = fitted("mf", "bpr", train), [np.arange(199)]
    apart, mixed = (
        model.score(fold_in(model, losses["bpr"](), history, TrainingSettings(exclude=exclude)))[0]
        for exclude in (True, False)
    )
    assert apart[199] < apart.sort().values[5]
    assert apart[199] < mixed[199]


def test_a_model_that_is_no_number_is_said_to_be_damaged(train: Interactions) -> None:
    model = MF(dim=4)
    model.initialize(train, torch.Generator().manual_seed(0))
    model.item.data[3, 1] = torch.nan
    with pytest.raises(ShortlistError, match="fold_in: the loss of the histories is not finite") as content:
        fold_in(model, SL(), [np.array([1, 3])])
    assert "optimizer" not in str(content.value)


def test_who_stands_against_a_history_is_whom_the_run_trained_with(train: Interactions) -> None:
    """One drawn negative weighs as much as the positive, all of them together far more; with weights draws are all."""
    model, history = fitted("mf", "bce", train), [train.row(4)]
    drawn, exact, weighted = (
        fold_in(model, losses["bce"](), history, TrainingSettings(**settings))
        for settings in ({}, {"candidates": "all"}, {"weighted": True})
    )
    assert torch.equal(weighted, exact)
    assert model.score(drawn).mean() > model.score(exact).mean()


def test_the_loss_at_hand_is_left_as_it_is(train: Interactions) -> None:
    loss = losses["sogclr"]()
    fold_in(fitted("mf", "sl", train), loss, [train.row(4)])
    assert not loss.state_dict()


@pytest.mark.parametrize("settings", [{"similarity": "dot"}, {"item_bias": True}, {"similarity": "half_cosine"}])
def test_every_kind_of_score_is_folded_in(settings: dict[str, object], train: Interactions) -> None:
    model = MF(dim=16, **settings)
    optimizer = OptimizerSettings(lr=0.03)
    Training(model, SL(tau=0.2), train, training=TrainingSettings(epochs=10, batch=50), optimizer=optimizer).run()
    history = train.row(7)
    scores = model.score(fold_in(model, SL(tau=0.2), [history]))[0]
    assert torch.isfinite(scores).all()
    others = np.setdiff1d(np.arange(200), history)
    assert scores[history.tolist()].mean() > scores[others].mean()


@pytest.mark.parametrize("loss", sorted(losses))
def test_every_loss_finds_the_history(loss: str, train: Interactions) -> None:
    model, history = fitted("mf", "sl" if losses[loss].similarity != "dot" else "bpr", train), train.row(7)
    scores = folded(model, loss, [history])[0]
    others = np.setdiff1d(np.arange(200), history)
    in_order = scores[history.tolist()].unsqueeze(1) > scores[others]
    assert in_order.float().mean() > 0.75


@pytest.mark.parametrize("loss", ["sl", "bpr", "bce"])
def test_one_who_has_met_everything_gets_finite_scores(loss: str, train: Interactions) -> None:
    assert torch.isfinite(folded(fitted("mf", loss, train), loss, [np.arange(200)])).all()


@pytest.mark.parametrize("name", HISTORIES)
def test_some_users_are_their_histories(name: str, train: Interactions) -> None:
    """Nothing is learned for them."""
    model = fitted(name, "sl", train)
    torch.testing.assert_close(folded(model, "sl", [train.row(8)]), model.score(np.array([8])))


def test_ials_solves_for_a_late_user_as_for_others(train: Interactions) -> None:
    """Where fitting has settled, those who were there are solved for again: they get their own factors."""
    pytest.importorskip("implicit")
    model = IALS(factors=8, iterations=200, regularization=2.0, threads=1)
    model.fit(train)
    folded_in = fold_in(model, None, [train.row(user) for user in LATE])
    torch.testing.assert_close(folded_in, model.user_UD[LATE], rtol=1e-2, atol=1e-2)
    assert overlap(lists(model.score(LATE), train), lists(model.score(folded_in), train)) > 0.95
    with pytest.raises(InputError, match="fold_in: expected histories of items below 200, received an empty one"):
        model.fold_in([np.array([], dtype=np.int64)])


@pytest.mark.parametrize("history", [[], [200], [-1, 3]])
def test_what_cannot_be_folded_in(history: list[int], train: Interactions) -> None:
    model = MF(dim=4)
    model.initialize(train, torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="fold_in: expected histories of items below 200"):
        fold_in(model, SL(), [np.array([1]), np.array(history, dtype=np.int64)])
