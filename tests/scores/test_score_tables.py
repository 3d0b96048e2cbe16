"""Dense and factored tables answer the same questions with the same values and the same gradients."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from scores.tables import Case, Oracle, random_case
from shortlist.errors import InputError, ShortlistError
from shortlist.scores import (
    DenseTable,
    Exponential,
    FactoredTable,
    Hinge,
    Kernel,
    ScoreTable,
    Sigmoid,
    Softplus,
    SquaredHinge,
    positive_pair_sum,
)
from shortlist.scores.column_topk import best_columns, gathered
from shortlist.scores.positive_pairs import positive_pairs

FORMS = ["dense", "factored", "factored_apart"]
KERNELS: list[tuple[Kernel, object]] = [
    (Softplus(), lambda x: math.log1p(math.exp(x))),
    (Hinge(0.5), lambda x: max(0.0, x + 0.5)),
    (SquaredHinge(0.5), lambda x: max(0.0, x + 0.5) ** 2),
    (Sigmoid(3.0), lambda x: 1 / (1 + math.exp(-3 * x))),
    (Exponential(), math.exp),
]
SHAPES = [
    {"rows": 5, "items": 9},
    {"rows": 5, "items": 9, "bias": True},
    {"rows": 4, "items": 7, "weights": True},
    {"rows": 7, "items": 70, "bias": True, "weights": True, "max_elements": 140},  # two rows a block
    {"rows": 3, "items": 1},
    {"rows": 1, "items": 30},
]


@dataclass(frozen=True)
class Shifted(Kernel):
    """φ(x) = σ(x − θ) with a θ that is learnt."""

    theta: Tensor

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (self.theta,)

    def value(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x - self.theta)

    def slope(self, x: Tensor) -> Tensor:
        share = torch.sigmoid(x - self.theta)
        return share * (1 - share)

    def parameter_slopes(self, x: Tensor) -> tuple[Tensor, ...]:
        return (-self.slope(x),)


class LogSigmoid(Kernel):
    """The logarithm of a kernel: ln σ(2x)."""

    def value(self, x: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(2 * x)

    def slope(self, x: Tensor) -> Tensor:
        return torch.where(x == -torch.inf, 0, 2 * torch.sigmoid(-2 * x))


def gap(rank_M1: Tensor, rank_MC: Tensor) -> Tensor:
    """A weight of ranks that tells the two apart."""
    return 1 / rank_M1 + 0.3 * rank_MC


def close(answer: Tensor, expected: list[float], tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(
        answer.detach(), torch.tensor(expected, dtype=answer.dtype), atol=tolerance, rtol=tolerance
    )


def finite(value: Tensor) -> Tensor:
    """Rows without negatives have a log-sum-exp of −∞, which a gradient check cannot difference."""
    return value[value.isfinite()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_question_agrees_with_loops(form: str, shape: dict[str, int]) -> None:
    for seed in range(4):
        case = random_case(seed, **shape)
        table: ScoreTable = getattr(case, form)()
        oracle = Oracle(case)
        close(table.positives(), [oracle.score[r][i] for r, i in oracle.pairs])
        for tau in (0.3, 2.0):
            close(table.logsumexp(tau, "all"), oracle.logsumexp(tau, "all"))
            close(table.logsumexp(tau, "negatives"), oracle.logsumexp(tau, "negatives"))
        for kernel, phi in KERNELS:
            close(table.row_sum(kernel), oracle.row_sum(phi))
            offset_R = torch.linspace(-1, 1, table.n_rows, dtype=torch.float64)
            close(table.row_sum(kernel, offset_R), oracle.row_sum(phi, offset_R.tolist()))
            close(table.pair_sum(kernel), oracle.pair_sum(phi))
            close(table.pair_sum(kernel, gap), oracle.pair_sum(phi, lambda i, j: 1 / i + 0.3 * j))
            count_R = torch.arange(1.0, table.n_rows + 1)
            by_loops = oracle.pair_sum(phi, lambda i, j: 1 / i + 0.3 * j, count_R.tolist())
            close(table.pair_sum(kernel, gap, count_R), by_loops)
            count_R2 = torch.stack([count_R, torch.full_like(count_R, 2.5)], 1)
            by_loops = oracle.pair_sum(phi, lambda i, j: 1 / i + 0.3 * j, count_R.tolist(), 2.5)
            close(table.pair_sum(kernel, gap, count_R2), by_loops)
            count_RC = torch.arange(1.0, table.n_rows * len(oracle.items) + 1).view(table.n_rows, -1).fmod(7)
            by_loops = oracle.pair_sum(phi, lambda i, j: 1 / i + 0.3 * j, count_RC.tolist(), 2.5)
            close(table.pair_sum(kernel, gap, torch.cat([count_RC, count_R2[:, 1:]], 1)), by_loops)
            close(positive_pair_sum(table, kernel), oracle.positive_pair_sum(phi))
            by_loops = oracle.positive_pair_sum(phi, lambda p, q: 1 + p + 0.125 * q)
            close(positive_pair_sum(table, kernel, lambda p_Q, q_Q: 1 + p_Q + 0.125 * q_Q), by_loops)
        close(table.pair_logsumexp(LogSigmoid()), oracle.pair_logsumexp(lambda x: -math.log1p(math.exp(-2 * x))))
        assert table.ranks().tolist() == oracle.ranks()
        for k in (1, 3, 200):
            close(table.kth_largest(k), oracle.kth_largest(k))
        close(table.matrix(), oracle.score)
        assert table.n_represented_R.tolist() == [len(oracle.negatives(r)) for r in range(table.n_rows)]
        for count in (1, 4, 100):
            best_RM = table.best_negatives(count)
            assert best_RM.shape == (table.n_rows, count)
            assert [sorted(j for j in row if j >= 0) for row in best_RM.tolist()] == oracle.best_negatives(count)
        column_RM = torch.randint(-1, shape["items"], (shape["rows"], 6), generator=torch.Generator().manual_seed(seed))
        close(table.scores_at(column_RM), oracle.scores_at(column_RM.tolist()))
        weights = [math.log(w) for w in oracle.weight]
        assert ("weights" in shape) == (table.log_weights() is not None)
        assert table.log_weights() is None or table.log_weights().tolist() == pytest.approx(weights)
        mask = [[j not in oracle.positives_of[r] for j in oracle.items] for r in range(table.n_rows)]
        assert table.is_negative().tolist() == mask


QUESTIONS = {
    "positives": lambda table: table.positives(),
    "all": lambda table: finite(table.logsumexp(0.7, "all")),
    "negatives": lambda table: finite(table.logsumexp(0.7, "negatives")),
    "row_sum": lambda table: table.row_sum(Softplus()),
    "row_sum above an offset": lambda table: table.row_sum(Softplus(), torch.arange(1.0, table.n_rows + 1)),
    "pair_sum": lambda table: table.pair_sum(Softplus()),
    "pair_sum by rank": lambda table: table.pair_sum(Softplus(), gap),
    "positive_pair_sum": lambda table: positive_pair_sum(table, Softplus(), lambda p_Q, q_Q: 1 + p_Q + 0.125 * q_Q),
    "pair_logsumexp": lambda table: finite(table.pair_logsumexp(LogSigmoid())),
    "matrix": lambda table: table.matrix(),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("form", ["factored", "factored_apart"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_agree_with_numerical_ones(question: str, form: str, shape: dict[str, int]) -> None:
    case = random_case(0, **(shape | {"items": min(shape["items"], 12)}))

    def answer(*vectors: Tensor) -> Tensor:
        copy = Case(vectors[0], vectors[1], case.row_P, case.column_P, vectors[2] if len(vectors) > 2 else None)
        copy.log_weight_C, copy.max_elements = case.log_weight_C, case.max_elements
        return QUESTIONS[question](getattr(copy, form)())

    assert torch.autograd.gradcheck(answer, case.vectors())


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_float32_gradients_agree_with_dense_autograd(question: str, scale: float) -> None:
    for seed in range(3):
        grads = []
        for form in ("dense", "factored"):
            case = random_case(seed, rows=20, items=300, dim=8, bias=True, scale=scale, dtype=torch.float32)
            value = QUESTIONS[question](getattr(case, form)())
            (value * torch.linspace(-1, 1, value.numel()).view_as(value)).sum().backward()
            grads.append([vector.grad for vector in case.vectors()])
        for dense, factored in zip(*grads, strict=True):
            torch.testing.assert_close(factored, dense, rtol=2e-4, atol=2e-5 * float(dense.abs().max()))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_the_parameters_of_a_kernel(form: str) -> None:
    case = random_case(3, rows=6, items=20, bias=True, weights=True, max_elements=40)
    weight_R = torch.linspace(-1, 1, 6, dtype=torch.float64)

    def answer(theta: Tensor) -> Tensor:
        table: ScoreTable = getattr(case, form)()
        return (table.row_sum(Shifted(theta)) * weight_R).sum()

    assert torch.autograd.gradcheck(answer, [torch.tensor(0.4, dtype=torch.float64, requires_grad=True)])


@pytest.mark.parametrize("form", FORMS)
def test_ties_count_against_oneself_in_weights_of_ranks(form: str) -> None:
    """All scores are 0: everyone has the last rank."""
    case = random_case(2, rows=4, items=6)
    with torch.no_grad():
        case.row_RD.zero_()
    table: ScoreTable = getattr(case, form)()
    n_negatives_P = table.per_positive(table.n_represented_R)
    close(table.pair_sum(Exponential(), gap), (n_negatives_P * (1 / 6 + 0.3 * 6)).tolist())


@pytest.mark.parametrize("most", [1, 5, 1000])
def test_pairs_of_positives_come_in_parts_and_only_once(most: int) -> None:
    case = random_case(6, rows=8, items=20)
    parts = list(positive_pairs(case.row_P, 8, most))
    pairs = [pair for i_Q, j_Q in parts for pair in zip(i_Q.tolist(), j_Q.tolist(), strict=True)]
    rows = case.row_P.tolist()
    assert sorted(pairs) == [
        (i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j and rows[i] == rows[j]
    ]
    assert max(len(i_Q) for i_Q, _ in parts) <= most + 20  # a positive's own partners are not torn apart
    assert list(positive_pairs(torch.zeros(0, dtype=torch.long), 3)) == []


def test_two_questions_share_the_buffer_and_keep_their_gradients() -> None:
    """The second question overwrites the buffer; the first one's backward pass notices and computes again."""
    expected = random_case(3, rows=6, items=20)
    (expected.dense().logsumexp(0.5).sum() + 2 * expected.dense().logsumexp(1.5, "negatives")[1:].sum()).backward()
    case = random_case(3, rows=6, items=20)
    table = case.factored()
    (table.logsumexp(0.5).sum() + 2 * table.logsumexp(1.5, "negatives")[1:].sum()).backward()
    for ours, theirs in zip(case.vectors(), expected.vectors(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_buffered_scores_serve_the_next_operation() -> None:
    """After a selection the plain scores stand in the buffer; what follows must not depend on it."""
    orders = ["kth all", "kth kth negatives all", "kth row_sum all", "best all", "best at kth at negatives", "at all"]
    for questions in (order.split() for order in orders):
        case, fresh = random_case(4, rows=6, items=300), random_case(4, rows=6, items=300)
        table, reference = case.factored(), fresh.dense()
        answer = torch.zeros((), dtype=torch.float64)
        expected = torch.zeros((), dtype=torch.float64)
        for question in questions:
            if question == "kth":
                torch.testing.assert_close(table.kth_largest(3), reference.kth_largest(3))
            elif question == "best":
                best_RM, theirs_RM = table.best_negatives(4), reference.best_negatives(4)
                assert torch.equal(best_RM.sort(1).values, theirs_RM.sort(1).values)
            elif question == "at":
                column_RM = torch.arange(12).view(6, 2)
                torch.testing.assert_close(table.scores_at(column_RM), reference.scores_at(column_RM))
            else:
                answer = answer + QUESTIONS[question](table).sum()
                expected = expected + QUESTIONS[question](reference).sum()
        torch.testing.assert_close(answer, expected)
        answer.backward()
        expected.backward()
        for ours, theirs in zip(case.vectors(), fresh.vectors(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("bound", [None, 1.0])
def test_extreme_temperatures_stay_finite(bound: float | None) -> None:
    x = torch.nn.functional.normalize(torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    y = torch.nn.functional.normalize(torch.randn(50, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    at = torch.arange(4)
    table = FactoredTable(x.requires_grad_(), y.requires_grad_(), row_P=at, column_P=at, bound=bound)
    for tau in (0.002, 0.01, 0.2, 100.0):
        expected = torch.logsumexp((x.double() @ y.double().T) / tau, 1)
        answer = table.logsumexp(tau)
        torch.testing.assert_close(answer.double(), expected, rtol=1e-5, atol=1e-5)
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(answer.sum(), [x, y]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weights", [False, True])
def test_restriction_keeps_rows_positives_and_weights(form: str, weights: bool) -> None:
    case = random_case(1, rows=5, items=30, bias=True, weights=weights)
    column_N = torch.tensor([3, 7, 8, 20])
    table = getattr(case, form)().restricted(column_N)
    if case.log_weight_C is None:
        assert table.log_weights() is None
    else:
        assert torch.equal(table.log_weights(), case.log_weight_C[column_N])
    torch.testing.assert_close(table.positives(), case.factored().positives())
    torch.testing.assert_close(table.matrix(), case.scores()[:, column_N].detach())
    assert torch.equal(table.is_negative(), case.factored().is_negative()[:, column_N])


def test_positives_that_are_no_candidates_need_vectors() -> None:
    with pytest.raises(ShortlistError, match="expected the vectors"):
        FactoredTable(torch.eye(2), torch.eye(2), row_P=torch.tensor([0]), column_P=torch.tensor([-1]))


@pytest.mark.parametrize(("pos", "neg"), [((3,), (2, 4)), ((3, 1), (3, 4)), ((3,), (3,))])
def test_wrong_shapes_are_named(pos: tuple[int, ...], neg: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"expected positive scores \[B\] and negative scores \[B, N\], received"):
        DenseTable.from_pairs(torch.zeros(pos), torch.zeros(neg))


@pytest.mark.parametrize("by_row", [False, True])
def test_weights_of_rows_are_given_as_they_are(by_row: bool) -> None:
    """A dense table may have weights for each row."""
    score_RC, weight_RC = torch.rand(3, 8), torch.rand(3, 8)
    table = DenseTable(score_RC[:, 0], torch.arange(3), score_RC, log_weight=weight_RC if by_row else weight_RC[0])
    assert table.log_weights() is not None
    restricted = table.restricted(torch.tensor([1, 5]))
    assert torch.equal(restricted.log_weights(), (weight_RC if by_row else weight_RC[0])[..., [1, 5]])


@pytest.mark.parametrize("columns", [5, 16, 200, 1003, 4096])
@pytest.mark.parametrize("k", [1, 7, 20])
def test_best_columns_hold_the_largest_values(columns: int, k: int) -> None:
    """Short rows, whole groups, a rest after the groups, and values that are masked."""
    score_RC = torch.randn(9, columns, generator=torch.Generator().manual_seed(columns))
    score_RC[3, : columns - 2] = -torch.inf
    score_RC[4] = -torch.inf
    column_RK = best_columns(score_RC, k)
    value_RK = gathered(score_RC, column_RK).sort(1, descending=True).values
    expected_RK = score_RC.topk(min(k, columns), 1).values
    assert torch.equal(value_RK[:, : expected_RK.shape[1]], expected_RK)
    assert bool((value_RK[:, expected_RK.shape[1] :] == -torch.inf).all())
    for row in column_RK.tolist():
        there = [column for column in row if column >= 0]
        assert len(set(there)) == len(there)
