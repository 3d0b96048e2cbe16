"""The highest negatives of each row, as a table of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from scores.tables import Case, Oracle, random_case
from shortlist.scores import DenseTable, FactoredTable, ScoreTable, Softplus, TableContext, gemm_autograd

FORMS = ["dense", "factored", "factored_apart"]
SHAPES: list[dict[str, Any]] = [
    {"rows": 5, "items": 9},
    {"rows": 7, "items": 70, "bias": True, "max_elements": 140},  # two rows a block
    {"rows": 4, "items": 8, "weights": True},
    {"rows": 6, "items": 40, "bias": True, "weights": True},
    {"rows": 3, "items": 1},
]


def by_loops(case: Case, counts: list[float]) -> list[list[tuple[float, float]]]:
    """Score and weight of each negative of a row that counts, the highest first, until the count is full."""
    oracle, rows = Oracle(case), []
    for row, left in enumerate(counts):
        chosen = []
        for j in sorted(oracle.negatives(row), key=lambda j, row=row: -oracle.score[row][j]):
            part = min(oracle.weight[j], left)
            if part > 1e-12:
                chosen.append((oracle.score[row][j], part))
            left -= part
        rows.append(chosen)
    return rows


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("counts", [[1.0], [3.0], [2.0, 0.3, 4.7, 0.0], [1000.0]])
def test_agrees_with_loops(form: str, shape: dict[str, Any], counts: list[float]) -> None:
    for seed in range(3):
        case = random_case(seed, **shape)
        count_R = torch.tensor([counts[r % len(counts)] for r in range(shape["rows"])], dtype=torch.float64)
        table: ScoreTable = getattr(case, form)()
        hard = table.hardest(count_R)
        assert isinstance(hard, DenseTable)
        expected = by_loops(case, count_R.tolist())
        assert hard.log_weight is not None
        for row, (score_K, weight_K) in enumerate(
            zip(hard.cand_RC.tolist(), hard.log_weight.exp().tolist(), strict=True)
        ):
            ours = [(s, w) for s, w in zip(score_K, weight_K, strict=True) if w > 1e-12]
            assert [s for s, _ in ours] == pytest.approx([s for s, _ in expected[row]], rel=1e-12)
            assert [w for _, w in ours] == pytest.approx([w for _, w in expected[row]], rel=1e-9)
        assert hard.n_represented_R.tolist() == pytest.approx([sum(w for _, w in row) for row in expected], abs=1e-12)
        torch.testing.assert_close(hard.positives(), table.positives())
        assert torch.equal(hard.row_P, table.row_P)


@pytest.mark.parametrize("sparse", [1, 1000])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_agree_with_numerical_ones(
    form: str, shape: dict[str, Any], sparse: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By either way back: gathered rank by rank, or spread over a block."""
    monkeypatch.setattr(gemm_autograd, "_SPARSE", sparse)
    case = random_case(0, **(shape | {"items": min(shape["items"], 12)}))
    count_R = torch.linspace(0.5, 4.0, shape["rows"], dtype=torch.float64)

    def answer(*vectors: Tensor) -> Tensor:
        copy = Case(vectors[0], vectors[1], case.row_P, case.column_P, vectors[2] if len(vectors) > 2 else None)
        copy.log_weight_C, copy.max_elements = case.log_weight_C, case.max_elements
        table: ScoreTable = getattr(copy, form)()
        return table.hardest(count_R).pair_sum(Softplus())

    assert torch.autograd.gradcheck(answer, case.vectors())


@pytest.mark.parametrize(("form", "own"), [*((form, False) for form in FORMS), ("dense", True)])
def test_the_context_of_the_hardest(form: str, own: bool) -> None:
    """The context stays, but for the items of the candidates, whether the rows share them or each has its own."""
    case = random_case(1, rows=5, items=12)
    table: ScoreTable = getattr(case, form)()
    size = len(case.row_P)
    known = TableContext(
        key_R=torch.arange(5) + 7,
        pair_P=torch.arange(size),
        item_C=torch.arange(12) * 3 if not own else torch.arange(60).view(5, 12),
        grade_P=torch.arange(size) % 3,
        weight_P=torch.arange(size).double(),
        threshold_R=torch.zeros(5),
        n_items=100,
        n_negatives_R=torch.full((5,), 90.0),
        generator=torch.Generator(),
    )
    table.context = known
    hard = table.hardest(torch.full((5,), 2.0))
    for field in dataclasses.fields(known):
        same = getattr(hard.context, field.name) is getattr(known, field.name)
        assert same == (field.name != "item_C"), field.name
    item_RK = hard.context.item_C
    assert item_RK is not None
    column_RK = item_RK // 3 if not own else item_RK - 12 * torch.arange(5).unsqueeze(1)
    there_RK = hard.matrix() > -torch.inf
    torch.testing.assert_close(case.scores().gather(1, column_RK)[there_RK], hard.matrix()[there_RK])


@pytest.mark.parametrize("form", FORMS)
def test_other_questions_are_not_disturbed(form: str) -> None:
    case, fresh = random_case(4, rows=6, items=300), random_case(4, rows=6, items=300)
    table: ScoreTable = getattr(case, form)()
    reference = fresh.dense()
    table.kth_largest(3)  # leaves its scores in the buffer
    ours = table.logsumexp(0.7).sum() + table.hardest(torch.full((6,), 3.0)).row_sum(Softplus()).sum()
    theirs = reference.logsumexp(0.7).sum() + reference.hardest(torch.full((6,), 3.0)).row_sum(Softplus()).sum()
    torch.testing.assert_close(ours, theirs)
    for grad, expected in zip(
        torch.autograd.grad(ours, case.vectors()), torch.autograd.grad(theirs, fresh.vectors()), strict=True
    ):
        torch.testing.assert_close(grad, expected)


def test_draws_that_stand_for_nothing() -> None:
    """A user who has met every item has draws of weight 0, which are no negatives; other rows are not disturbed."""
    score_RC = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    log_weight_RC = torch.tensor([[0.5, 2.0, 4.0], [0.0, 0.0, 0.0]]).log()
    for at in (0, 1):
        table = DenseTable(
            torch.zeros(2),
            torch.arange(2),
            score_RC,
            positive_RC=log_weight_RC.flip(at) == -torch.inf,
            log_weight=log_weight_RC.flip(at),
        )
        hard = table.hardest(torch.tensor([1.0, 1.0]))
        assert hard.n_represented_R.tolist() == ([0, 1] if at == 0 else [1, 0])


def test_no_rows_and_no_candidates() -> None:
    none = DenseTable(torch.zeros(2), torch.arange(2), torch.zeros(2, 0)).hardest(torch.tensor([3.0, 3.0]))
    assert none.matrix().shape == (2, 0)
    assert none.n_represented_R.tolist() == [0, 0]
    nobody = torch.zeros(0, dtype=torch.long)
    empty = FactoredTable(torch.zeros(0, 3), torch.zeros(4, 3), row_P=nobody, column_P=nobody)
    assert empty.hardest(torch.zeros(0)).matrix().shape == (0, 0)
