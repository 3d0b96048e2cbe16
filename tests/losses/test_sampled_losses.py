"""A sample stands for the catalogue: equal where everything is drawn, close where much is, right on average."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from losses.oracle import Variant
from losses.values import VALUES, registered, values_of
from scores.tables import random_case
from shortlist.losses import SL, Loss, SLAtK, registry
from shortlist.negatives import SharedCandidates
from shortlist.scores import DenseTable, FactoredTable

pytestmark = pytest.mark.usefixtures("thresholds_are_accepted")


def pair_scores(score_RC: Tensor, positive_RC: Tensor) -> list[tuple[int, Tensor, Tensor]]:
    """Row, score and all negatives' scores of each positive."""
    return [
        (row, score_RC[row, column].view(1), score_RC[row][~positive_RC[row]].view(1, -1))
        for row, column in positive_RC.nonzero().tolist()
    ]


@pytest.mark.parametrize("name", registered())
def test_all_negatives_drawn_once_give_the_exact_loss(name: str) -> None:
    """Pair by pair, each with the user's negatives, for users of several positives."""
    if not values_of(name).on_its_own:
        pytest.skip("a pair depends on the others of its row, or on the size of the catalogue")
    loss = registry[name]()
    case = random_case(0, rows=6, items=15)
    threshold_R = torch.linspace(-1, 1, 6, dtype=torch.float64)
    exact = case.factored().with_threshold(threshold_R)
    pairs = pair_scores(case.scores(), case.positive_mask())
    values = [loss(pos, neg, threshold=threshold_R[row : row + 1]) for row, pos, neg in pairs]
    torch.testing.assert_close(torch.stack(values).mean(), loss(exact))


def sampling_error(loss: Loss, correction: bool, draws: int, repeats: int = 60) -> float:
    """Mean distance of the loss of a sample (uniform, with replacement) from the exact one, for one user."""
    g = torch.Generator().manual_seed(0)
    score_C = torch.randn(2000, generator=g, dtype=torch.float64) * 0.3
    positive_C = torch.zeros(2000, dtype=torch.bool)
    positive_C[:3] = True
    exact = DenseTable.from_matrix(score_C.unsqueeze(0), positive_C.unsqueeze(0))
    beta = exact.kth_largest(20)
    exact = exact.with_threshold(beta)
    errors = []
    for _ in range(repeats):
        neg = score_C[3 + torch.randint(1997, (draws,), generator=g)].expand(3, -1)
        sampled = loss(score_C[:3], neg, threshold=beta.expand(3))
        if correction:
            sampled = sampled + torch.log(torch.tensor(1997 / draws))
        errors.append(abs(float(sampled - loss(exact))))
    return sum(errors) / repeats


@pytest.mark.parametrize(("loss", "correction"), [(SL(), True), (SLAtK(), False), (SLAtK(weight="detached"), False)])
def test_exact_is_the_limit_of_sampled(loss: Loss, correction: bool) -> None:
    """The error falls as the square root of the number of draws; SL@K brings its own scale to the sum."""
    errors = [sampling_error(loss, correction, draws) for draws in (100, 1600, 25600)]
    assert errors[2] < 0.02
    for few, many in itertools.pairwise(errors):
        assert 2.5 < few / many < 6.5  # 4 in the limit


def shared_sums(distribution: Any, repeats: int, draws: int) -> tuple[Tensor, Tensor, Tensor]:
    """Exact sums of exponentials over each row's negatives, and the mean and standard error of sampled ones."""
    g = torch.Generator().manual_seed(1)
    case = random_case(3, rows=5, items=40, dim=3)
    count_I = torch.randint(1, 60, (40,), generator=g)
    candidates = SharedCandidates(count_I, distribution, power=0.75)
    place_I = torch.full((40,), -1)
    sums = []
    for _ in range(repeats):
        sample = candidates.draw(draws, g)
        place_I.fill_(-1)[sample.item_C] = torch.arange(len(sample.item_C))
        table = FactoredTable(
            case.row_RD.detach(),
            case.item_CD.detach()[sample.item_C],
            row_P=case.row_P,
            column_P=place_I[case.column_P],
            positive_PD=case.item_CD.detach()[case.column_P],
            log_weight_C=None if sample.log_weight_C is None else sample.log_weight_C.double(),
        )
        sums.append(table.logsumexp(0.8, "negatives").exp())
    sampled = torch.stack(sums)
    exact_R = case.factored().logsumexp(0.8, "negatives").detach().exp()
    return exact_R, sampled.mean(0), sampled.std(0) / repeats**0.5


def test_sample_by_popularity_is_unbiased_in_the_sum() -> None:
    """Weights make the sum right on average, in the sum and not in its logarithm."""
    exact_R, mean_R, error_R = shared_sums("popularity", 4000, 12)
    assert bool((error_R[[0, 1, 3, 4]] > 0).all())
    assert bool(((mean_R - exact_R).abs() <= 4 * error_R + 1e-12).all())
    assert bool((error_R < 0.05 * exact_R).all())


def test_uniform_sample_stands_for_its_share_of_the_catalogue() -> None:
    """Without weights the sum is that of the chance with which an item is drawn: 1 − (1 − 1/n)^N."""
    exact_R, mean_R, error_R = shared_sums("uniform", 4000, 12)
    chance = 1 - (1 - 1 / 40) ** 12
    assert bool(((mean_R - chance * exact_R).abs() <= 4 * error_R + 1e-12).all())


@pytest.mark.parametrize("form", ["dense", "factored", "factored_apart"])
@pytest.mark.parametrize(
    ("name", "variant"),
    [pytest.param(name, v, id=f"{name}-{v}") for name in registered() if name in VALUES for v in VALUES[name].variants],
)
def test_a_negative_of_weight_w_counts_as_w_of_them(name: str, variant: Variant, form: str) -> None:
    """In value and gradients; the row's own positives count for one, whatever the weights of their columns are."""
    if not variant.weights_repeat:
        pytest.skip("what is at hand is listed, sorted or counted")
    case, loss = random_case(1, rows=5, items=9, bias=True), registry[name](**variant.settings)
    times_C = torch.tensor([1, 2, 3, 1, 4, 2, 1, 1, 5])
    score_RC, positive_RC = case.scores(), case.positive_mask()
    column_N = torch.arange(9).repeat_interleave(times_C)
    positive_P = score_RC[case.row_P, case.column_P]
    repeated = DenseTable(positive_P, case.row_P, score_RC[:, column_N], positive_RC=positive_RC[:, column_N])
    case.log_weight_C = times_C.double().log()
    weighted = getattr(case, form)()
    weighted.n_represented_R = repeated.n_represented_R
    threshold_R = torch.linspace(-1, 1, 5, dtype=torch.float64)
    values = [loss(table.with_threshold(threshold_R)) for table in (weighted, repeated)]
    torch.testing.assert_close(*values, rtol=1e-10, atol=1e-12)
    ours, theirs = (torch.autograd.grad(value, case.vectors()) for value in values)
    for grad, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(grad, expected, rtol=1e-9, atol=1e-11)
