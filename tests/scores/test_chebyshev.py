"""Sums over pairs from moments are those over the pairs, gradients included; else the pairs are summed."""

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from scores.tables import Case, random_case
from shortlist.losses.recall import Scaled
from shortlist.losses.softmax import LogActivation, LogAtan, LogRelu, LogTanh
from shortlist.scores import FactoredTable, Hinge, Kernel, ScoreTable, Sigmoid, Softplus
from shortlist.scores.chebyshev import Expansion

BOUND = 0.5
KERNELS = [
    LogTanh(0.05),
    LogTanh(0.3),
    LogAtan(0.1),
    LogRelu(0.1),
    Softplus(),
    Sigmoid(3.0),
    Scaled(Softplus(), 10.0),
    Scaled(Sigmoid(), 10.0),
]


def ask(table: ScoreTable, kernel: Kernel) -> Tensor:
    """The sums of a kernel, or the logarithms of sums of a log-kernel."""
    return table.pair_logsumexp(kernel) if isinstance(kernel, LogActivation) else table.pair_sum(kernel)


def by_moments(table: FactoredTable, kernel: Kernel) -> bool:
    """Whether the table answers from moments."""
    return table._by_moments(kernel, isinstance(kernel, LogActivation)) is not None


def bounded(seed: int, rows: int = 6, items: int = 60, *, weights: bool = False, max_elements: int = 1 << 20) -> Case:
    """A case of single floats whose scores lie well within the bound, so that no sum is far below what it could be."""
    case = random_case(seed, rows, items, weights=weights, dtype=torch.float32, max_elements=max_elements)
    unit_RD, unit_CD = (F.normalize(vector.detach(), dim=1) for vector in (case.row_RD, case.item_CD))
    return dataclasses.replace(case, row_RD=unit_RD.requires_grad_(), item_CD=unit_CD.mul(0.6 * BOUND).requires_grad_())


def in_double(case: Case) -> Case:
    """The same numbers in double precision, as leaves of their own."""
    row_RD, item_CD = (vector.detach().double().requires_grad_() for vector in (case.row_RD, case.item_CD))
    weight_C = None if case.log_weight_C is None else case.log_weight_C.double()
    return dataclasses.replace(case, row_RD=row_RD, item_CD=item_CD, log_weight_C=weight_C)


def value_and_gradients(sum_P: Tensor, case: Case) -> list[Tensor]:
    """The sums, and the gradient of a mixture of them in which no two weigh the same; rows without negatives aside."""
    weight_P = torch.linspace(0.5, 1.5, len(sum_P), dtype=sum_P.dtype)
    total = torch.where(sum_P.isfinite(), sum_P * weight_P, 0).sum()
    return [sum_P.detach(), *torch.autograd.grad(total, [case.row_RD, case.item_CD])]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("form", [{}, {"weights": True}, {"max_elements": 130}, {"items": 1}])
def test_sums_and_gradients_are_those_over_the_pairs(kernel: Kernel, form: dict[str, int]) -> None:
    for seed in range(3):
        case = bounded(seed, **form)
        if form.get("items") == 1:  # the one item is every row's positive: nothing is left to sum over
            case = dataclasses.replace(
                case, row_P=torch.arange(6).repeat(2), column_P=torch.zeros(12, dtype=torch.long)
            )
        assert by_moments(case.factored(BOUND), kernel)
        found = value_and_gradients(ask(case.factored(BOUND), kernel), case)
        right = in_double(case)
        expected = value_and_gradients(ask(right.dense(), kernel), right)
        for ours, theirs in zip(found, expected, strict=True):
            largest = max(1.0, float(theirs[theirs.isfinite()].abs().amax())) if theirs.isfinite().any() else 1.0
            torch.testing.assert_close(ours.double(), theirs, atol=1e-5 * largest, rtol=0)


@given(
    st.sampled_from([LogTanh, LogAtan, LogRelu, Sigmoid]),
    st.floats(0.05, 0.2),
    st.floats(-BOUND, BOUND),
    st.floats(-BOUND, BOUND),
)
def test_the_terms_add_up_to_the_kernel(kind: Callable[[float], Kernel], tau: float, x: float, y: float) -> None:
    kernel = kind(1 / tau) if kind is Sigmoid else kind(tau)
    by_logarithm = isinstance(kernel, LogActivation)
    expansion = Expansion.of(kernel, BOUND, by_logarithm)
    assert expansion is not None
    assert kernel.tilt is not None
    offset_1 = torch.tensor([y], dtype=torch.float64)
    order_M = torch.arange(expansion.terms, dtype=torch.float64)
    term_M = torch.cos(order_M * torch.tensor(x / BOUND, dtype=torch.float64).acos())
    term_M = torch.where(order_M % 4 < 2, term_M, -term_M)
    difference_1 = torch.tensor([x - y], dtype=torch.float64)
    value_1, slope_1 = kernel.value(difference_1), kernel.slope(difference_1)
    if by_logarithm:
        value_1 = value_1.exp()
        slope_1 = slope_1 * value_1
    left = math.exp(-kernel.tilt * (x - y))
    largest = float(expansion.largest(offset_1))
    assert float(expansion.coefficients(offset_1) @ term_M) == pytest.approx(float(value_1) * left, abs=1e-6 * largest)
    steep = float(expansion.coefficients(offset_1, slope=True) @ term_M)
    assert steep == pytest.approx(float(slope_1) * left, abs=1e-5 * largest / tau)


def test_a_sum_far_below_what_it_could_be_is_taken_over_the_pairs() -> None:
    """A positive at the very top and every negative at the very bottom: the kernel there is 10⁻¹⁵ of its largest."""
    kernel = LogTanh(0.0125)
    row_RD = torch.tensor([[1.0, 0.0]])
    item_CD = torch.tensor([[0.5, 0.0], [0.5, 0.0], [-0.5, 0.0], [-0.5, 0.0]])
    case = Case(row_RD, item_CD, torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert Expansion.of(kernel, BOUND, by_logarithm=True) is not None
    assert not by_moments(case.factored(BOUND), kernel)
    right = in_double(case).dense().pair_logsumexp(kernel)
    torch.testing.assert_close(case.factored(BOUND).pair_logsumexp(kernel).double(), right.detach(), rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("kernel", "bound", "why"),
    [
        (Hinge(), 0.5, "it has no tilt"),
        (LogTanh(0.005), 0.5, "its exponentials are too large"),
        (Sigmoid(), 15.0, "it needs too many terms"),
        (LogRelu(0.75), 0.5, "it is not smooth at −1"),
    ],
)
def test_kernels_that_have_no_expansion(kernel: Kernel, bound: float, why: str) -> None:
    assert Expansion.of(kernel, bound, isinstance(kernel, LogActivation)) is None, why


def test_pairs_are_summed_where_moments_would_not_do() -> None:
    case, kernel = bounded(0), LogTanh(0.1)
    assert by_moments(case.factored(BOUND), kernel)
    assert not by_moments(case.factored(), kernel)  # scores may be anything
    assert not by_moments(in_double(case).factored(BOUND), kernel)  # double precision asks for more terms
    few = dataclasses.replace(case, row_P=case.row_P[:5], column_P=case.column_P[:5])
    assert not by_moments(few.factored(BOUND), kernel)  # fewer positives than rows: the pairs are soon summed
    heavy = dataclasses.replace(case, log_weight_C=torch.full((60,), 41.0))
    assert not by_moments(heavy.factored(BOUND), kernel)
