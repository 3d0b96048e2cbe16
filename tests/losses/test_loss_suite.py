"""What every registered loss computes. A new loss is enrolled by registration; its values stand in ``entries``."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from losses.cases import (
    DIFFERENTIABLE,
    ENTRIES,
    FORMS,
    NAMES,
    VARIANTS,
    made,
    rows_of,
    table_of,
    thresholds_for,
    value_and_gradient,
)
from losses.oracle import Hand, Row, Variant
from losses.values import values_of
from scores.tables import Case, random_case
from shortlist.losses import Loss, registry
from shortlist.scores import DenseTable, FactoredTable, ScoreTable, Sizes

pytestmark = pytest.mark.usefixtures("thresholds_are_accepted")

BY_HAND = [
    pytest.param(name, hand, id=f"{name}-{number}")
    for name, values in ENTRIES
    for number, hand in enumerate(values.by_hand)
]


def with_vectors(case: Case, vectors: tuple[Tensor, ...]) -> Case:
    changed = copy.copy(case)
    changed.row_RD, changed.item_CD = vectors[0], vectors[1]
    changed.bias_C = vectors[2] if len(vectors) > 2 else None
    return changed


def gradients(loss: Loss, case: Case, form: str) -> list[Tensor]:
    return list(torch.autograd.grad(loss(table_of(case, form)), case.vectors(), allow_unused=False))


@pytest.mark.parametrize(("name", "hand"), BY_HAND)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_value_worked_by_hand(name: str, hand: Hand, dtype: torch.dtype) -> None:
    pos, neg = torch.tensor(hand.positives, dtype=dtype), torch.tensor(hand.negatives, dtype=dtype)
    threshold = None if hand.threshold is None else torch.tensor(hand.threshold, dtype=dtype)
    value = registry[name](**hand.settings)(pos, neg, threshold=threshold)
    assert value.shape == ()
    assert value.dtype == dtype
    assert value.item() == pytest.approx(hand.value, rel=1e-6, abs=1e-6 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
class TestValue:
    @pytest.mark.parametrize("form", FORMS)
    def test_agrees_with_loops(self, name: str, variant: Variant, form: str) -> None:
        """Rows without positives, with one, with all but one; a catalogue of one item; blocks of two rows."""
        shapes: list[dict[str, Any]] = [
            {"rows": 5, "items": 9},
            {"rows": 6, "items": 40, "bias": True, "max_elements": 80},
            {"rows": 3, "items": 1},
            {"rows": 1, "items": 5},
        ]
        loss = made(name, variant)
        for seed, shape in enumerate(shapes * 2):
            case = random_case(seed, **shape)
            table = table_of(case, form)
            expected = values_of(name).naive(
                loss.settings(), rows_of(case.scores(), case.positive_mask(), thresholds_for(case))
            )
            assert loss(table).item() == pytest.approx(expected, rel=1e-9, abs=1e-10)

    def test_scores_and_tables_are_two_ways_to_say_the_same(self, name: str, variant: Variant) -> None:
        g = torch.Generator().manual_seed(1)
        pos, neg = torch.randn(6, generator=g).double(), torch.randn(6, 8, generator=g).double()
        beta, loss = torch.randn(6, generator=g).double(), made(name, variant)
        score_RC = torch.cat([pos.unsqueeze(1), neg], 1)
        positive_RC = torch.zeros_like(score_RC, dtype=torch.bool)
        positive_RC[:, 0] = True
        table = DenseTable.from_matrix(score_RC, positive_RC).with_threshold(beta)
        expected = values_of(name).naive(loss.settings(), rows_of(score_RC, positive_RC, beta))
        assert loss(pos, neg, threshold=beta).item() == pytest.approx(expected, rel=1e-9, abs=1e-10)
        torch.testing.assert_close(loss(pos, neg, threshold=beta), loss(table), rtol=1e-12, atol=1e-12)

    def test_forms_agree_in_their_gradients(self, name: str, variant: Variant) -> None:
        loss, case = made(name, variant), random_case(4, rows=6, items=30, bias=True)
        for form in FORMS[1:]:
            for ours, theirs in zip(gradients(loss, case, form), gradients(loss, case, "dense"), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize("form", FORMS)
    def test_float32_is_close_to_float64(self, name: str, variant: Variant, form: str) -> None:
        loss = made(name, variant)
        exact, rough = (random_case(5, rows=20, items=100, dim=4, dtype=t) for t in (torch.float64, torch.float32))
        value, grads = value_and_gradient(loss, table_of(exact, form), exact.vectors())
        value32, grads32 = value_and_gradient(loss, table_of(rough, form), rough.vectors())
        assert value32.dtype == torch.float32
        assert value32.item() == pytest.approx(value.item(), rel=1e-5, abs=1e-5)
        for grad32, grad in zip(grads32, grads, strict=True):
            torch.testing.assert_close(grad32.double(), grad, rtol=1e-3, atol=1e-5 * float(grad.abs().max()))

    def test_state_round_trip(self, name: str, variant: Variant) -> None:
        case, loss, again = random_case(6), made(name, variant), made(name, variant)
        loss(table_of(case, "dense"))
        again.load_state_dict(loss.state_dict())
        assert torch.equal(again(table_of(case, "dense")), loss(table_of(case, "dense")))


@pytest.mark.parametrize("name", NAMES)
def test_a_value_without_gradient_is_no_step(name: str) -> None:
    """A look at the loss of other scores, between two steps of training, leaves no trace in what the loss keeps."""
    loss = registry[name]()
    loss.initialize(Sizes(n_keys=4, n_items=8, n_pairs=4), torch.Generator().manual_seed(0))
    loss.before_epoch(5)
    g, at = torch.Generator().manual_seed(1), torch.arange(4)
    given: dict[str, Any] = {"keys": at, "pairs": at, "items": torch.arange(8).expand(4, 8), "n_items": 8}
    given["threshold"] = torch.zeros(4)
    before = {key: tensor.clone() for key, tensor in loss.state_dict().items()}
    with torch.no_grad():
        loss(torch.randn(4, generator=g), torch.randn(4, 8, generator=g), **given)
    loss.after_step(0.1)
    assert loss.state_dict().keys() == before.keys()
    for key, tensor in loss.state_dict().items():
        torch.testing.assert_close(tensor, before[key], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("name", "variant"), DIFFERENTIABLE)
@pytest.mark.parametrize("form", FORMS)
def test_gradient_agrees_with_numerical_one(name: str, variant: Variant, form: str) -> None:
    loss, case = made(name, variant), random_case(2, rows=5, items=7, bias=True)
    assert torch.autograd.gradcheck(lambda *vectors: loss(table_of(with_vectors(case, vectors), form)), case.vectors())


# ---------------------------------------------------------------------------------------------------- odd situations


def check_finite(loss: Loss, pos: Tensor, neg: Tensor, threshold: Tensor | None = None) -> Tensor:
    """The loss, with finite value and gradient."""
    pos, neg = pos.clone().requires_grad_(), neg.clone().requires_grad_()
    beta = torch.zeros(len(pos), dtype=pos.dtype) if threshold is None else threshold
    value, grads = value_and_gradient(loss, DenseTable.from_pairs(pos, neg).with_threshold(beta), [pos, neg])
    assert bool(value.isfinite())
    assert all(bool(grad.isfinite().all()) for grad in grads)
    return value


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
class TestOddSituations:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_extreme_scores(self, name: str, variant: Variant, dtype: torch.dtype) -> None:
        loss, huge = made(name, variant), 1e4
        for positive in (huge, 0.0, -huge):
            for negatives in ([huge, huge], [-huge, -huge], [huge, -huge], [0.0, huge], [0.0, -huge]):
                pos, neg = torch.tensor([positive], dtype=dtype), torch.tensor([negatives], dtype=dtype)
                for beta in (huge, 0.0, -huge):
                    check_finite(loss, pos, neg, torch.tensor([beta], dtype=dtype))

    @pytest.mark.parametrize("form", FORMS)
    def test_extreme_scores_of_tables(self, name: str, variant: Variant, form: str) -> None:
        loss, case = made(name, variant), random_case(7, rows=6, items=12, dim=1, dtype=torch.float32)
        with torch.no_grad():
            case.row_RD.copy_(case.row_RD.sign() * 1e2)
            case.item_CD.copy_(case.item_CD.sign() * 1e2)
        value, grads = value_and_gradient(loss, table_of(case, form), case.vectors())
        assert bool(value.isfinite())
        assert all(bool(grad.isfinite().all()) for grad in grads)

    @pytest.mark.parametrize("level", [0.0, -3.0, 1e4])
    def test_all_scores_equal(self, name: str, variant: Variant, level: float) -> None:
        loss = made(name, variant)
        score_RC, positive_RC = torch.full((3, 5), level, dtype=torch.float64), torch.zeros(3, 5, dtype=torch.bool)
        positive_RC[0, :2] = positive_RC[2, 1:] = True
        beta = torch.full((3,), level, dtype=torch.float64)
        table = DenseTable.from_matrix(score_RC, positive_RC).with_threshold(beta)
        if abs(level) < 10:
            expected = values_of(name).naive(loss.settings(), rows_of(score_RC, positive_RC, beta))
            assert loss(table).item() == pytest.approx(expected, rel=1e-9)
        check_finite(loss, torch.full((3,), level), torch.full((3, 4), level), torch.full((3,), level))

    def test_one_negative(self, name: str, variant: Variant) -> None:
        loss = made(name, variant)
        value = check_finite(loss, torch.tensor([0.3]).double(), torch.tensor([[0.7]]).double())
        expected = values_of(name).naive(loss.settings(), [Row([0.3, 0.7], [True, False], 0.0)])
        assert value.item() == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("form", FORMS)
    def test_no_negative_since_all_are_positives(self, name: str, variant: Variant, form: str) -> None:
        loss, case = made(name, variant), random_case(8, rows=3, items=4)
        case.row_P, case.column_P = torch.ones(3, 4).nonzero(as_tuple=True)
        table = table_of(case, form)
        value, grads = value_and_gradient(loss, table, case.vectors())
        expected = values_of(name).naive(
            loss.settings(), rows_of(case.scores(), torch.ones(3, 4, dtype=torch.bool), thresholds_for(case))
        )
        assert value.item() == pytest.approx(expected, rel=1e-9)
        assert all(bool(grad.isfinite().all()) for grad in grads)

    def test_no_negative_since_none_was_given(self, name: str, variant: Variant) -> None:
        loss, pos = made(name, variant), torch.tensor([0.5, -1.0])
        value = check_finite(loss, pos, torch.zeros(2, 0))
        rows = [Row([score], [True], 0.0) for score in pos.tolist()]
        assert value.item() == pytest.approx(values_of(name).naive(loss.settings(), rows), rel=1e-6, abs=1e-7)

    @pytest.mark.parametrize("form", FORMS)
    def test_no_positive(self, name: str, variant: Variant, form: str) -> None:
        loss, case = made(name, variant), random_case(9, rows=3, items=4)
        case.row_P = case.column_P = torch.zeros(0, dtype=torch.long)
        value, grads = value_and_gradient(loss, table_of(case, form), case.vectors())
        assert value.item() == 0
        assert all(bool((grad == 0).all()) for grad in grads)

    def test_nan_is_not_hidden(self, name: str, variant: Variant) -> None:
        """A model that has broken must be seen to have broken."""
        broken = [(torch.nan, 0.0), (0.0, torch.nan)] + ([] if variant.saturates else [(torch.inf, torch.inf)])
        for pos, neg in broken:
            value = made(name, variant)(torch.tensor([pos]), torch.tensor([[neg, 0.0]]), threshold=torch.zeros(1))
            assert not bool(value.isfinite())
        for form in FORMS:
            case = random_case(12)
            case.row_RD.data[3] = torch.nan
            assert not bool(made(name, variant)(table_of(case, form)).isfinite())


# ------------------------------------------------------------------------------------------------------- invariances


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
class TestInvariance:
    def test_to_the_order_of_negatives(self, name: str, variant: Variant) -> None:
        g, loss = torch.Generator().manual_seed(2), made(name, variant)
        pos, neg = torch.randn(4, generator=g).double(), torch.randn(4, 9, generator=g).double()
        shuffled = neg[:, torch.randperm(9, generator=g)]
        if variant.order_matters:
            pytest.skip("negatives are looked at in their order")
        beta = torch.zeros(4, dtype=torch.float64)
        torch.testing.assert_close(loss(pos, shuffled, threshold=beta), loss(pos, neg, threshold=beta))

    @pytest.mark.parametrize("form", FORMS)
    def test_to_the_order_of_rows_columns_and_positives(self, name: str, variant: Variant, form: str) -> None:
        g, loss, case = torch.Generator().manual_seed(3), made(name, variant), random_case(10, rows=6, items=15)
        row, column = torch.randperm(6, generator=g), torch.randperm(15, generator=g)
        if variant.order_matters:  # of columns
            column = torch.arange(15)
        order = torch.randperm(len(case.row_P), generator=g)
        shuffled = Case(
            case.row_RD[row],
            case.item_CD[column],
            torch.argsort(row)[case.row_P[order]],
            torch.argsort(column)[case.column_P[order]],
        )
        table: ScoreTable = getattr(shuffled, form)().with_threshold(thresholds_for(case)[row])
        torch.testing.assert_close(loss(table), loss(table_of(case, form)))

    @pytest.mark.parametrize("constant", [-2.5, 100.0])
    def test_to_a_constant_added_to_all_scores(self, name: str, variant: Variant, constant: float) -> None:
        loss, case = made(name, variant), random_case(11, rows=5, items=12)
        positive_RC = case.positive_mask()
        values = []
        for shift in (0.0, constant):
            table = DenseTable.from_matrix(case.scores().detach() + shift, positive_RC)
            table = table.with_threshold(thresholds_for(case) + shift)
            values.append(loss(table).item())
        if variant.shift_invariant:
            assert values[1] == pytest.approx(values[0], rel=1e-9, abs=1e-9)
        else:
            assert values[1] != pytest.approx(values[0], rel=1e-3), "the loss keeps more than it promises: say so"

    def test_exact_is_sampled_with_every_negative_drawn_once(self, name: str, variant: Variant) -> None:
        """For rows of one positive a table of the whole catalogue and one of drawn negatives say the same."""
        loss, g = made(name, variant), torch.Generator().manual_seed(4)
        user_RD, item_CD = (torch.randn(n, 3, generator=g, dtype=torch.float64) for n in (5, 20))
        chosen_R, at = torch.randint(20, (5,), generator=g), torch.arange(5)
        beta = torch.randn(5, generator=g, dtype=torch.float64)
        exact = FactoredTable(user_RD, item_CD, row_P=at, column_P=chosen_R).with_threshold(beta)
        score_RC = user_RD @ item_CD.T
        rest = torch.ones_like(score_RC, dtype=torch.bool)
        rest[at, chosen_R] = False
        drawn = loss(score_RC[at, chosen_R], score_RC[rest].view(5, 19), threshold=beta)
        torch.testing.assert_close(drawn, loss(exact))
