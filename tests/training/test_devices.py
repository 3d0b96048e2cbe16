"""Training, evaluation and everything between them on a device of its own: the one of :mod:`devices`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import devices
from devices import DEVICE, StrayTensor, is_on_device, numbers, on_device
from shortlist.data import Interactions, Split
from shortlist.errors import InputError
from shortlist.losses import Loss, SLAtK
from shortlist.losses import registry as losses
from shortlist.losses.base import mean_over_positives
from shortlist.metrics import evaluate
from shortlist.models import Factored
from shortlist.models import registry as models
from shortlist.negatives import BatchCandidates, PairNegatives, SharedCandidates, popularity_mass
from shortlist.ranking import top_k
from shortlist.report.run import score_analysis
from shortlist.scores import ScoreTable
from shortlist.tasks import Task
from shortlist.thresholds.estimators import ESTIMATORS
from shortlist.training import Training, TrainingSettings, fold_in
from tasks.test_open_to_new_tasks import CASES as TOY_CASES
from tasks.test_open_to_new_tasks import TASKS as TOY_TASKS

USERS, ITEMS, K = 24, 240, 3
"""So many items that the largest of a row are found in two steps, and that few of them are among the hardest."""

MODELS = sorted(name for name in models if models[name].is_trained and models[name].task == "collaborative")

SAMPLES: dict[str, dict[str, Any]] = {
    "shared": {"candidates": "shared", "negatives": 40},
    "shared by popularity": {"candidates": "shared", "negatives": 40, "distribution": "popularity"},
    "in batch": {"candidates": "shared", "distribution": "in_batch"},
    "mixed": {"candidates": "shared", "negatives": 40, "distribution": "mixed"},
    "pairs": {"candidates": "pairs", "negatives": 5, "batch": 64},
    "pairs by popularity": {"candidates": "pairs", "negatives": 5, "batch": 64, "distribution": "popularity"},
}

OF_EACH_KIND = (
    "sl",
    "slatk",
    "advinfonce",
    "sogslatk",
    "bpr",
    "warp",
    "dns",
    "lambdarank",
    "croloss",
    "song_at_k",
    "llpauc",
)


def split() -> Split:
    """Users with 8 items, popular ones more often; one of them is for validation."""
    rng = np.random.default_rng(0)
    chance = np.linspace(2.0, 0.2, ITEMS) / np.linspace(2.0, 0.2, ITEMS).sum()
    items = np.concatenate([rng.choice(ITEMS, 8, replace=False, p=chance) for _ in range(USERS)])
    users, held = np.repeat(np.arange(USERS), 8), np.arange(len(items)) % 8 == 0
    ids: dict[str, Any] = {"user_ids": range(USERS), "item_ids": range(ITEMS)}
    parts = [Interactions.from_pairs(users[chosen], items[chosen], **ids) for chosen in (~held, held)]
    return Split(parts[0], parts[1], None)


DATA = split()


def settings_of(name: str) -> dict[str, Any]:
    """What makes the loss show all that it does in two epochs, and in little time."""
    wanted = {"k": K, "refresh": 1, "every": 1, "iterations": 3}
    declared = losses[name].declared
    return {key: value for key, value in wanted.items() if key in declared}


def training(
    model: str, loss: str, data: Task | Split = DATA, *, options: dict[str, Any] | None = None, **settings: Any
) -> Training:
    sizes = {"ncf": {"dim": 8, "hidden": (8, 4)}}.get(model, {"dim": 8} if "dim" in models[model].declared else {})
    chosen = {"epochs": 2, "batch": 16, "validate_every": 2, "beat_popularity": False, "temperature_epochs": 0}
    return Training(
        models[model](**sizes),  # type: ignore[arg-type]
        losses[loss](**{**settings_of(loss), **(options or {})}),
        data,
        training=TrainingSettings(**{**chosen, **settings}),
        k=K,
    )


def trained(*names: Any, **settings: Any) -> Training:
    run = training(*names, **settings)
    run.run()
    return run


def state(run: Training) -> dict[str, Tensor]:
    """Everything that training has made."""
    parts = {"model": run.model.state_dict(), "loss": run.loss.state_dict(), "optimizer": run.optimizer.state()}
    if run.thresholds is not None:
        parts["thresholds"] = run.thresholds.state()
    return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def agree(here: Any, there: Any) -> None:
    torch.testing.assert_close(numbers(there), here, rtol=1e-5, atol=1e-6, equal_nan=True)


def compared(make: Callable[[], Training]) -> tuple[Training, Training]:
    """The same training here and on the device, where everything has to be, with the same values."""
    here = make()
    with on_device():
        there = make()
    found = state(there)
    assert [name for name, tensor in found.items() if not is_on_device(tensor)] == ["optimizer.step"]
    for name, tensor in state(here).items():
        agree(tensor, found[name])
    for line, other in zip(here.progress.log, there.progress.log, strict=True):
        assert {**line, "seconds": 0} == pytest.approx({**other, "seconds": 0}, rel=1e-5)
    return here, there


@pytest.mark.parametrize("loss", losses)
def test_losses_against_the_whole_catalogue(loss: str) -> None:
    compared(lambda: trained("mf", loss, candidates="all"))


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("loss", OF_EACH_KIND)
def test_losses_against_samples(loss: str, sample: str) -> None:
    compared(lambda: trained("mf", loss, **SAMPLES[sample]))


@pytest.mark.parametrize("loss", losses)
def test_losses_in_your_own_training_loop(loss: str) -> None:
    """Scores as tensors, drawn negatives and lists with labels."""
    random = torch.Generator().manual_seed(0)
    pos_B, neg_BN, lists_BL = (torch.randn(shape, generator=random) for shape in ((6,), (6, 9), (6, 9)))
    label_BL = (torch.rand(6, 9, generator=random) < 0.3).float()
    threshold_B, keys_B = torch.zeros(6), torch.tensor([0, 1, 2, 0, 1, 2])

    def gradients(place: Callable[[Tensor], Tensor]) -> list[Tensor]:
        found = []
        for scores, targets in ((pos_B, neg_BN), (lists_BL, label_BL)):
            made = losses[loss](**settings_of(loss)).to(place(pos_B).device)
            scores, targets = (place(tensor).clone().requires_grad_() for tensor in (scores, targets))
            keys = None if hasattr(made, "means") else place(keys_B)  # it wants to know how many there are
            threshold = place(threshold_B) if made.reads_thresholds else None
            known: dict[str, Any] = {"threshold": threshold, "keys": keys, "n_items": 20}
            value = made(scores, targets.detach() if targets.shape == scores.shape else targets, **known)
            value.backward()
            found += [value.detach(), scores.grad]
        return found

    here = gradients(lambda tensor: tensor)
    with on_device():
        there = gradients(lambda tensor: tensor.to(DEVICE))
    for value, other in zip(here, there, strict=True):
        assert is_on_device(other)
        agree(value, other)


@pytest.mark.parametrize("loss", ["sl", "bpr"])
@pytest.mark.parametrize("model", MODELS)
def test_models(model: str, loss: str) -> None:
    here, there = compared(lambda: trained(model, loss))
    pairs = np.array([3, 1, 3]), np.array([5, 0, 7])
    assert DATA.valid is not None
    ranked = evaluate(here.model, DATA.valid, [DATA.train], [K])
    with on_device():
        assert evaluate(there.model, DATA.valid, [DATA.train], [K]).means() == pytest.approx(ranked.means(), rel=1e-5)
        agree(here.model.score(pairs[0]), there.model.score(pairs[0]))
        agree(here.model.score_pairs(*pairs), there.model.score_pairs(*pairs))
        agree(here.model.item_similarity(pairs[1]), there.model.item_similarity(pairs[1]))
        if isinstance(there.model, Factored):
            before = there.model.vectors()
            agree(here.model.score(pairs[0]), there.model.cpu().score(pairs[0]))  # cached vectors are moved, too
            assert not is_on_device(there.model.vectors().user_UD)
            assert is_on_device(before.user_UD)


def late(run: Training) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """Vectors of users who come after training, and their lists."""
    vector_ND = fold_in(run.model, run.loss, [np.array([3, 1, 2]), np.array([5])], run.settings)
    return vector_ND, top_k(run.model, vector_ND, K).items_RK


@pytest.mark.parametrize(
    ("model", "loss", "sample"),
    [
        *((model, "sl", {}) for model in MODELS if issubclass(models[model], Factored)),
        ("mf", "slatk", SAMPLES["shared"]),
        ("mf", "bpr", SAMPLES["pairs"]),
        ("simplex", "sogslatk", SAMPLES["pairs by popularity"]),
    ],
)
def test_users_who_come_later(model: str, loss: str, sample: dict[str, Any]) -> None:
    vectors_here, lists_here = late(trained(model, loss, **sample))
    with on_device():
        vectors_there, lists_there = late(trained(model, loss, **sample))
    assert is_on_device(vectors_there)
    agree(vectors_here, vectors_there)
    assert (lists_here == lists_there).all()


@pytest.mark.parametrize("candidates", ["all", "shared by popularity", "pairs"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_thresholds(estimator: str, candidates: str) -> None:
    if candidates == "shared by popularity" and estimator == "exact":
        pytest.skip("it needs the whole catalogue")
    sample = {"candidates": "all"} if candidates == "all" else SAMPLES[candidates]
    compared(lambda: trained("mf", "slatk", options={"threshold": estimator, "samples": 60}, **sample))


@pytest.mark.parametrize(("task", "loss"), TOY_CASES)
def test_tasks(task: str, loss: str) -> None:
    make, model, _ = TOY_TASKS[task]
    compared(lambda: trained(model, loss, make()))


@pytest.mark.parametrize(
    ("model", "loss", "options"),
    [
        ("mf", "slatk", {"threshold": "incremental"}),
        ("mf", "sogslatk", {}),
        ("mf", "advinfonce", {}),
        ("mf", "song_at_k", {"gradient": "theo"}),
        ("mf", "llpauc", {}),
        ("mf", "guidedrec", {}),
        ("lightgcn", "sl", {}),
        ("simplex", "bpr", {}),
        ("ncf", "bce", {}),
    ],
)
def test_a_checkpoint_resumes_on_the_device_and_elsewhere(
    model: str, loss: str, options: dict[str, Any], tmp_path: Path
) -> None:
    def make() -> Training:
        return training(model, loss, options=options, epochs=3)

    whole = make()
    whole.run()
    with on_device():
        first = make()
        first.epoch()
        first.save(tmp_path / "checkpoint", {})
        there = make()
        there.resume(tmp_path / "checkpoint", {})
        there.run()
        assert all(is_on_device(tensor) for tensor in there.model.state_dict().values())
    elsewhere = make()
    elsewhere.resume(tmp_path / "checkpoint", {})
    elsewhere.run()
    for name, tensor in state(whole).items():
        agree(tensor, state(there)[name])
        agree(tensor, state(elsewhere)[name])


def test_the_temperature_is_searched_on_the_device() -> None:
    here, there = compared(lambda: trained("lightgcn", "sl", temperature_epochs=1))
    assert here.loss.settings() == there.loss.settings()


def test_what_a_report_looks_at() -> None:
    def looked_at(run: Training) -> list[Tensor]:
        users, model, loss = np.arange(10), run.model, run.loss
        seen = score_analysis.look(model, DATA, users, K, loss, 0)
        estimates = score_analysis.estimates(model, DATA.train, users, K, 100, 0)
        gradients = score_analysis.gradients(model, loss, DATA.train, run.settings, K, 1, 0)
        assert seen.weight_P is not None
        return [seen.threshold_R, seen.pos_P, seen.rank_P, seen.weight_P, seen.neg_M, estimates.exact_R, gradients]

    here = looked_at(trained("mf", "slatk"))
    with on_device():
        there = looked_at(trained("mf", "slatk"))
    for value, other in zip(here, there, strict=True):
        assert not is_on_device(other)
        agree(value, other)


@pytest.mark.parametrize("loss", losses)
def test_a_step_takes_single_numbers_to_the_cpu(loss: str) -> None:
    """Whether the loss is finite, how many positives a row has at most, and the like; no vectors and no scores."""
    with on_device():
        run = training("mf", loss, candidates="all", validate_every=99, epochs=99)
        devices.downloads.clear()
        run.epoch()
    assert set(devices.downloads) == {1}


def test_negatives_are_drawn_on_the_device_of_the_data() -> None:
    train = DATA.train
    count_I, indptr = torch.from_numpy(train.item_counts()), torch.tensor(train.indptr).long()
    user_B, item_P = torch.arange(6), torch.tensor(train.indices).long()[:40]

    def drawn(device: torch.device) -> list[Tensor | None]:
        def random() -> torch.Generator:
            return torch.Generator().manual_seed(0)

        count, met_P = count_I.to(device), torch.tensor(train.indices).to(device)
        found: list[Tensor | None] = []
        for mass_I in (None, popularity_mass(count, 0.75, USERS)):
            negatives = PairNegatives(indptr.to(device), met_P, ITEMS, mass_I)
            item_BN = negatives.draw(user_B.to(device), 5, random())
            found += [item_BN, negatives.log_weights(user_B.to(device), item_BN)]
        for shared in (SharedCandidates(count, weighted=True), SharedCandidates(count, "popularity")):
            sample = shared.draw(20, random())
            found += [sample.item_C, sample.log_weight_C]
        for share in (0.0, 0.5):
            sample = BatchCandidates(count, USERS, share).draw(item_P.to(device), 6, 12, random())
            found += [sample.item_C, sample.log_weight_C]
        return found

    here = drawn(torch.device("cpu"))
    with on_device():
        there = drawn(DEVICE)
    for value, other in zip(here, there, strict=True):
        assert other is not None
        assert is_on_device(other)
        agree(value, other)


class Stray(Loss):
    """Looks up positives by numbers that it makes without a device."""

    def value(self, table: ScoreTable) -> Tensor:
        pos_P = table.positives()
        return mean_over_positives(table, -pos_P[torch.arange(len(pos_P))])


class StrayConstant(Loss):
    """Weighs positives by ones that it makes without a device."""

    def value(self, table: ScoreTable) -> Tensor:
        return mean_over_positives(table, -table.positives() * torch.ones(table.n_positives))


@pytest.mark.parametrize("loss", [Stray, StrayConstant])
def test_a_tensor_made_without_a_device_is_noticed(loss: type[Loss]) -> None:
    def run() -> None:
        Training(models["mf"](dim=8), loss(), DATA, training=TrainingSettings(epochs=1)).epoch()  # type: ignore[arg-type]

    run()
    with on_device(), pytest.raises(StrayTensor, match="a tensor of the CPU"):
        run()


def test_the_device_refuses_what_a_real_one_refuses() -> None:
    with on_device():
        there = torch.zeros(3, 2, device=DEVICE)
        assert is_on_device(there)
        assert there.device == DEVICE
        refused: list[Callable[[], Any]] = [
            lambda: there + torch.ones(3, 2),
            lambda: there @ torch.ones(2, 2),
            lambda: there.index_select(0, torch.tensor([0])),
            lambda: there[torch.tensor([0])],
            lambda: torch.ones(3)[torch.tensor([0], device=DEVICE)],
            lambda: there.index_select(0, torch.tensor(0)),
            lambda: torch.cat([there, torch.ones(3, 2)]),
            lambda: torch.mm(torch.ones(3, 3), torch.ones(3, 2), out=there),
            lambda: torch.ones(3, 2).add_(there),
            lambda: torch.rand(3, generator=torch.Generator(), device=DEVICE),
            lambda: there.numpy(),
        ]
        for call in refused:
            with pytest.raises(StrayTensor):
                call()
        assert (there + torch.tensor(1.0)).tolist() == [[1.0, 1.0]] * 3  # a number may come from anywhere
        there[1:].copy_(torch.ones(2, 2))
        assert torch.equal(there.cpu(), torch.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]))


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused_in_one_line(device: str) -> None:
    settings = TrainingSettings(device=device)
    with pytest.raises(InputError, match=f"^training.device: expected a device of this machine, received '{device}'$"):
        Training(models["mf"](dim=8), SLAtK(k=K), DATA, training=settings)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
def test_auto_is_the_cpu_without_an_accelerator() -> None:
    assert TrainingSettings(device="auto").torch_device() == torch.device("cpu")


def test_auto_takes_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    assert TrainingSettings(device="auto").torch_device() == torch.device("cuda")
