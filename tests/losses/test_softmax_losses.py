"""What sets the softmax family's members apart, where they meet, and what their papers promise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from scores.tables import Case, random_case
from shortlist.losses import BSL, PSL, SL, Loss, Talos, registry
from shortlist.losses.softmax import LogAtan, LogRelu, LogTanh
from shortlist.scores import DenseTable, FactoredTable, Kernel

FORMS = ["dense", "factored", "factored_apart"]


def value_and_gradients(loss: Loss, case: Case, form: str) -> list[Tensor]:
    value = loss(getattr(case, form)())
    return [value.detach(), *torch.autograd.grad(value, case.vectors())]


# ------------------------------------------------------------------------------------------------- sampling weights

WEIGHTED: list[tuple[str, dict[str, Any]]] = [
    ("sl", {}),
    ("slatk", {}),
    ("bsl", {"tau2": 0.7}),
    ("bsl", {"form": "user", "tau1": 0.5}),
    ("sogclr", {}),
    ("advinfonce", {"negatives": None}),
    ("sogslatk", {}),
    ("sogslatk", {"form": "published"}),
    ("psl", {"tau": 0.5}),
    ("psl", {"tau": 0.5, "activation": "relu"}),
]


@pytest.mark.parametrize(("name", "settings"), WEIGHTED)
@pytest.mark.parametrize("form", FORMS)
def test_a_weight_of_three_is_a_candidate_met_three_times(name: str, settings: dict[str, Any], form: str) -> None:
    """Weights that correct for sampling (logQ) reach every member of the family, on negatives alone."""
    loss, case = registry[name](**settings), random_case(0, rows=6, items=12)
    times_C = torch.randint(1, 4, (12,), generator=torch.Generator().manual_seed(0))
    positive_RC = case.positive_mask()
    case.log_weight_C = times_C.double().log()
    weighted = getattr(case, form)()
    weighted.n_represented_R = (times_C * ~positive_RC).sum(1).double()
    score_RC = case.scores()
    repeated = DenseTable(
        score_RC[case.row_P, case.column_P],
        case.row_P,
        score_RC.repeat_interleave(times_C, 1),
        positive_RC=positive_RC.repeat_interleave(times_C, 1),
    )
    threshold_R = torch.linspace(-1, 1, 6, dtype=torch.float64)
    weighted, repeated = weighted.with_threshold(threshold_R), repeated.with_threshold(threshold_R)
    torch.testing.assert_close(loss(weighted), loss(repeated), rtol=1e-10, atol=1e-12)
    ours, theirs = (torch.autograd.grad(loss(table), case.vectors()) for table in (weighted, repeated))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


# --------------------------------------------------------------------------------------------------------------- BSL


@pytest.mark.parametrize("form", FORMS)
def test_bsl_of_single_positives_is_a_multiple_of_sl(form: str) -> None:
    """(τ₂/τ₁)·SL at τ₂, in value and gradients."""
    case = random_case(1, rows=6, items=12, bias=True)
    for tau1, tau2 in ((0.1, 0.3), (2.0, 0.7)):
        ours = value_and_gradients(BSL(tau1=tau1, tau2=tau2), case, form)
        for one, other in zip(ours, value_and_gradients(SL(tau=tau2), case, form), strict=True):
            torch.testing.assert_close(one, other * (tau2 / tau1), rtol=1e-12, atol=1e-14)


def test_bsl_of_users_becomes_sl_as_tau1_grows() -> None:
    """τ₂·(SL at τ₂ − ln|N|), with an error that falls as 1/τ₁."""
    case = random_case(2, rows=6, items=12)
    table, tau2 = case.dense(), 0.4
    log_count_P = table.per_positive(table.n_represented_R).log()
    limit = tau2 * (SL(tau=tau2)(table) - log_count_P.mean())
    values = [BSL(form="user", tau1=tau1, tau2=tau2)(table) for tau1 in (1e2, 1e3, 1e4)]
    errors = [abs((value - limit).item()) for value in values]
    assert errors[0] < 0.1
    for far, near in itertools.pairwise(errors):
        assert far / near == pytest.approx(10, rel=0.05)


def test_bsl_of_users_pulls_easy_positives_more() -> None:
    """The pull of a user's positives is a softmax over them at τ₁."""
    pos = torch.tensor([1.0, 0.2, -1.0], dtype=torch.float64, requires_grad=True)
    table = DenseTable(pos, torch.zeros(3, dtype=torch.long), torch.zeros(1, 4, dtype=torch.float64))
    (grad,) = torch.autograd.grad(BSL(form="user", tau1=0.5)(table), pos)
    torch.testing.assert_close(grad, -torch.softmax(pos.detach() / 0.5, 0))


# --------------------------------------------------------------------------------------------------------------- PSL

ACTIVATIONS: list[tuple[Any, type[Kernel]]] = [("tanh", LogTanh), ("atan", LogAtan), ("relu", LogRelu)]


class Linear(Kernel):
    """The logarithm of the exponential."""

    def value(self, x: Tensor) -> Tensor:
        return x / 0.3

    def slope(self, x: Tensor) -> Tensor:
        return torch.full_like(x, 1 / 0.3)


@pytest.mark.parametrize("form", FORMS)
def test_psl_with_the_exponential_is_sl(form: str) -> None:
    """The sum of positives takes the same way, so that on half-cosine scores it is SL of twice the temperature."""
    table = getattr(random_case(3, rows=6, items=12), form)()
    sum_P = table.pair_logsumexp(Linear())
    torch.testing.assert_close(sum_P.mean(), SL(tau=0.3)(table), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("activation", "kernel"), ACTIVATIONS)
def test_psl_lies_between_the_rank_and_sl(activation: Any, kernel: type[Kernel]) -> None:
    """Lemma 4.1 on [−1, 1]: 1[d ≥ 0] ≤ σ_a(d) ≤ eᵈ; hence ln rank ≤ ln(1 + e^PSL) and PSL ≤ SL."""
    d = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    level = kernel(tau=1.0).value(d).exp()
    assert bool((level >= (d >= 0).double() - 1e-12).all())
    assert bool((level <= d.exp() + 1e-12).all())
    g = torch.Generator().manual_seed(0)
    for tau in (0.025, 0.1, 0.25):
        half_cosines = torch.rand(400, 13, generator=g, dtype=torch.float64) - 0.5
        for row in half_cosines.split(1):
            pos, neg = row[:, 0], row[:, 1:]
            psl = PSL(tau=tau, activation=activation)(pos, neg).item()
            assert psl <= SL(tau=tau)(pos, neg).item() + 1e-9
            assert math.log(1 + int((neg >= pos).sum())) <= math.log1p(math.exp(psl)) + 1e-9


@pytest.mark.parametrize(("activation", "kernel"), ACTIVATIONS)
def test_slopes_of_log_activations(activation: str, kernel: type[Kernel]) -> None:
    """Against differences; 0 out of reach, and a number where candidates are masked."""
    x, step = torch.linspace(-0.95, 3, 50, dtype=torch.float64), 1e-6
    numerical = (kernel(tau=0.2).value(x + step) - kernel(tau=0.2).value(x - step)) / (2 * step)
    torch.testing.assert_close(kernel(tau=0.2).slope(x), numerical, rtol=1e-6, atol=1e-6)
    masked = torch.tensor([-torch.inf])
    assert kernel(tau=0.2).value(masked).item() == -torch.inf
    assert bool(kernel(tau=0.2).slope(masked).isfinite())
    if activation != "tanh":
        assert kernel(tau=0.2).slope(torch.tensor([-1.7, -1e4])).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", ["atan", "relu"])
def test_rivals_out_of_reach_leave_psl_finite_and_still(activation: Any, dtype: torch.dtype) -> None:
    """Full cosines reach d = −2: arctan's logarithm would be of a number below 0, relu's of 0."""
    for tau in (0.005, 0.1):
        pos = torch.tensor([1.0], dtype=dtype, requires_grad=True)
        neg = torch.tensor([[-1.0, -0.9, -1.0]], dtype=dtype, requires_grad=True)
        value = PSL(tau=tau, activation=activation)(pos, neg)
        assert value.item() == pytest.approx(math.log(3) + math.log(1e-6) / tau, rel=1e-5)
        grads = torch.autograd.grad(value, [pos, neg])
        assert all(bool((grad == 0).all()) for grad in grads)
        beside = torch.tensor([[-1.0, 0.5, -1.0]], dtype=dtype)  # one rival in reach outweighs them
        alone = PSL(tau=tau, activation=activation)(pos, beside[:, 1:2])
        torch.testing.assert_close(PSL(tau=tau, activation=activation)(pos, beside), alone)


def test_psl_on_half_cosines_in_blocks() -> None:
    """Blocks of two rows and parts of one positive give what one piece gives."""
    case = random_case(4, rows=7, items=30)
    whole = value_and_gradients(PSL(), case, "factored")
    case.max_elements = 60
    assert isinstance(case.factored(), FactoredTable)
    for ours, theirs in zip(value_and_gradients(PSL(), case, "factored"), whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["slatk", "slatk_detached", "talos", "sogslatk"])
def test_threshold_is_constant_to_the_gradient(name: str) -> None:
    """A threshold that carries a gradient gives the gradient of one that does not, and receives none."""
    generator = torch.Generator().manual_seed(0)
    pos, neg = (torch.randn(*shape, generator=generator).double().requires_grad_() for shape in ((4,), (4, 6)))
    grads = []
    for beta in (neg.detach().amax(1), neg.amax(1)):
        grads.append(torch.autograd.grad(registry[name](k=1)(pos, neg, threshold=beta), [pos, neg]))
    for constant, attached in zip(*grads, strict=True):
        torch.testing.assert_close(attached, constant, rtol=0, atol=0)


def test_talos_with_thresholds_far_above_is_sl() -> None:
    generator = torch.Generator().manual_seed(0)
    pos, neg = (torch.randn(*shape, generator=generator).double() for shape in ((4,), (4, 6)))
    beta = torch.full((4,), 25.0).double()
    for denominator in ("negatives", "all"):
        ours = Talos(tau=0.5, denominator=denominator)(pos, neg, threshold=beta)  # type: ignore[arg-type]
        torch.testing.assert_close(ours, SL(tau=0.5, denominator=denominator)(pos, neg), rtol=1e-8, atol=1e-8)  # type: ignore[arg-type]


def test_talos_in_single_precision_has_no_overflow_at_its_sharpest() -> None:
    pos, neg = torch.tensor([0.9, -0.9]), torch.tensor([[1.0, -1.0], [1.0, -1.0]])
    beta = torch.tensor([-1.0, 1.0])
    expected = Talos(tau=0.01)(pos.double(), neg.double(), threshold=beta.double())
    torch.testing.assert_close(Talos(tau=0.01)(pos, neg, threshold=beta).double(), expected, rtol=1e-4, atol=0)
