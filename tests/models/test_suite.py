"""What every registered model keeps to. A new model is enrolled by its registration: nothing is listed here."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode

from shortlist.data import Interactions
from shortlist.losses import BCE, BPR, SL, Loss, SLAtK
from shortlist.losses import registry as losses
from shortlist.models import Baseline, Factored, Model, TrainableModel, registry
from shortlist.ranking import top_k
from shortlist.training import OptimizerSettings, Training, TrainingSettings

MODELS = sorted(name for name in registry if registry[name].task == "collaborative")
TRAINED = [name for name in MODELS if issubclass(registry[name], TrainableModel)]


def training(model: TrainableModel, train: Interactions, seed: int = 0, epochs: int = 6) -> Training:
    """A few epochs find the tastes; many learn by heart which items a user has not met yet.

    Scores of a network have no bound, and neither has the softmax loss over negatives then: it gets another.
    """
    settings, optimizer = TrainingSettings(epochs=epochs, batch=8), OptimizerSettings(lr=0.02, schedule="constant")
    loss = SL() if isinstance(model, Factored) else BCE()
    return Training(model, loss, train, training=settings, optimizer=optimizer, seed=seed)


def fitted(name: str, train: Interactions, seed: int = 0) -> Model:
    model = registry[name]()
    if isinstance(model, Baseline):
        model.fit(train, seed=seed)
    else:
        assert isinstance(model, TrainableModel)
        training(model, train, seed).run()
    return model


def interactions(pairs: list[tuple[int, int]], n_users: int, n_items: int) -> Interactions:
    users, items = zip(*pairs, strict=True)
    return Interactions.from_pairs(users, items, user_ids=np.arange(n_users), item_ids=np.arange(n_items))


@pytest.fixture(scope="module")
def two_tastes() -> Interactions:
    """Users 0–9 take from items 0–9 and users 10–19 from items 10–19; user i has not yet met item i, nor user 20 any;
    item 20 was met by nobody. Item 5 and item 15 are the favourites."""
    rng = np.random.default_rng(3)
    pairs = {
        (user, item)
        for user in range(20)
        for item in range(10 * (user // 10), 10 * (user // 10) + 10)
        if item != user and (rng.random() < 0.6 or item % 10 == 5)
    }
    return interactions(sorted(pairs), 21, 21)


@pytest.mark.parametrize("name", MODELS)
class TestModel:
    def test_says_what_it_is(self, name: str) -> None:
        assert registry[name].summary
        assert registry[name].formula
        assert all(parameter.help for parameter in registry[name].declared.values())

    def test_score_pairs_agrees_with_score(self, name: str, two_tastes: Interactions) -> None:
        model = fitted(name, two_tastes)
        users, items = np.array([4, 20, 4, 11, 0]), np.array([0, 3, 20, 12, 19])
        whole = model.score(np.arange(21))
        assert model.n_items == 21
        assert whole.shape == (21, 21)
        torch.testing.assert_close(model.score_pairs(users, items), whole[users, items])

    def test_full_ranking_agrees_with_scores(self, name: str, two_tastes: Interactions) -> None:
        model = fitted(name, two_tastes)
        users = np.array([3, 20, 12])
        ranking = top_k(model, users, 5, exclude=two_tastes)
        for row, user in enumerate(users):
            items = [item for item in range(21) if item not in two_tastes.row(user)]
            scores = model.score_pairs(np.full(len(items), user), np.array(items)).tolist()
            best = sorted(zip(scores, items, strict=True), key=lambda pair: -pair[0])[:5]
            np.testing.assert_allclose(ranking.scores_RK[row], [score for score, _ in best], rtol=1e-5, atol=1e-6)
            assert not set(ranking.items_RK[row].tolist()) & set(two_tastes.row(user).tolist())

    def test_fills_the_tensor_it_is_given(self, name: str, two_tastes: Interactions) -> None:
        model = fitted(name, two_tastes)
        room = torch.full((3, 32), torch.nan)[:, :21]  # rows are not adjacent
        users = np.array([7, 7, 2])
        given = model.score(users, out=room)
        assert given.data_ptr() == room.data_ptr()
        torch.testing.assert_close(room, model.score(users))

    def test_gives_new_scores_each_time(self, name: str, two_tastes: Interactions) -> None:
        model = fitted(name, two_tastes)
        first = model.score(np.array([1, 2]))
        kept = first.clone()
        first.fill_(-torch.inf)
        assert torch.equal(model.score(np.array([1, 2])), kept)

    def test_is_the_same_after_saving_and_loading(self, name: str, two_tastes: Interactions, tmp_path: Path) -> None:
        model = fitted(name, two_tastes)
        save_file(model.state(), tmp_path / "model.safetensors")
        again = registry[name](**model.settings())
        again.load_state(load_file(tmp_path / "model.safetensors"))
        everybody = np.arange(21)
        assert again.n_items == 21
        assert torch.equal(again.score(everybody), model.score(everybody))

    def test_a_seed_reproduces(self, name: str, two_tastes: Interactions) -> None:
        first, again = (fitted(name, two_tastes, seed=5).state() for _ in range(2))
        assert first.keys() == again.keys()
        assert all(torch.equal(first[key], again[key]) for key in first)

    def test_the_isolated_get_finite_scores(self, name: str, two_tastes: Interactions) -> None:
        scores = fitted(name, two_tastes).score(np.arange(21))
        assert scores.dtype == torch.float32
        assert torch.isfinite(scores).all()

    def test_the_smallest_sets(self, name: str) -> None:
        for pairs in ([(0, 0)], [(0, 1), (1, 0)]):
            scores = fitted(name, interactions(pairs, 2, 3)).score(np.array([0, 1]))
            assert torch.isfinite(scores).all()

    def test_finds_the_taste_of_a_user(self, name: str, two_tastes: Interactions) -> None:
        scores = fitted(name, two_tastes).score(np.arange(20))
        if name == "popularity":
            assert set(scores[0].topk(2).indices.tolist()) == {5, 15}
            return
        # not met yet: the one of the same taste comes first, but for a user or two in a model that is trained
        found = sum(bool(scores[user, user] > scores[user, (user + 10) % 20]) for user in range(20))
        assert found >= (18 if name in TRAINED else 20)

    def test_does_not_change_what_it_learns_from(self, name: str, two_tastes: Interactions) -> None:
        before = two_tastes.indices.copy(), two_tastes.indptr.copy()
        fitted(name, two_tastes)
        np.testing.assert_array_equal(two_tastes.indices, before[0])
        np.testing.assert_array_equal(two_tastes.indptr, before[1])


@pytest.mark.parametrize("name", TRAINED)
class TestTrained:
    def test_gradients_reach_every_parameter(self, name: str, two_tastes: Interactions) -> None:
        model = registry[name]()
        assert isinstance(model, TrainableModel)
        run = training(model, two_tastes)
        before = {key: value.detach().clone() for key, value in model.named_parameters()}
        run.run()
        after = dict(model.named_parameters())
        assert after.keys() == before.keys()
        assert after
        assert all(not torch.equal(before[key], after[key]) for key in before)

    def test_overfits_a_toy_set(self, name: str, two_tastes: Interactions) -> None:
        against_it = {key: 0.0 for key in ("dropout", "noise", "contrast") if key in registry[name].declared}
        model = registry[name](**against_it)
        assert isinstance(model, TrainableModel)
        training(model, two_tastes, epochs=150).run()
        scores = model.score(np.arange(20))
        met = [set(two_tastes.row(user).tolist()) for user in range(20)]
        found = [len(met[user] & set(scores[user].topk(len(met[user])).indices.tolist())) for user in range(20)]
        assert sum(found) > 0.97 * two_tastes.n_pairs

    @pytest.mark.parametrize("candidates", ["all", "shared", "pairs"])
    @pytest.mark.parametrize("loss", [BPR, SLAtK])
    def test_takes_any_loss_against_anything(
        self, name: str, loss: type[Loss], candidates: str, two_tastes: Interactions
    ) -> None:
        """All parameters move and stay finite; a model without vectors is trained over pairs alone."""
        model = registry[name]()
        if not isinstance(model, Factored) and candidates != "pairs":
            return
        assert isinstance(model, TrainableModel)
        settings = TrainingSettings(epochs=2, batch=8, candidates=candidates, negatives=10)
        chosen = loss(k=5, refresh=1) if loss is SLAtK else loss()
        run = Training(model, chosen, two_tastes, training=settings, optimizer=OptimizerSettings())
        before = {key: value.detach().clone() for key, value in model.named_parameters()}
        run.run()
        for key, value in model.named_parameters():
            assert torch.isfinite(value).all()
            assert not torch.equal(value, before[key])

    @pytest.mark.parametrize("loss", sorted(losses))
    def test_takes_every_loss(self, name: str, loss: str, two_tastes: Interactions) -> None:
        """Against whom the loss is usually trained, with the similarity that it is made for."""
        similarity = {"similarity": losses[loss].similarity} if "similarity" in registry[name].declared else {}
        model = registry[name](dim=8, **similarity)
        assert isinstance(model, TrainableModel)
        k = {"k": 5} if "k" in losses[loss].declared else {}
        settings = TrainingSettings(epochs=1, batch=32)
        run = Training(model, losses[loss](**k), two_tastes, training=settings, optimizer=OptimizerSettings())
        before = {key: value.detach().clone() for key, value in model.named_parameters()}
        run.run()
        assert math.isfinite(run.progress.loss)
        for key, value in model.named_parameters():
            assert torch.isfinite(value).all()
            assert not torch.equal(value, before[key])

    def test_a_larger_catalogue_takes_no_more_than_its_share(self, name: str) -> None:
        """The largest tensor of a step grows with the catalogue, not with its square."""
        largest = []
        for n_items in (400, 800):
            pairs = [(user, (7 * user + 31 * place) % n_items) for user in range(100) for place in range(5)]
            run = training(registry[name](), interactions(sorted(set(pairs)), 100, n_items))  # type: ignore[arg-type]
            with Largest() as seen:
                run.epoch()
            largest.append(seen.elements)
        assert largest[0] >= 400 * 64  # the item vectors at least
        assert largest[1] <= 2.2 * largest[0]


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for part in result if isinstance(result, list | tuple) else [result]:
            if isinstance(part, torch.Tensor):
                self.elements = max(self.elements, part.numel())
        return result
