"""What the loop tells a loss, when it tells it, and what a loss keeps over a stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from shortlist.errors import ShortlistError
from shortlist.losses import BPR, Loss
from shortlist.models.mf import MF
from shortlist.scores import ScoreTable, Sizes
from shortlist.training import Training
from training.fixtures import training, two_tastes

TRAIN = two_tastes()
ITEM_OF_PAIR = torch.tensor(TRAIN.indices).long()


class Diary(BPR):
    """BPR that writes down what it hears, and what it sees of the model when it hears it."""

    def __post_init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.model: MF | None = None

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        self.entries.append(("initialize", sizes))

    def before_epoch(self, epoch: int) -> None:
        self.entries.append(("epoch", epoch))

    def value(self, table: ScoreTable) -> Tensor:
        self.entries.append(("value", self._seen()))
        return super().value(table)

    def after_step(self, rate: float) -> None:
        self.entries.append(("step", rate, self._seen()))

    def _seen(self) -> bytes:
        assert self.model is not None
        return self.model.state()["user"].numpy().tobytes()


def test_hooks_are_called_at_their_times() -> None:
    loss = Diary()
    run = training(
        loss, TRAIN, epochs=2, batch=100, optimizer={"lr": 0.1, "schedule": "linear", "final_lr_factor": 0.0}
    )
    assert isinstance(run.model, MF)
    loss.model = run.model
    assert loss.entries == [("initialize", Sizes(n_keys=40, n_items=30, n_pairs=39 * 6))]
    run.run()
    per_epoch = ["epoch", *["value", "step"] * 3]  # 234 pairs in steps of 100
    assert [entry[0] for entry in loss.entries] == ["initialize", *per_epoch * 2]
    assert [entry[1] for entry in loss.entries if entry[0] == "epoch"] == [1, 2]
    rates = [entry[1] for entry in loss.entries if entry[0] == "step"]
    assert rates == pytest.approx([0.1 * (1 - done / 6) for done in range(6)])
    seen = [entry[-1] for entry in loss.entries if entry[0] in {"value", "step"}]
    for before, after in zip(seen[::2], seen[1::2], strict=True):
        assert before != after  # a step is over when the loss hears of it
    assert seen[1:-1:2] == seen[2::2]  # and nothing moves from there to the next


class Moving(Loss):
    """Made up: numbers for users and pairs that every visit moves, a scalar that ascends, biases that Adam moves."""

    def initialize(self, sizes: Sizes, generator: torch.Generator) -> None:
        assert sizes.n_keys is not None
        assert sizes.n_items is not None
        assert sizes.n_pairs is not None
        self.bias = nn.Parameter(torch.rand(sizes.n_items, generator=generator))
        for name, size in {"user": sizes.n_keys, "pair": sizes.n_pairs}.items():
            self.register_buffer(name, torch.rand(size, generator=generator, dtype=torch.float64))
        self.register_buffer("scalar", torch.tensor(1.0, requires_grad=True))
        self.register_buffer("count", torch.zeros(2, dtype=torch.long))

    def before_epoch(self, epoch: int) -> None:
        self.get_buffer("count")[0] = epoch

    def value(self, table: ScoreTable) -> Tensor:
        key_R, pair_P, generator = table.context.key_R, table.context.pair_P, table.context.generator
        assert key_R is not None
        assert pair_P is not None
        assert generator is not None
        user_U, pair_N = self.get_buffer("user"), self.get_buffer("pair")
        if self.training:
            user_U[key_R] = 0.9 * user_U[key_R] + torch.rand(1, generator=generator).double()
            pair_N[pair_P] += 0.1 * table.positives().detach().double()
        weight_P = table.per_positive(user_U[key_R]) + pair_N[pair_P].square()
        bias_P = self.bias[ITEM_OF_PAIR[pair_P]]
        term_P = nn.functional.softplus(self.get_buffer("scalar") - table.positives() - bias_P)
        return (weight_P.to(term_P.dtype) * term_P).mean() + self.bias.square().mean()

    def after_step(self, rate: float) -> None:
        scalar = self.get_buffer("scalar")
        assert scalar.grad is not None
        with torch.no_grad():
            scalar += rate * scalar.grad
        scalar.grad = None
        self.get_buffer("count")[1] += 1


@pytest.fixture(params=["all", "shared", "pairs"])
def against(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def moving(against: str) -> Training:
    return training(Moving(), TRAIN, candidates=against, negatives=5, batch=20, epochs=6)


def everything(run: Training) -> dict[str, Tensor]:
    parts = {"model": run.model.state(), "loss": run.loss.state_dict(), "optimizer": run.optimizer.state()}
    return {f"{part}.{name}": tensor.clone() for part, state in parts.items() for name, tensor in state.items()}


def differences(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if not torch.equal(one[name], other[name])]


def test_what_a_loss_keeps_is_part_of_the_checkpoint(against: str, tmp_path: Path) -> None:
    whole = moving(against)
    begun = everything(whole)
    assert {"loss.bias", "loss.user", "loss.pair", "loss.scalar", "loss.count"} <= begun.keys()
    whole.run()
    ended = everything(whole)
    assert {name for name in begun if name.startswith("loss.")} <= set(differences(begun, ended))
    assert ended["loss.count"].tolist() == [6, 6 * whole.batches.steps]

    path, run, steps = tmp_path / "checkpoint", moving(against), whole.batches.steps
    stops = 0
    for calls in (1, steps + 1, 2 * steps - 1, 6 * steps):
        left = iter(range(calls))

        def ring(_: float, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

        try:
            run.run(path, {}, on_step=ring)
            break
        except ShortlistError as problem:
            assert str(problem).startswith("stopped in epoch ")  # noqa: PT017
            stops += 1
        run = moving(against)
        run.resume(path, {})
    assert (stops, run.progress.epoch) == (3, 6)
    assert differences(everything(run), ended) == []


def test_the_optimiser_knows_parameters_of_a_loss_and_not_its_buffers() -> None:
    run = moving("all")
    known = [id(parameter) for parameter in run.optimizer.parameters]
    assert known == [id(parameter) for parameter in (*run.model.parameters(), *run.loss.parameters())]
    assert [name for name, _ in run.loss.named_parameters()] == ["bias"]
