"""The loop: reproducible, resumable to the bit, and honest about what goes wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from losses.values import registered, values_of
from shortlist.data import Interactions
from shortlist.errors import InputError, ShortlistError
from shortlist.losses import BCE, BPR, SL, Loss, SLAtK, SLAtKDetached, registry
from shortlist.models.mf import MF
from shortlist.scores import ScoreTable
from shortlist.training import Collapsed, Progress, Training
from training.fixtures import hits, interactions, training, two_tastes

TRAIN = two_tastes()
IDENTITY = {"data": "two tastes", "loss": {"tau": 0.2}, "seed": 0}

Make = Callable[[], Training]


def good(model: MF) -> float:
    return hits(model, TRAIN)


def slatk(**settings: Any) -> Loss:
    return SLAtK(**{"k": 5, "refresh": 2, "samples": 20, **settings})


TRAININGS: dict[str, Make] = {
    "sl": lambda: training(SL(), validate=good, validate_every=2),
    "sl-all-bias": lambda: training(SL(denominator="all"), model={"item_bias": True}),
    "slatk-exact": lambda: training(slatk(), validate=good, validate_every=1),
    "slatk-monte_carlo": lambda: training(slatk(threshold="monte_carlo")),
    "slatk-positives_kept": lambda: training(slatk(threshold="positives_kept", weight="detached")),
    "slatk-stratified": lambda: training(slatk(threshold="stratified", positive_weight=0.8)),
    "slatk-pairs": lambda: training(slatk(), candidates="pairs", negatives=8, batch=50),
    "slatk-pairs-sampled": lambda: training(slatk(threshold="stratified"), candidates="pairs", negatives=8, batch=50),
    "slatk-shared": lambda: training(slatk(threshold="stratified"), candidates="shared", negatives=20),
    "bpr": lambda: training(BPR(), batch=50, validate=good, validate_every=1),
    "bce-bias": lambda: training(BCE(), batch=50, negatives=3, model={"item_bias": True}),
    "bce-all-decay": lambda: training(BCE(), candidates="all", optimizer={"weight_decay": 1e-3, "lazy": False}),
    "sl-shared-uniform": lambda: training(SL(), candidates="shared", negatives=15, model={"item_bias": True}),
    "sl-shared-popularity": lambda: training(
        SL(), candidates="shared", negatives=15, distribution="popularity", optimizer={"schedule": "cosine"}
    ),
}


def remains(run: Training) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that a run leaves behind, without its seconds."""
    tensors = {f"model.{name}": tensor.clone() for name, tensor in run.model.state().items()}
    tensors |= {f"optimizer.{name}": tensor.clone() for name, tensor in run.optimizer.state().items()}
    if run.thresholds is not None:
        tensors["thresholds"] = run.thresholds.value_U.clone()
    progress = {key: value for key, value in vars(run.progress).items() if key not in {"seconds", "log"}}
    progress["log"] = [{key: value for key, value in line.items() if key != "seconds"} for line in run.progress.log]
    return tensors, progress


def assert_same(one: Training, other: Training) -> None:
    (tensors, progress), (others, other_progress) = remains(one), remains(other)
    assert progress == other_progress
    assert tensors.keys() == others.keys()
    assert [name for name in tensors if not torch.equal(tensors[name], others[name])] == []


@pytest.mark.parametrize("name", TRAININGS)
class TestReproducible:
    def test_same_seed_same_bits(self, name: str) -> None:
        one, other = TRAININGS[name](), TRAININGS[name]()
        one.run()
        other.run()
        assert_same(one, other)

    def test_stopped_anywhere_and_resumed_gives_the_same_bits(self, name: str, tmp_path: Path) -> None:
        """Stops at random steps and after epochs, again and again, until the end is reached."""
        whole = TRAININGS[name]()
        whole.run()
        path, rng, stops = tmp_path / "checkpoint", random.Random(name), 0
        run = TRAININGS[name]()
        while True:
            alarm = Alarm(rng.randrange(1, 12))
            try:
                run.run(path, IDENTITY, on_epoch=alarm.ring, on_step=alarm.ring)
                break
            except ShortlistError as problem:
                stops += 1
                assert str(problem).startswith("stopped in epoch ")  # noqa: PT017
            run = TRAININGS[name]()
            run.resume(path, IDENTITY)
        assert stops
        assert_same(run, whole)


class Alarm:
    """Interrupts at a call of its choice, as Ctrl-C would."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def ring(self, _: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("loss", [SL(), BPR()])
def test_another_seed_gives_another_model(loss: Loss) -> None:
    one, other = (training(loss, seed=seed) for seed in (0, 1))
    one.run()
    other.run()
    assert not torch.equal(one.model.state()["user"], other.model.state()["user"])


def test_epochs_are_not_all_alike() -> None:
    """What is random in an epoch depends on its number."""
    run, seen = training(SL(), candidates="shared", negatives=10, epochs=2), []
    draw = run.batches.epoch
    run.batches.epoch = lambda g: seen.append(torch.Generator().set_state(g.get_state()).initial_seed()) or draw(g)  # type: ignore[method-assign]
    run.run()
    assert len(set(seen)) == 2


# ------------------------------------------------------------------------------------------------------- what is learnt


@pytest.mark.parametrize("name", registered())
def test_every_loss_learns(name: str) -> None:
    loss = registry[name](**values_of(name).learns_with)
    run = training(loss, epochs=40, validate=good, validate_every=40, patience=100)
    before = good(run.model)
    progress = run.run()
    losses = [line["loss"] for line in progress.log]
    assert losses[-1] < losses[0]
    assert progress.best_value > max(0.9, before)


@pytest.mark.parametrize("candidates", ["all", "shared", "pairs"])
@pytest.mark.parametrize("name", registered())
def test_every_loss_learns_against_everything(name: str, candidates: str) -> None:
    sampled = {"threshold": "stratified"} if "threshold" in registry[name].declared else {}
    run = training(
        registry[name](**values_of(name).learns_with, **sampled), epochs=30, candidates=candidates, negatives=12
    )
    progress = run.run()
    losses = [line["loss"] for line in progress.log]
    assert sum(losses[-5:]) < sum(losses[:5])
    assert good(run.model) > 0.85


def test_thresholds_are_refreshed_when_due() -> None:
    """Batches of users read thresholds off the step's own table; batches of pairs after the epoch."""
    for candidates in ("all", "pairs"):
        run = training(SLAtK(k=5, refresh=3), candidates=candidates, batch=1000, epochs=3, optimizer={"lr": 1e-9})
        for epoch in range(1, 4):
            run.epoch()
            assert bool((run.thresholds.value_U != 0).any()) == (epoch == 3)
        active = run.batches.active_users
        expected = run.model.score(active).topk(5, 1).values[:, -1]
        torch.testing.assert_close(run.thresholds.value_U[active], expected, atol=1e-5, rtol=0)


def test_users_without_items_stay_where_they_started() -> None:
    run = training(BPR(), interactions([[0, 1], [], [1, 2]], 5), batch=1, optimizer={"weight_decay": 0.1})
    before = {name: tensor.clone() for name, tensor in run.model.state().items()}
    run.run()
    moved_U = (run.model.state()["user"] != before["user"]).any(1)
    assert moved_U.tolist() == [True, False, True]


# ------------------------------------------------------------------------------------- the best epoch, and when to stop


def scripted(values: list[float]) -> Callable[[MF], float]:
    """A validation that gives these values one after the other."""
    left = iter(values)
    return lambda model: next(left)


def test_stops_when_nothing_gets_better_and_gives_the_best_model_back() -> None:
    kept: list[Tensor] = []
    run = training(SL(), epochs=100, validate_every=1, patience=3, validate=scripted([0.2, 0.5, 0.4, 0.5, 0.3, 0.9]))
    progress = run.run(on_epoch=lambda progress: kept.append(run.model.state()["user"].clone()))
    assert (progress.epoch, progress.best_epoch, progress.best_value) == (5, 2, 0.5)
    assert torch.equal(run.model.state()["user"], kept[1])
    assert not torch.equal(kept[1], kept[4])
    assert not run.model.training


def test_validates_now_and_then_and_at_the_end() -> None:
    run = training(SL(), epochs=7, validate_every=3, validate=scripted([0.1, 0.2, 0.3]))
    log = run.run().log
    assert [line["epoch"] for line in log if "valid ndcg" in line] == [3, 6, 7]
    assert [line["epoch"] for line in log] == list(range(1, 8))


def test_without_validation_the_last_epoch_is_the_model() -> None:
    run = training(SL(), epochs=4)
    progress = run.run()
    assert (progress.epoch, progress.best_epoch, progress.value) == (4, 0, None)
    assert not run.model.training


def test_scores_are_those_of_the_best_model() -> None:
    """What evaluation keeps for speed is forgotten when the best parameters come back."""
    values = scripted([0.5, 0.4, 0.4, 0.4])

    def validate(model: MF) -> float:
        model.score(np.arange(9))  # after which the vectors are kept
        return values(model)

    run = training(SL(), epochs=4, validate_every=1, validate=validate)
    run.run()
    vectors = run.model.embeddings()
    users = torch.arange(5)
    torch.testing.assert_close(run.model.score(users.numpy()), vectors.score(users).detach())


def test_can_be_saved_when_it_is_over(tmp_path: Path) -> None:
    run = training(SL(), validate=good)
    run.run()
    run.save(tmp_path / "checkpoint", IDENTITY)
    again = training(SL(), validate=good)
    again.resume(tmp_path / "checkpoint", IDENTITY)
    assert_same(run, again)


def test_a_run_that_is_over_is_over_when_resumed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    whole = training(SL(), validate=good, validate_every=1)
    whole.run(path, IDENTITY)
    again = training(SL(), validate=lambda model: pytest.fail("nothing is left to validate"), validate_every=1)
    again.resume(path, IDENTITY)
    again.run(path, IDENTITY, on_step=lambda done: pytest.fail("nothing is left to do"))
    assert_same(again, whole)


# ------------------------------------------------------------------------------------------------------ what goes wrong


class Breaks(SL):
    """Softmax loss that becomes NaN at a given call."""

    at = 0
    calls = 0

    def value(self, table: ScoreTable) -> Tensor:
        self.calls += 1
        return super().value(table) * (math.nan if self.calls == self.at else 1.0)


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    path, loss = tmp_path / "checkpoint", Breaks()
    loss.at = 8  # three steps an epoch
    with pytest.raises(ShortlistError) as caught:
        training(loss).run(path, IDENTITY)
    expected = "the loss became nan in epoch 3; try a larger loss.tau, or an optimizer.lr below 0.05"
    assert str(caught.value) == expected
    whole, again = training(SL()), training(SL())
    again.resume(path, IDENTITY)
    assert again.progress.epoch == 2
    again.run()
    whole.run()
    assert_same(again, whole)


@pytest.mark.parametrize("name", registered())
@pytest.mark.parametrize("batch", [16, 1000])
def test_an_absurd_learning_rate_is_noticed(name: str, batch: int, tmp_path: Path) -> None:
    """Also where an epoch is a single step, whose loss is that of the parameters before it. What is left is finite."""
    path, settings = tmp_path / "checkpoint", {"similarity": "dot"}
    run = training(registry[name](), model=settings, optimizer={"lr": 1e30}, batch=batch, epochs=3)
    with pytest.raises(ShortlistError, match=r"in epoch [12]; try .*an optimizer\.lr below 1e\+30") as caught:
        run.run(path, IDENTITY)
    assert "\n" not in str(caught.value)
    again = training(registry[name](), model=settings, optimizer={"lr": 1e30}, batch=batch, epochs=3)
    again.resume(path, IDENTITY)
    assert all(bool(tensor.isfinite().all()) for tensor in again.model.state().values())


def test_a_collapse_is_noticed_when_it_happens() -> None:
    run = training(SL(), validate_every=1, validate=scripted([0.2, 0.4, 0.21, 0.19]))
    with pytest.raises(Collapsed) as caught:
        run.run()
    assert str(caught.value) == (
        "training collapsed by epoch 4: ndcg fell from 0.4000 to 0.1900; "
        "try a larger loss.tau, or an optimizer.lr below 0.05"
    )
    assert run.progress.epoch == 4


def test_a_validation_that_is_not_a_number_is_noticed() -> None:
    with pytest.raises(ShortlistError):
        training(SL(), validate_every=1, epochs=3, validate=scripted([0.2, math.nan, math.nan])).run()


def test_a_run_that_never_gets_past_popularity_is_noticed() -> None:
    run = training(SLAtK(), validate_every=2, validate=scripted([0.1, 0.12, 0.11]), popularity=0.13)
    with pytest.raises(Collapsed) as caught:
        run.run()
    assert str(caught.value) == (
        "training did not exceed popularity: ndcg 0.1200 at best, popularity has 0.1300; "
        "try a larger loss.tau_w_ratio, or --loss slatk_detached, or an optimizer.lr below 0.05; "
        "training.beat_popularity=false keeps such a run"
    )
    training(SL(), validate_every=2, validate=scripted([0.1, 0.14, 0.11]), popularity=0.13).run()
    content = training(
        SL(), validate_every=2, validate=scripted([0.1, 0.12, 0.11]), popularity=0.13, beat_popularity=False
    )
    assert content.run().best_value == 0.12


def test_a_run_that_was_still_rising_is_told_to_go_on() -> None:
    run = training(SLAtK(), validate_every=2, validate=scripted([0.1, 0.11, 0.12]), popularity=0.13)
    with pytest.raises(Collapsed) as caught:
        run.run()
    assert str(caught.value) == (
        "training did not exceed popularity: ndcg 0.1200 at best, popularity has 0.1300; "
        "the last epoch was the best: try training.epochs above 6; training.beat_popularity=false keeps such a run"
    )


@pytest.mark.parametrize(
    ("loss", "hint"),
    [
        (SLAtK(), "a larger loss.tau_w_ratio, or --loss slatk_detached"),
        (SLAtK(tau_w=1.0), "a larger loss.tau_w, or --loss slatk_detached"),
        (SLAtK(weight="detached"), "a larger loss.tau_w_ratio"),
        (SLAtKDetached(tau_w=1.0), "a larger loss.tau_w"),
    ],
)
def test_collapse_hint_leaves_out_what_is_already_set(loss: Loss, hint: str) -> None:
    run = training(loss, validate_every=1, validate=scripted([0.4, 0.1]))
    with pytest.raises(Collapsed, match=f"; try {hint}, or an optimizer.lr below 0.05$"):
        run.run()


def test_interruption_says_where(tmp_path: Path) -> None:
    with pytest.raises(ShortlistError, match=r"^stopped in epoch 2; resume to continue$"):
        training(SL()).run(tmp_path / "checkpoint", on_step=Alarm(5).ring)


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({**IDENTITY, "seed": 1}, "seed: expected 0, received 1"),
        ({**IDENTITY, "loss": {"tau": 0.1}}, "loss.tau: expected 0.2, received 0.1"),
        ({**IDENTITY, "loss": {"tau": 0.2, "k": 5}}, "loss.k: expected None, received 5"),
        ({"loss": {"tau": 0.2}, "seed": 0}, "data: expected 'two tastes', received None"),
    ],
)
def test_another_identity_is_named(tmp_path: Path, identity: dict[str, Any], words: str) -> None:
    path = tmp_path / "checkpoint"
    training(SL(), epochs=1).run(path, IDENTITY)
    before = path.read_bytes()
    with pytest.raises(InputError) as caught:
        training(SL(), epochs=1).resume(path, identity)
    assert str(caught.value) == f"{path}: made with other data or settings: {words}"
    assert path.read_bytes() == before


def test_something_to_resume_is_there_from_the_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(ShortlistError, match="stopped in epoch 1"):
        training(SL(), checkpoint_every=1000.0).run(path, IDENTITY, on_step=Alarm(1).ring)
    whole, again = training(SL()), training(SL())
    again.resume(path, IDENTITY)
    again.run()
    whole.run()
    assert_same(again, whole)


def test_k_above_the_catalogue_is_said_at_once() -> None:
    with pytest.raises(InputError, match=r"^SLAtK\.k: expected at most 30, the number of items, received 31$"):
        training(SLAtK(k=31))


def test_exact_thresholds_of_a_sample_are_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"^loss\.threshold: expected an estimator for samples, .* received 'exact'$"):
        training(SLAtK(threshold="exact"), candidates="shared")
    assert training(SLAtK(threshold="auto"), candidates="shared").thresholds is not None


def test_progress_is_told(tmp_path: Path) -> None:
    shares: list[float] = []
    epochs: list[int] = []

    def on_epoch(progress: Progress) -> None:
        epochs.append(progress.epoch)

    train: Interactions = two_tastes()
    run = training(SL(), train, epochs=2)
    run.run(on_epoch=on_epoch, on_step=shares.append)
    assert epochs == [1, 2]
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0] * 2)
    assert run.progress.seconds > 0
