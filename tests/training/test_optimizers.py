"""RowAdam is Adam: exactly where every row is touched, closely where rows come up now and then."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from shortlist.errors import InputError
from shortlist.losses import BPR
from shortlist.models import MF
from shortlist.training import Training, TrainingSettings
from shortlist.training.optimizers import OptimizerSettings, RowAdam
from training.fixtures import two_tastes

SETTINGS: list[dict[str, Any]] = [
    {"lr": 0.05},
    {"lr": 0.05, "weight_decay": 0.01},
    {"lr": 0.01, "beta1": 0.0},
    {"lr": 0.01, "beta1": 0.5, "beta2": 0.9, "eps": 1e-4, "weight_decay": 0.1},
]


def torch_adam(parameters: list[nn.Parameter], settings: OptimizerSettings) -> torch.optim.Adam:
    return torch.optim.Adam(
        parameters,
        lr=settings.lr,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
    )


def parameters(dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    """A table that is longer than a chunk, a small matrix, a vector."""
    g = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(*shape, generator=g, dtype=dtype)) for shape in ((2500, 2), (6, 4), (9,))]


def gradients(parameters: list[nn.Parameter], step: int) -> list[Tensor]:
    g = torch.Generator().manual_seed(100 + step)
    return [torch.randn(p.shape, generator=g, dtype=p.dtype) + 0.3 for p in parameters]


def sparse_rows(gradient: Tensor, rows: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(rows.unsqueeze(0), gradient[rows], gradient.shape, check_invariants=True)


Give = Callable[[Tensor], Tensor]


def follow(settings: OptimizerSettings, steps: int, give: Give, dtype: torch.dtype = torch.float64) -> None:
    """Move two copies along the same gradients, given to ours in a form of its own, and compare them at each step."""
    ours, theirs = parameters(dtype), parameters(dtype)
    optimizer, adam = RowAdam(ours, settings), torch_adam(theirs, settings)
    for step in range(steps):
        for mine, other, gradient in zip(ours, theirs, gradients(theirs, step), strict=True):
            mine.grad, other.grad = give(gradient), gradient.clone()
        optimizer.step(settings.lr)
        adam.step()
        tolerance = 1e-10 if dtype == torch.float64 else 1e-5
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)
    assert all(parameter.grad is None for parameter in ours)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_dense_gradients_are_adam(settings: dict[str, Any], dtype: torch.dtype) -> None:
    follow(OptimizerSettings(**settings), 40, lambda gradient: gradient.clone(), dtype)


@pytest.mark.parametrize("settings", SETTINGS)
def test_sparse_gradients_of_some_rows_are_adam_where_all_rows_move(settings: dict[str, Any]) -> None:
    """Rows that a step did not look at have a gradient of 0, and go on moving."""
    ours, theirs = parameters(), parameters()
    made = OptimizerSettings(**settings, lazy=False)
    optimizer, adam = RowAdam(ours, made), torch_adam(theirs, made)
    for step in range(40):
        g = torch.Generator().manual_seed(step)
        for mine, other, gradient in zip(ours, theirs, gradients(theirs, step), strict=True):
            rows = torch.randperm(len(gradient), generator=g)[: max(1, len(gradient) // 3)].sort().values
            mine.grad = sparse_rows(gradient, rows)
            other.grad = mine.grad.to_dense()
        optimizer.step(made.lr)
        adam.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("settings", SETTINGS)
def test_touched_rows_are_adam_where_each_step_touches_all(settings: dict[str, Any]) -> None:
    follow(
        OptimizerSettings(**settings, lazy=True),
        40,
        lambda gradient: sparse_rows(gradient, torch.arange(len(gradient))),
    )


def test_rows_named_twice_are_summed() -> None:
    one, other = nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(3, 2))
    values = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    one.grad = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), values, (3, 2), check_invariants=True)
    other.grad = torch.tensor([[0.0, 0.0], [4.0, 1.0], [0.0, 0.0]])
    for parameter in (one, other):
        RowAdam([parameter], OptimizerSettings()).step(0.1)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shape", [(5, 2), (5,)])
def test_the_penalty_does_not_depend_on_how_the_gradient_comes(shape: tuple[int, ...]) -> None:
    """Rows of zeros in a dense gradient were not looked at, as those that are missing in a sparse one."""
    settings = OptimizerSettings(lr=0.1, weight_decay=0.5, beta1=0.0)
    start = torch.linspace(1, 2, 5).view(5, *[1] * (len(shape) - 1)).expand(shape)
    gradient = torch.ones(shape)
    gradient[[1, 3]] = 0
    ends = []
    for given in (gradient, sparse_rows(gradient, torch.tensor([0, 2, 4]))):
        parameter = nn.Parameter(start.clone())
        optimizer = RowAdam([parameter], settings)
        for _ in range(3):
            parameter.grad = given.clone()
            optimizer.step(0.1)
        ends.append(parameter.detach())
    torch.testing.assert_close(*ends)
    assert torch.equal(ends[0][[1, 3]], start[[1, 3]])


def test_batches_of_another_size_have_the_same_penalty() -> None:
    """Gradients of items are sparse or dense as the size of the batch has it: the length of vectors does not tell."""
    train = two_tastes(users=200, items=60)
    lengths = []
    for batch in (29, 30):  # two items a pair: fewer than the 60 there are, or not
        model = MF(dim=8, similarity="dot")
        Training(
            model,
            BPR(),
            train,
            training=TrainingSettings(epochs=20, batch=batch),
            optimizer=OptimizerSettings(lr=0.02, weight_decay=0.01, schedule="constant"),
        ).run()
        lengths.append(float(model.embeddings().item_ID.detach().norm(dim=1).mean()))
    assert lengths[0] == pytest.approx(lengths[1], rel=0.1)


def test_rows_not_touched_stay_where_they_are() -> None:
    parameter = nn.Parameter(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)))
    optimizer, before = RowAdam([parameter], OptimizerSettings(weight_decay=0.1)), parameter.detach().clone()
    for step in range(5):
        parameter.grad = sparse_rows(torch.ones(50, 3), torch.tensor([3, 7 + step]))
        optimizer.step(0.1)
    moved = (parameter.detach() != before).any(1).nonzero().flatten().tolist()
    assert moved == [3, 7, 8, 9, 10, 11]


def test_a_parameter_without_gradient_stays_where_it_is() -> None:
    first, second = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(3))
    first.grad = torch.ones(2, 2)
    RowAdam([first, second], OptimizerSettings()).step(0.1)
    assert bool((first != 1).all())
    assert bool((second == 1).all())


def visits(gap: int, count: int, pull: Callable[[Tensor, int], Tensor]) -> tuple[Tensor, Tensor]:
    """Positions, at each visit, of a row that comes up every ``gap`` steps: by RowAdam and by dense Adam.

    ``pull`` gives the gradient at a position. Before the first step of each visit both have coasted as they do.
    """
    settings = OptimizerSettings(lr=0.01)
    ours, theirs = (nn.Parameter(torch.full((1, 4), 2.0, dtype=torch.float64)) for _ in range(2))
    optimizer, adam = RowAdam([ours], settings), torch_adam([theirs], settings)
    positions = []
    for step in range(1, gap * count + 1):
        visited = step % gap == 0
        theirs.grad = torch.zeros_like(theirs)
        if visited:
            positions.append((ours.detach().clone(), theirs.detach().clone()))
            theirs.grad = pull(theirs.detach(), step)
            ours.grad = sparse_rows(pull(ours.detach(), step), torch.tensor([0]))
        optimizer.step(settings.lr)
        adam.step()
    return torch.cat([mine for mine, _ in positions]), torch.cat([other for _, other in positions])


def noise(step: int) -> Tensor:
    return torch.randn(1, 4, generator=torch.Generator().manual_seed(step), dtype=torch.float64)


@pytest.mark.parametrize("gap", [2, 5, 20, 100])
def test_a_row_that_comes_up_now_and_then_follows_adam(gap: int) -> None:
    """Within 0.1 % of the way that it goes once bias correction has faded, and within 1 % of the whole way."""
    ours, theirs = visits(gap, 5000 // gap, lambda position, step: 1 + 0.3 * noise(step))
    for start, tolerance in ((2000 // gap, 1e-3), (0, 1e-2)):
        torch.testing.assert_close(ours[-1] - ours[start], theirs[-1] - theirs[start], rtol=tolerance, atol=0)


@pytest.mark.parametrize("gap", [2, 20])
def test_a_row_that_comes_up_now_and_then_finds_the_same_minimum(gap: int) -> None:
    """The gradient of (x − 1)², with noise: both end where it is 0."""
    ours, theirs = visits(gap, 6000 // gap, lambda position, step: position - 1 + 0.1 * noise(step))
    tail = len(ours) // 4
    torch.testing.assert_close(ours[-tail:].mean(0), torch.ones(4, dtype=torch.float64), rtol=0, atol=0.05)
    torch.testing.assert_close(theirs[-tail:].mean(0), torch.ones(4, dtype=torch.float64), rtol=0, atol=0.05)


def test_lazy_adam_would_stay_far_behind() -> None:
    """What the coasting is for: without it a row that comes up every 20 steps goes about an eighth of the way."""
    ours, theirs = visits(20, 250, lambda position, step: 1 + 0.3 * noise(step))
    way = float((theirs[-1] - theirs[100]).abs().mean())
    steps_alone = 150 * 0.01 * (1 - 0.9) / (1 - 0.999) ** 0.5 * ((1 - 0.999**20) / 1.09) ** 0.5
    assert way > 5 * steps_alone
    assert float((ours[-1] - ours[100]).abs().mean()) == pytest.approx(way, rel=0.03)


# ----------------------------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"schedule": "constant"}, [0.1, 0.1, 0.1, 0.1, 0.1]),
        ({"schedule": "linear", "final_lr_factor": 0.0}, [0.1, 0.075, 0.05, 0.025, 0.0]),
        ({"schedule": "linear", "final_lr_factor": 0.5}, [0.1, 0.0875, 0.075, 0.0625, 0.05]),
        ({"schedule": "cosine", "final_lr_factor": 0.0}, [0.1, 0.0853553, 0.05, 0.0146447, 0.0]),
        ({"schedule": "cosine", "final_lr_factor": 0.2}, [0.1, 0.0882843, 0.06, 0.0317157, 0.02]),
        ({"schedule": "constant", "warmup": 0.5}, [0.0, 0.05, 0.1, 0.1, 0.1]),
        ({"warmup": 0.5, "schedule": "linear", "final_lr_factor": 0.0}, [0.0, 0.05, 0.1, 0.05, 0.0]),
    ],
)
def test_schedules(settings: dict[str, Any], expected: list[float]) -> None:
    made = OptimizerSettings(lr=0.1, **settings)
    assert [made.rate(done) for done in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx(expected, abs=1e-6)


def test_a_schedule_never_rises_after_the_warmup() -> None:
    for schedule in ("constant", "linear", "cosine"):
        made = OptimizerSettings(lr=0.1, schedule=schedule, warmup=0.1)  # type: ignore[arg-type]
        rates = [made.rate(done / 1000) for done in range(100, 1001)]
        assert all(later <= rate for rate, later in itertools.pairwise(rates))
        assert all(rate > 0 for rate in rates)


# ---------------------------------------------------------------------------------------------------------------- state


def test_state_round_trip_goes_on_with_the_same_bits() -> None:
    settings = OptimizerSettings(lr=0.03, weight_decay=0.01)

    def steps(optimizer: RowAdam, start: int, end: int) -> None:
        for step in range(start, end):
            for parameter, gradient in zip(optimizer.parameters, gradients(optimizer.parameters, step), strict=True):
                rows = torch.arange(step % 3, len(gradient), 3)
                parameter.grad = sparse_rows(gradient, rows) if step % 4 else gradient
            optimizer.step(settings.lr)

    whole = RowAdam(parameters(torch.float32), settings)
    steps(whole, 0, 20)
    first = RowAdam(parameters(torch.float32), settings)
    steps(first, 0, 9)
    state = {name: tensor.clone() for name, tensor in first.state().items()}
    second = RowAdam([nn.Parameter(p.detach().clone()) for p in first.parameters], settings)
    second.load_state(state)
    steps(second, 9, 20)
    for mine, other in zip(second.parameters, whole.parameters, strict=True):
        assert torch.equal(mine, other)
    for name, tensor in whole.state().items():
        assert torch.equal(second.state()[name], tensor)


def test_a_scalar_parameter_moves_as_in_adam() -> None:
    """Losses may learn single numbers."""
    ours, theirs = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(1.0))
    settings = OptimizerSettings(lr=0.1)
    optimizer, adam = RowAdam([ours], settings), torch_adam([theirs], settings)
    for _ in range(5):
        ours.grad, theirs.grad = torch.tensor(0.3), torch.tensor(0.3)
        optimizer.step(0.1)
        adam.step()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("betas", [(0.9, 0.81), (0.9, 0.5), (0.0, 0.0), (0.5, 0.0)])
def test_betas_for_which_coasting_never_ends_are_refused(betas: tuple[float, float]) -> None:
    """The mean gradient has to fade faster than the root of the mean square: β₁ < √β₂."""
    with pytest.raises(InputError, match=r"^OptimizerSettings\.beta2: expected a number above beta1², "):
        OptimizerSettings(beta1=betas[0], beta2=betas[1])
