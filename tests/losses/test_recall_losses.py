"""The recall family: the losses that it contains, what a sample stands for, and the gradient of its lambda form."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from scores.tables import random_case
from shortlist.losses import BPR, SL, CROLoss, CROLossLambda, Loss
from shortlist.losses.recall import mass, smooth_rank
from shortlist.scores import DenseTable, ScoreTable

FORMS = ["dense", "factored", "factored_apart"]
KERNELS: list[Any] = ["hinge", "sigmoid", "exponential", "softplus"]
ALPHAS = [0.0, 0.6, 1.0, 1.4, 3.0]


def pairs(seed: int, rows: int = 30, negatives: int = 8) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    pos, neg = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((rows,), (rows, negatives)))
    return pos.requires_grad_(), neg.requires_grad_()


def assert_same_bits(ours: Loss, theirs: Any, factor: float) -> None:
    """Pair by pair the values are the same floats, and gradients of many pairs differ by roundings alone."""
    pos_B, neg_BN = pairs(0)
    for pos, neg in zip(pos_B.split(1), neg_BN.split(1), strict=True):
        assert ours(pos, neg).item() == theirs(pos, neg).item() / factor
    grads = [torch.autograd.grad(loss(pos_B, neg_BN), [pos_B, neg_BN]) for loss in (ours, theirs)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other / factor, rtol=1e-14, atol=1e-17)


# ------------------------------------------------------------------------------------------------------ special cases


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_exponential_at_alpha_one_is_softmax(scale: float) -> None:
    """SL at τ = 1/c with all items in the sum, over ln(n + 1), to the last bit."""
    loss = CROLoss(kernel="exponential", alpha=1.0, scale=scale, over="all")
    assert_same_bits(loss, SL(tau=1 / scale, denominator="all"), math.log(10))


def test_exponential_at_alpha_one_is_the_cross_entropy_of_torch() -> None:
    pos, neg = pairs(5)
    logit = torch.cat([pos.unsqueeze(1), neg], 1) * 3.0
    expected = F.cross_entropy(logit, torch.zeros(len(pos), dtype=torch.long)) / math.log(10)
    torch.testing.assert_close(CROLoss(kernel="exponential", scale=3.0)(pos, neg), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("form", FORMS)
def test_exponential_at_alpha_one_is_softmax_for_users_of_many_positives(form: str) -> None:
    case = random_case(0, rows=6, items=20, bias=True)
    values = [
        loss(getattr(case, form)())
        for loss in (CROLoss(kernel="exponential", scale=4.0, over="all"), SL(tau=0.25, denominator="all"))
    ]
    torch.testing.assert_close(values[0], values[1] / math.log(21), rtol=1e-14, atol=1e-15)
    ours, theirs = (torch.autograd.grad(value, case.vectors()) for value in values)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other / math.log(21), rtol=1e-13, atol=1e-15)


def test_softplus_at_alpha_zero_is_bpr() -> None:
    """BPR is a mean over 8 negatives; CROLoss divides their sum by the 9 items."""
    loss = CROLoss(kernel="softplus", alpha=0.0, scale=1.0)

    def bpr(pos: Tensor, neg: Tensor) -> Tensor:
        return BPR()(pos, neg) * 8  # a power of two: no rounding

    assert_same_bits(loss, bpr, 9)


def test_hinge_at_alpha_zero_is_triplet() -> None:
    """Torch's own margin loss, a mean over 8 negatives; the sums may be taken in another order."""
    loss = CROLoss(kernel="hinge", alpha=0.0, scale=1.0, margin=1.0)

    def triplet(pos: Tensor, neg: Tensor) -> Tensor:
        level = pos.unsqueeze(1).expand_as(neg)
        return F.margin_ranking_loss(level, neg, torch.ones_like(neg), margin=1.0) * 8

    pos_B, neg_BN = pairs(0)
    for pos, neg in zip(pos_B.split(1), neg_BN.split(1), strict=True):
        assert loss(pos, neg).item() == pytest.approx(triplet(pos, neg).item() / 9, rel=1e-15)
    grads = [torch.autograd.grad(one(pos_B, neg_BN), [pos_B, neg_BN]) for one in (loss, triplet)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other / 9, rtol=1e-14, atol=1e-17)


@pytest.mark.parametrize("kernel", KERNELS)
def test_alpha_passes_smoothly_through_one_and_zero(kernel: Any) -> None:
    pos, neg = pairs(1)
    for alpha in (0.0, 1.0):
        values = [CROLoss(kernel=kernel, alpha=alpha + shift, scale=1.0)(pos, neg).item() for shift in (0.0, 1e-9)]
        assert values[1] == pytest.approx(values[0], rel=1e-7)
    before = CROLoss(kernel=kernel, alpha=1 - 1e-12, scale=1.0)(pos, neg).item()
    assert before == pytest.approx(CROLoss(kernel=kernel, alpha=1.0, scale=1.0)(pos, neg).item(), rel=1e-10)


# ------------------------------------------------------------------------------------------------- ranks and recall


def ranked(seed: int) -> DenseTable:
    """Scores on a grid, so that there are ties."""
    case = random_case(seed, rows=6, items=14)
    return DenseTable.from_matrix((case.scores().detach() * 2).round() / 2, case.positive_mask())


def test_the_step_counts_the_rank() -> None:
    for seed in range(5):
        table = ranked(seed)
        rank = smooth_rank(table, "step", 10.0, 5.0, "all")
        assert (rank.excess_P + 1).tolist() == table.ranks().tolist()
        assert rank.log_P.tolist() == pytest.approx(table.ranks().log().tolist())


def test_with_the_step_at_alpha_zero_it_is_what_recall_leaves_over_all_n() -> None:
    """(R − 1)/n = 1 − (1/n)·Σ_N 1[R ≤ N]: the mean of 1 − Recall@N over N = 1 … n."""
    table = ranked(0)
    share_P = smooth_rank(table, "step", 1.0, 0.0, "all").excess_P / mass(table, 0.0)
    for share, rank in zip(share_P.tolist(), table.ranks().tolist(), strict=True):
        assert share == pytest.approx(1 - sum(rank <= n for n in range(1, 15)) / 14)


def test_density_of_larger_alpha_looks_at_smaller_n() -> None:
    """From rank 1 to 2 is ever more of the whole way, and the whole way is 1."""
    shares = []
    for alpha in ALPHAS:
        loss = CROLoss(kernel="exponential", alpha=alpha, scale=1.0)
        # level with c of 20 rivals and far above the rest: R = 1 + c
        values = [
            loss(torch.zeros(1).double(), torch.tensor([[0.0] * c + [-200.0] * (20 - c)]).double()).item()
            for c in (0, 1, 20)
        ]
        assert values[0] == pytest.approx(0, abs=1e-12)
        assert values[2] < 1
        shares.append(values[1])
    assert all(one < other for one, other in itertools.pairwise(shares))


# ------------------------------------------------------------------------------------- what a sample stands for


@pytest.mark.parametrize("loss", [CROLoss, CROLossLambda])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.4])
def test_each_negative_drawn_twice_changes_nothing(loss: type[Loss], alpha: float) -> None:
    pos, neg = pairs(2)
    once = loss(alpha=alpha, scale=2.0)(pos, neg, n_items=9)
    assert torch.equal(once, loss(alpha=alpha, scale=2.0)(pos, neg))
    torch.testing.assert_close(loss(alpha=alpha, scale=2.0)(pos, neg.repeat(1, 2), n_items=9), once)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("over", ["negatives", "all"])
def test_single_draws_are_right_on_average(kernel: Any, over: Any) -> None:
    """At α = 0 the loss is linear in the sum: the mean over all single draws is the exact loss."""
    loss, (pos, neg) = CROLoss(kernel=kernel, alpha=0.0, scale=1.0, over=over), pairs(3)
    draws = [loss(pos, neg[:, [j]], n_items=9) for j in range(8)]
    torch.testing.assert_close(torch.stack(draws).mean(), loss(pos, neg))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("over", ["negatives", "all"])
@pytest.mark.parametrize("form", FORMS)
def test_weights_are_repetitions(kernel: Any, over: Any, form: str) -> None:
    case = random_case(0, rows=6, items=12)
    times_C = torch.randint(1, 4, (12,), generator=torch.Generator().manual_seed(0))
    case.log_weight_C = times_C.double().log()
    positive_RC, score_RC = case.positive_mask(), case.scores()
    weighted = getattr(case, form)()
    weighted.n_represented_R = (times_C * ~positive_RC).sum(1).double()
    repeated = DenseTable(
        score_RC[case.row_P, case.column_P],
        case.row_P,
        score_RC.repeat_interleave(times_C, 1),
        positive_RC=positive_RC.repeat_interleave(times_C, 1),
    )
    loss = CROLoss(kernel=kernel, alpha=1.2, scale=1.0, over=over)
    torch.testing.assert_close(loss(weighted), loss(repeated), rtol=1e-10, atol=1e-12)
    ours, theirs = (torch.autograd.grad(loss(table), case.vectors()) for table in (weighted, repeated))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


# -------------------------------------------------------------------------------------------------------- lambda form


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("form", FORMS)
def test_with_one_kernel_lambda_has_the_gradient_of_croloss(kernel: Any, alpha: float, form: str) -> None:
    case = random_case(1, rows=6, items=12, bias=True)
    for over in ("negatives", "all"):
        losses = (
            CROLossLambda(phi1=kernel, phi2=kernel, alpha=alpha, scale=2.0, margin=1.0, over=over),
            CROLoss(kernel=kernel, alpha=alpha, scale=2.0, margin=1.0, over=over),
        )
        ours, theirs = (torch.autograd.grad(loss(getattr(case, form)()), case.vectors()) for loss in losses)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("phi1", ["step", *KERNELS])
@pytest.mark.parametrize("phi2", KERNELS)
def test_lambda_gradient_is_that_of_a_weighted_rank(phi1: Any, phi2: Any) -> None:
    """Weights as floats, which carry no gradient; the rank that is pushed by torch."""
    kernels: dict[str, Any] = {
        "hinge": lambda x: (x + 1.0).clamp(min=0),
        "sigmoid": torch.sigmoid,
        "exponential": torch.exp,
        "softplus": F.softplus,
        "step": lambda x: (x >= 0).double(),
    }
    pos, neg = pairs(4)
    loss = CROLossLambda(phi1=phi1, phi2=phi2, alpha=1.4, scale=2.0, margin=1.0)
    difference = 2 * (neg - pos.unsqueeze(1))
    whole = (1 - 10**-0.4) / 0.4
    weight = torch.tensor(
        [(1 + sum(kernels[phi1](x).item() for x in row)) ** -1.4 / whole for row in difference.detach()],
        dtype=torch.float64,
    )
    surrogate = (weight * kernels[phi2](difference).sum(1)).mean()
    torch.testing.assert_close(loss(pos, neg), surrogate, rtol=1e-9, atol=1e-12)
    ours, theirs = (torch.autograd.grad(value, [pos, neg]) for value in (loss(pos, neg), surrogate))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


def test_lambda_of_exponentials_far_above_keeps_its_pull() -> None:
    """Weight and rank leave the range of float32, each in its direction; their product is softmax's gradient."""
    pos, neg = torch.tensor([-20.0], requires_grad=True), torch.tensor([[20.0, 0.0]], requires_grad=True)
    loss: Loss = CROLossLambda(phi1="exponential", phi2="exponential", alpha=1.0)
    ours = torch.autograd.grad(loss(pos, neg), [pos, neg])
    assert ours[0].item() == pytest.approx(-10 / math.log(4))
    assert ours[1].tolist()[0] == pytest.approx([10 / math.log(4), 0.0])


def test_ranks_among_all_include_other_positives() -> None:
    """Three positives level with one negative: R = 1 + 3 by the step, and only 1 + 1 against negatives."""
    table: ScoreTable = DenseTable(
        torch.zeros(3).double(), torch.zeros(3, dtype=torch.long), torch.zeros(1, 1, dtype=torch.float64)
    )
    assert smooth_rank(table, "step", 1.0, 0.0, "all").excess_P.tolist() == [3, 3, 3]
    assert smooth_rank(table, "step", 1.0, 0.0, "negatives").excess_P.tolist() == [1, 1, 1]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("loss", [CROLoss, CROLossLambda])
def test_published_estimate_scales_the_whole_rank_of_the_sample(loss: Any, kernel: Any) -> None:
    """Eq. 24: R = (n/|I′|)·(1 + Σφ), which is n/|I′| for a perfect rank."""
    pos_B, neg_BN = pairs(3, rows=4, negatives=8)
    kernels = {"kernel": kernel} if loss is CROLoss else {"phi1": kernel, "phi2": kernel}
    settings = {**kernels, "alpha": 1.4, "scale": 1.0, "margin": 2.0}
    phi = {
        "hinge": lambda x: max(0.0, x + 2),
        "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
        "exponential": math.exp,
        "softplus": lambda x: math.log1p(math.exp(x)),
    }[kernel]
    total = ((1 + 101) ** -0.4 - 1) / -0.4
    expected = 0.0
    for pos, neg in zip(pos_B.tolist(), neg_BN.tolist(), strict=True):
        rank = 101 / 8 * (1 + sum(phi(other - pos) for other in neg))
        area = (rank**-0.4 - 1) / -0.4 if loss is CROLoss else rank**-1.4 * (rank - 1)
        expected += area / total / 4
    found = loss(estimator="published", **settings)(pos_B, neg_BN, n_items=101)
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_estimates_are_the_same_where_the_whole_catalogue_is_at_hand() -> None:
    table = random_case(0, rows=6, items=20).dense()
    assert CROLoss(estimator="published")(table).item() == CROLoss()(table).item()
