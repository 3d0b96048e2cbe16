"""What every registered loss makes of weights, labels, padding, thresholds, keys and wrong shapes.

A positive of weight w counts as w repetitions. Where each row has one positive, that is plain repetition of the row.
Where a row has several, the repeated positive is one item that counts w times:

- Means over positives: the term of the positive counts w times. In sums, ranks and ideal lists of its row it is one
  item.
- Means over rows: a row counts by the mean weight of its positives. Within the row a positive has w shares of what
  ListNet asks for, w·y or w·exp(y), and of the gains of NDCG, w·G, the ideal NDCG included.
- ListMLE: the term of a positive counts w times, the terms of negatives by the mean weight of the row's positives.
- BSL by user: the mean of exp(s/τ₁) over a user's positives is weighted, and so is the mean over users.
- SogSL@K as published: the mean weight of the step is weighted.
- TCE leaves out a share of the sum of all weights, rounded down where all weights are whole numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from losses.cases import (
    DIFFERENTIABLE,
    FORMS,
    NAMES,
    VARIANTS,
    made,
    rows_of,
    table_of,
    thresholds_for,
)
from losses.oracle import Variant
from losses.values import values_of
from scores.tables import Case, random_case, with_context
from shortlist.errors import InputError
from shortlist.losses import Loss, registry
from shortlist.scores import DenseTable, FactoredTable, ScoreTable, Sizes

pytestmark = pytest.mark.usefixtures("thresholds_are_accepted")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def check_equal(ours: Callable[[], Tensor], theirs: Callable[[], Tensor], leaves: Sequence[Tensor]) -> None:
    """Two losses have the same value and the same gradients."""
    value, expected = ours(), theirs()
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-11)
    grads, wanted = (torch.autograd.grad(each, leaves, allow_unused=True) for each in (value, expected))
    for grad, other in zip(grads, wanted, strict=True):
        assert (grad is None) == (other is None)
        if grad is not None:
            torch.testing.assert_close(grad, other, rtol=1e-8, atol=1e-10)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64).requires_grad_()


def pairs(rows: int = 7, negatives: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Positive scores, negative scores and thresholds."""
    return normal(rows), normal(rows, negatives, seed=1), normal(rows, seed=2).detach()


# ------------------------------------------------------------------------------------------------------------ weights


def sampled(case: Case) -> FactoredTable:
    """A weighted sample of the catalogue, which holds some of the positives."""
    column_N = torch.arange(0, len(case.item_CD), 2)
    place_C = torch.full((len(case.item_CD),), -1)
    place_C[column_N] = torch.arange(len(column_N))
    return FactoredTable(
        case.row_RD,
        case.item_CD[column_N],
        row_P=case.row_P,
        column_P=place_C[case.column_P],
        positive_PD=case.item_CD[case.column_P],
        log_weight_C=torch.linspace(0.1, 1.2, len(column_N), dtype=torch.float64),
        n_represented_R=(len(case.item_CD) - torch.bincount(case.row_P, minlength=len(case.row_RD))).double(),
    )


def table_in(case: Case, form: str) -> ScoreTable:
    return sampled(case) if form == "sampled" else getattr(case, form)()  # type: ignore[no-any-return]


def repeated_rows(case: Case, times_R: Tensor) -> tuple[Case, Tensor]:
    """Each row so many times, with all its positives; and the old number of each row."""
    row_R = torch.arange(len(case.row_RD)).repeat_interleave(times_R)
    owner, place = (row_R.unsqueeze(1) == case.row_P).nonzero(as_tuple=True)
    return Case(case.row_RD[row_R], case.item_CD, owner, case.column_P[place], case.bias_C), row_R


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
class TestWeights:
    def test_are_repetitions_of_pairs(self, name: str, variant: Variant) -> None:
        """Pairs with negatives of their own; a pair of weight 0 is not there."""
        pos, neg, beta = pairs()
        weights = torch.tensor([2, 1, 0, 3, 1, 0, 5])

        def repeat(each: Tensor) -> Tensor:
            return each.repeat_interleave(weights, 0)

        check_equal(
            lambda: made(name, variant)(pos, neg, threshold=beta, weights=weights),
            lambda: made(name, variant)(repeat(pos), repeat(neg), threshold=repeat(beta)),
            [pos, neg],
        )

    @pytest.mark.parametrize("form", [*FORMS, "sampled"])
    def test_are_repetitions_of_rows(self, name: str, variant: Variant, form: str) -> None:
        """Rows with several positives, all of which have the weight of the row; a row of weight 0 is not there."""
        case = random_case(3, rows=7, items=14, bias=form != "sampled")
        times_R = torch.tensor([2, 3, 1, 0, 2, 1, 0])
        repeated, row_R = repeated_rows(case, times_R)
        weighted = with_context(table_in(case, form), weight_P=times_R[case.row_P], threshold_R=thresholds_for(case))
        check_equal(
            lambda: made(name, variant)(weighted),
            lambda: made(name, variant)(table_in(repeated, form).with_threshold(thresholds_for(case)[row_R])),
            case.vectors(),
        )

    @pytest.mark.parametrize("form", FORMS)
    def test_of_a_rows_positives_agree_with_loops(self, name: str, variant: Variant, form: str) -> None:
        """Each positive has a weight of its own: whole, fractional or 0."""
        loss = made(name, variant)
        for seed, choices in enumerate(([1.0, 2.0, 3.0], [0.0, 0.25, 1.5, 2.0], [0.0, 1.0, 4.0])):
            case = random_case(seed, rows=6, items=11)
            chosen_P = torch.randint(len(choices), (len(case.row_P),), generator=seeded(seed))
            weight_P = torch.tensor(choices, dtype=torch.float64)[chosen_P]
            weight_RC = torch.zeros(6, 11, dtype=torch.float64)
            weight_RC[case.row_P, case.column_P] = weight_P
            rows = rows_of(case.scores(), case.positive_mask(), thresholds_for(case), weight_RC)
            expected = values_of(name).naive(loss.settings(), rows)
            value = made(name, variant)(with_context(table_of(case, form), weight_P=weight_P))
            assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-10)
            grads = torch.autograd.grad(value, case.vectors())
            assert all(bool(grad.isfinite().all()) for grad in grads)

    @pytest.mark.parametrize("form", FORMS)
    def test_that_are_all_equal_change_nothing(self, name: str, variant: Variant, form: str) -> None:
        """Of ten positives, of which shares in tenths are whole numbers."""
        case = random_case(1, rows=6, items=12)
        case.row_P, case.column_P = case.row_P[:10], case.column_P[:10]
        for constant in (1.0, 2.5, 1e-3):
            weight_P = torch.full((10,), constant, dtype=torch.float64)
            check_equal(
                lambda weight_P=weight_P: made(name, variant)(with_context(table_of(case, form), weight_P=weight_P)),
                lambda: made(name, variant)(table_of(case, form)),
                case.vectors(),
            )

    def test_of_labels_are_those_of_positives(self, name: str, variant: Variant) -> None:
        """A matrix of weights beside a matrix of labels, of which those of negatives are not read."""
        scores, label, beta = normal(5, 8), torch.rand(5, 8, generator=seeded(4)) < 0.4, normal(5, seed=2).detach()
        weights = torch.randint(1, 4, (5, 8), generator=seeded(5)).double()
        loss = made(name, variant)
        expected = values_of(name).naive(loss.settings(), rows_of(scores, label, beta, weights))
        value = loss(scores, label, threshold=beta, weights=weights.masked_fill(~label, torch.nan))
        assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_state_after_a_weighted_step_is_that_of_repetitions(name: str) -> None:
    """Averages of keys and pairs, learned scalars, networks and vectors."""
    pos, neg, beta = pairs(rows=4)
    weights, at = torch.tensor([2, 1, 3, 1]), torch.arange(4)
    weighted, repeated = trained(name), trained(name)
    row = at.repeat_interleave(weights)
    weighted(pos, neg, keys=at, pairs=at, threshold=beta, weights=weights).backward()
    repeated(pos[row], neg[row], keys=at[row], pairs=at[row], threshold=beta[row]).backward()
    for loss in (weighted, repeated):
        loss.after_step(0.1)
    for key, tensor in weighted.state_dict().items():
        torch.testing.assert_close(tensor, repeated.state_dict()[key], rtol=1e-5, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_type_of_the_value_is_that_of_scores(name: str, variant: Variant) -> None:
    """Whatever the types of labels and weights are."""
    scores, beta = normal(5, 8).detach().float().requires_grad_(), torch.zeros(5)
    for dtype in (torch.long, torch.float64):
        labels, weights = torch.randint(0, 4, (5, 8), generator=seeded(3)), torch.randint(1, 4, (5, 8)).to(dtype)
        value = made(name, variant)(scores, labels.to(dtype), threshold=beta, weights=weights)
        assert value.dtype == torch.float32
        assert torch.autograd.grad(value, scores)[0].dtype == torch.float32


@pytest.mark.parametrize(("name", "variant"), DIFFERENTIABLE)
def test_gradient_with_weights_and_grades(name: str, variant: Variant) -> None:
    """Padding included."""
    scores, label, beta = normal(4, 6), torch.randint(-1, 4, (4, 6), generator=seeded(3)), normal(4, seed=2).detach()
    weights = 2 * torch.rand(4, 6, generator=seeded(4), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: made(name, variant)(s, label, threshold=beta, weights=weights), [scores])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_order_of_rows_and_positives(name: str, variant: Variant, form: str) -> None:
    """Weights and grades go along with their positives."""
    case = random_case(10, rows=6, items=15)
    size = len(case.row_P)
    weight_P, grade_P = torch.rand(size, generator=seeded(1)).double(), torch.randint(1, 4, (size,), generator=seeded())
    row, order = torch.randperm(6, generator=seeded(2)), torch.randperm(size, generator=seeded(3))
    shuffled = Case(case.row_RD[row], case.item_CD, torch.argsort(row)[case.row_P[order]], case.column_P[order])
    beta = thresholds_for(case)
    known: dict[str, Tensor] = {"weight_P": weight_P, "grade_P": grade_P, "threshold_R": beta}
    moved: dict[str, Tensor] = {"weight_P": weight_P[order], "grade_P": grade_P[order], "threshold_R": beta[row]}
    check_equal(
        lambda: made(name, variant)(with_context(getattr(shuffled, form)(), **moved)),
        lambda: made(name, variant)(with_context(getattr(case, form)(), **known)),
        case.vectors(),
    )


# ------------------------------------------------------------------------------------------------- labels and padding


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
class TestLabels:
    @pytest.mark.parametrize("dtype", [torch.bool, torch.long, torch.float64])
    def test_that_are_binary_say_which_are_positives(self, name: str, variant: Variant, dtype: torch.dtype) -> None:
        scores, beta = normal(5, 8), normal(5, seed=2).detach()
        positive = torch.rand(5, 8, generator=seeded(4)) < 0.4
        check_equal(
            lambda: made(name, variant)(scores, positive.to(dtype), threshold=beta),
            lambda: made(name, variant)(DenseTable.from_matrix(scores, positive).with_threshold(beta)),
            [scores],
        )

    def test_of_one_positive_a_row_are_pairs(self, name: str, variant: Variant) -> None:
        pos, neg, beta = pairs()
        scores = torch.cat([pos.unsqueeze(1), neg], 1)
        labels = torch.zeros(scores.shape, dtype=torch.long)
        labels[:, 0] = 1
        check_equal(
            lambda: made(name, variant)(scores, labels, threshold=beta),
            lambda: made(name, variant)(pos, neg, threshold=beta),
            [pos, neg],
        )

    def test_that_are_graded_agree_with_loops(self, name: str, variant: Variant) -> None:
        """With weights and without; losses that do not read grades count every positive as a 1."""
        settings, beta = made(name, variant).settings(), normal(6, seed=2).detach()
        scores, labels = normal(6, 9), torch.randint(-2, 4, (6, 9), generator=seeded(3)).clamp(min=0)
        labels[2:4, 0] = 3
        for weights in (None, torch.rand(6, 9, generator=seeded(4), dtype=torch.float64)):
            expected = values_of(name).naive(settings, rows_of(scores, labels, beta, weights))
            value = made(name, variant)(scores, labels, threshold=beta, weights=weights)
            assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-10)
            binary = made(name, variant)(scores, labels.clamp(max=1), threshold=beta, weights=weights)
            read = value.item() != pytest.approx(binary.item(), rel=1e-9)
            assert read == values_of(name).graded, "state in Values.graded whether the loss reads grades"

    @pytest.mark.parametrize("form", ["mask", "label"])
    @pytest.mark.parametrize("junk", [0.0, 1e4, -1e4, torch.nan])
    def test_padding_is_not_read(self, name: str, variant: Variant, form: str, junk: float) -> None:
        """Lists with three items of padding, in value and gradient."""
        scores, beta = normal(5, 7), normal(5, seed=2).detach()
        labels = torch.randint(0, 4, (5, 7), generator=seeded(3))
        padding = torch.full((5, 3), junk, dtype=torch.float64, requires_grad=True)
        longer = torch.cat([scores, padding], 1)
        at_padding = torch.tensor([2, 0, 1]).expand(5, 3) if form == "mask" else torch.full((5, 3), -1)
        mask = (torch.arange(10) < 7).expand(5, 10) if form == "mask" else None

        def padded() -> Tensor:
            return made(name, variant)(longer, torch.cat([labels, at_padding], 1), mask=mask, threshold=beta)

        check_equal(padded, lambda: made(name, variant)(scores, labels, threshold=beta), [scores])
        (grad,) = torch.autograd.grad(padded(), padding)
        assert bool((grad == 0).all())

    @pytest.mark.parametrize("junk", [0.0, 1e4, -1e4, torch.nan])
    def test_padding_of_negatives_is_not_read(self, name: str, variant: Variant, junk: float) -> None:
        pos, neg, beta = pairs(negatives=6)
        padding = torch.full((7, 2), junk, dtype=torch.float64, requires_grad=True)
        mask = (torch.arange(8) < 6).expand(7, 8)

        def padded() -> Tensor:
            return made(name, variant)(pos, torch.cat([neg, padding], 1), mask=mask, threshold=beta)

        check_equal(padded, lambda: made(name, variant)(pos, neg, threshold=beta), [pos, neg])
        (grad,) = torch.autograd.grad(padded(), padding)
        assert bool((grad == 0).all())

    def test_lists_of_different_lengths(self, name: str, variant: Variant) -> None:
        """Against loops over lists without padding; where the padding stands does not matter."""
        loss, beta = made(name, variant), normal(6, seed=2).detach()
        scores, labels = normal(6, 9), torch.randint(-2, 4, (6, 9), generator=seeded(3)).clamp(min=0)
        present = torch.rand(6, 9, generator=seeded(4)) < torch.linspace(0.2, 1, 6).unsqueeze(1)
        present[0] = False  # a list of nothing but padding
        rows = rows_of(scores, labels, beta, present_RC=present)
        expected = values_of(name).naive(loss.settings(), rows)
        assert loss(scores, labels, mask=present, threshold=beta).item() == pytest.approx(expected, rel=1e-9, abs=1e-10)
        to_the_end = torch.argsort(~present, dim=1, stable=True)
        check_equal(
            lambda: made(name, variant)(scores, labels, mask=present, threshold=beta),
            lambda: made(name, variant)(
                *(each.gather(1, to_the_end) for each in (scores, labels)),
                mask=present.gather(1, to_the_end),
                threshold=beta,
            ),
            [scores],
        )

    def test_a_list_of_padding_only_is_no_list(self, name: str, variant: Variant) -> None:
        scores, labels, beta = normal(3, 5), torch.randint(0, 3, (3, 5), generator=seeded(3)), torch.zeros(3).double()
        labels[1] = -1
        kept = [0, 2]
        check_equal(
            lambda: made(name, variant)(scores, labels, threshold=beta),
            lambda: made(name, variant)(scores[kept], labels[kept], threshold=beta[kept]),
            [scores],
        )


# --------------------------------------------------------------------------------------------- thresholds and shapes


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_threshold_is_constant_to_the_gradient(name: str, variant: Variant) -> None:
    """Also one that carries a gradient."""
    pos, neg, beta = pairs()
    leaf = beta.clone().requires_grad_()
    check_equal(
        lambda: made(name, variant)(pos, neg, threshold=leaf),
        lambda: made(name, variant)(pos, neg, threshold=beta),
        [pos, neg],
    )
    carried = pos.mean() + beta  # depends on the scores
    check_equal(
        lambda: made(name, variant)(pos, neg, threshold=carried),
        lambda: made(name, variant)(pos, neg, threshold=carried.detach()),
        [pos, neg],
    )
    value = made(name, variant)(pos, neg, threshold=leaf)
    (grad,) = torch.autograd.grad(value, leaf, allow_unused=True)
    assert grad is None or bool((grad == 0).all())


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape)


WRONG: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((zeros(3),), {}, r": expected negative scores \[B, N\] or labels \[B, L\], received none$"),
    ((zeros(3), zeros(2, 4)), {}, r": expected .*\[B\] .*\[B, N\], received \[3\] and \[2, 4\]$"),
    ((zeros(3), zeros(3)), {}, r": expected .*\[B, N\], received \[3\] and \[3\]$"),
    ((zeros(3, 4), zeros(3)), {}, r": expected .*\[B, L\], received \[3, 4\] and \[3\]$"),
    ((zeros(3, 4), zeros(3, 5)), {}, r": expected .*\[B, L\], received \[3, 4\] and \[3, 5\]$"),
    ((zeros(1, 3, 4), zeros(1, 3, 4)), {}, r": expected .*, received \[1, 3, 4\] and \[1, 3, 4\]$"),
    ((zeros(3), zeros(3, 4)), {"mask": zeros(3).bool()}, r"\.mask: expected shape \[3, 4\], received \[3\]$"),
    ((zeros(3), zeros(3, 4)), {"mask": zeros(3, 4)}, r"\.mask: expected booleans, received torch\.float32$"),
    ((zeros(3), zeros(3, 4)), {"mask": zeros(3, 4).int()}, r"\.mask: expected booleans, received torch\.int32$"),
    ((zeros(3), zeros(3, 4)), {"weights": zeros(3, 4)}, r"\.weights: expected shape \[3\], received \[3, 4\]$"),
    ((zeros(3, 4), zeros(3, 4)), {"weights": zeros(3)}, r"\.weights: expected shape \[3, 4\], received \[3\]$"),
    ((zeros(3), zeros(3, 4)), {"threshold": zeros(3, 1)}, r"\.threshold: expected shape \[3\], received \[3, 1\]$"),
    ((zeros(3, 4), zeros(3, 4)), {"threshold": zeros(4)}, r"\.threshold: expected shape \[3\], received \[4\]$"),
    ((zeros(3), zeros(3, 4)), {"keys": zeros(4).long()}, r"\.keys: expected shape \[3\], received \[4\]$"),
    ((zeros(3), zeros(3, 4)), {"pairs": zeros(1).long()}, r"\.pairs: expected shape \[3\], received \[1\]$"),
    ((zeros(3, 4), zeros(3, 4)), {"pairs": zeros(3).long()}, r"\.pairs: expected shape \[3, 4\], received \[3\]$"),
    (
        (zeros(3), zeros(3, 4)),
        {"items": zeros(3).long()},
        r"\.items: expected shape \[3, 4\] or \[4\], received \[3\]$",
    ),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("scores", "given", "message"), WRONG)
def test_wrong_shapes(name: str, scores: tuple[Any, ...], given: dict[str, Any], message: str) -> None:
    loss = registry[name]()
    with pytest.raises(InputError, match="^" + type(loss).__name__ + message):
        loss(*scores, **given)


# --------------------------------------------------------------------------------------------------- rows without keys


def trained(name: str) -> Loss:
    """A loss after two steps over the keys and pairs 0 to 3 of 8."""
    loss = registry[name]()
    loss.initialize(Sizes(n_keys=8, n_items=60, n_pairs=8), seeded())
    loss.before_epoch(1)
    at = torch.arange(4)
    for step in range(2):
        pos, neg = normal(4, seed=step), normal(4, 9, seed=10 + step)
        beta = torch.zeros(4, dtype=torch.float64)
        loss(pos, neg, keys=at, pairs=at, threshold=beta).backward()
        loss.after_step(0.1)
    return loss


@pytest.mark.parametrize("name", NAMES)
class TestKeys:
    def test_rows_without_keys_are_as_if_seen_for_the_first_time(self, name: str) -> None:
        loss, (pos, neg, beta) = trained(name), pairs(rows=4)
        unseen = torch.arange(4, 8)
        check_equal(
            lambda: copy.deepcopy(loss)(pos, neg, threshold=beta),
            lambda: copy.deepcopy(loss)(pos, neg, threshold=beta, keys=unseen, pairs=unseen),
            [pos, neg],
        )

    def test_rows_without_keys_leave_the_state_of_keys_as_it_is(self, name: str) -> None:
        loss, (pos, neg, beta) = trained(name), pairs(rows=4)
        keyed = {
            key: tensor.clone() for key, tensor in loss.state_dict().items() if len(tensor.shape) and len(tensor) == 8
        }
        loss(pos, neg, threshold=beta).backward()
        loss.after_step(0.1)
        for key, tensor in keyed.items():
            torch.testing.assert_close(loss.state_dict()[key], tensor, rtol=0, atol=0, equal_nan=True)

    def test_training_data_without_keys(self, name: str) -> None:
        """Lists of documents, say: there is nothing to keep state for, and steps go through."""
        loss, fresh = registry[name](), registry[name]()
        for each in (loss, fresh):
            each.initialize(Sizes(), seeded())
        loss.before_epoch(1)
        scores, labels = normal(5, 8), torch.randint(0, 4, (5, 8), generator=seeded(3))
        beta = torch.zeros(5, dtype=torch.float64)
        check_equal(
            lambda: loss(scores, labels, threshold=beta), lambda: fresh(scores, labels, threshold=beta), [scores]
        )
        loss.after_step(0.1)
        assert bool(loss(scores, labels, threshold=beta).isfinite())

    def test_pairs_of_labels_are_those_of_positives(self, name: str) -> None:
        """State of pairs and keys is the same, whether positives come in lists or in a table."""
        scores, positive = normal(3, 5), torch.tensor([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0]]).bool()
        number = torch.tensor([[5, -1, 1, -1, -1], [-1, 7, -1, -1, -1], [-1, -1, -1, 0, -1]])
        keys, beta = torch.tensor([6, 2, 3]), torch.zeros(3, dtype=torch.float64)
        lists, table = trained(name), trained(name)
        known = with_context(
            DenseTable.from_matrix(scores, positive), key_R=keys, pair_P=number[positive], threshold_R=beta
        )
        check_equal(
            lambda: lists(scores, positive, keys=keys, pairs=number, threshold=beta), lambda: table(known), [scores]
        )
        for key, tensor in lists.state_dict().items():
            torch.testing.assert_close(table.state_dict()[key], tensor, equal_nan=True)
