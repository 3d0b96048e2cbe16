"""NCF by its definition, and how a model without vectors is trained."""

from pathlib import Path

import numpy as np
import pytest
import torch

from command import Command
from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.losses import BCE, BPR, SL, Loss, SLAtKDetached
from shortlist.models import NCF, base
from shortlist.runs import open_run
from shortlist.tasks import SampledPairs, task_of
from shortlist.training import OptimizerSettings, Training, TrainingSettings
from shortlist.training.settings import batches_for


@pytest.fixture(scope="module")
def train() -> Interactions:
    """Even users take from the first half of 30 items, odd ones from the second."""
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.choice(15, 6, replace=False) + 15 * (user % 2)) for user in range(40)]
    items = np.concatenate(rows)
    return Interactions.from_pairs(np.repeat(np.arange(40), 6), items, user_ids=np.arange(40), item_ids=np.arange(30))


def started(train: Interactions) -> NCF:
    model = NCF(dim=3, hidden=(6, 5, 4), init=0.5)
    model.initialize(train, torch.Generator().manual_seed(0))
    for depth in (0, 1):
        torch.nn.init.normal_(model.biases[depth], generator=torch.Generator().manual_seed(depth))
    return model


def test_scores_are_those_of_the_formula(train: Interactions) -> None:
    model = started(train)
    scores = model.score(np.arange(40))
    for user, item in ((0, 0), (3, 29), (39, 11)):
        x = torch.cat([model.user_input[user], model.item_input[item]])
        for depth in (0, 1):
            x = (model.weights[depth] @ x + model.biases[depth]).clamp(min=0)
        joined = torch.cat([model.user[user] * model.item[item], x])
        torch.testing.assert_close(scores[user, item], (model.head @ joined).detach())


def test_blocks_do_not_show(train: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    model = started(train)
    whole = model.score(np.arange(40))
    monkeypatch.setattr(base, "_BLOCK_USERS", 3)
    monkeypatch.setattr(base, "_BLOCK_ITEMS", 7)
    torch.testing.assert_close(model.score(np.arange(40)), whole)
    assert model.score(np.empty(0, np.int64)).shape == (0, 30)


@pytest.mark.parametrize(("loss", "drawn"), [(BCE(), 1), (SL(), 64)])
def test_how_many_items_stand_against_a_positive(loss: Loss, drawn: int, train: Interactions) -> None:
    """As the docstring says."""
    batches = batches_for(NCF(), loss, task_of(train), TrainingSettings())
    assert isinstance(batches, SampledPairs)
    assert batches.count == drawn


@pytest.mark.parametrize("loss", [BCE(), BPR(), SL(tau=1.0, denominator="all"), SLAtKDetached(k=5, tau=1.0, refresh=2)])
def test_any_loss_trains_it(loss: Loss, train: Interactions) -> None:
    model = NCF(dim=8, hidden=(16, 8))
    settings = TrainingSettings(epochs=8, batch=32)
    Training(model, loss, train, training=settings, optimizer=OptimizerSettings(lr=0.01)).run()
    best_RK = model.score(np.arange(40)).topk(6, 1).indices.numpy()
    assert float((best_RK // 15 == (np.arange(40) % 2)[:, None]).mean()) > 0.9


@pytest.mark.parametrize("candidates", ["all", "shared"])
def test_the_whole_catalogue_is_refused(candidates: str, train: Interactions) -> None:
    with pytest.raises(
        InputError, match=r"training\.candidates: expected 'pairs' for a model that scores pairs of user and item"
    ):
        Training(NCF(), SL(), train, training=TrainingSettings(candidates=candidates), optimizer=OptimizerSettings())


@pytest.mark.parametrize("hidden", [(), (8,), (7, 4), (8, 0)])
def test_widths_that_make_no_network(hidden: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"NCF\.hidden: expected at least two widths"):
        NCF(hidden=hidden)


def test_the_command_trains_it(shortlist: Command, clicks: Path, tmp_path: Path) -> None:
    settings = ["--set", "model.hidden=16,8", "--set", "training.epochs=6", "--set", "optimizer.lr=0.01"]
    options = ["--model", "ncf", *settings, "--out", tmp_path / "run", "--json"]
    assert shortlist("train", clicks, *options).code == 0
    assert open_run(tmp_path / "run").config["loss"] == {"name": "bce"}
    assert len(shortlist("recommend", tmp_path / "run", "--user", "person-07", "--k", 5, "--json").json["items"]) == 5
    answer = shortlist("recommend", tmp_path / "run", "--history", "1001")
    assert answer.code == 2
    assert "NCF: expected a model that supports histories, received one that does not" in answer.err
