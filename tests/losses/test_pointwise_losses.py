"""Pointwise losses beyond the suite: what is held constant, what is counted, what they reduce to."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from losses.oracle import LN2, softplus
from scores.tables import random_case, with_context
from shortlist.losses import BCE, CCL, GBCE, MSE, RCE, TCE
from shortlist.scores import DenseTable, FactoredTable, Sizes, TableContext
from training.fixtures import training

FORMS = ["dense", "factored", "factored_apart"]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --------------------------------------------------------------------------------------------------------------- gBCE


@pytest.mark.parametrize("t", [0.0, 0.3, 0.75, 1.0])
def test_gbce_is_bce_of_a_power_of_the_positives_probability(t: float) -> None:
    """As the paper writes it: ln of σ(s)^β, with β = α·(t·(1 − 1/α) + 1/α) and α = N/(n − 1)."""
    pos, neg, n_items = normal(5), normal(5, 8, seed=1), 31
    alpha = 8 / (n_items - 1)
    beta = alpha * (t * (1 - 1 / alpha) + 1 / alpha)
    expected = 0.0
    for s, others in zip(pos.tolist(), neg.tolist(), strict=True):
        expected -= math.log((1 / (1 + math.exp(-s))) ** beta)
        expected -= sum(math.log(1 - 1 / (1 + math.exp(-other))) for other in others)
    assert GBCE(t=t)(pos, neg, n_items=n_items).item() == pytest.approx(expected / 5, rel=1e-12)


def test_gbce_without_calibration_is_bce() -> None:
    pos, neg = normal(6), normal(6, 4, seed=1)
    assert torch.equal(GBCE(t=0.0)(pos, neg, n_items=1000), BCE()(pos, neg))


def test_gbce_is_bce_where_every_negative_is_there() -> None:
    for form in FORMS:
        case = random_case(0, rows=6, items=12)
        table = with_context(getattr(case, form)(), n_items=12)
        torch.testing.assert_close(GBCE(t=1.0)(table), BCE()(table), rtol=1e-14, atol=0)


def test_gbce_of_a_sample_takes_its_share_of_each_rows_negatives() -> None:
    """Two rows, 10 items, 4 of them shared: one row has a positive among these, and two positives in all."""
    user_RD, item_ID = normal(2, 3), normal(10, 3, seed=1)
    row_P, item_P, shared_C = torch.tensor([0, 0, 1]), torch.tensor([2, 7, 9]), torch.tensor([0, 2, 4, 6])
    table = FactoredTable(
        user_RD,
        item_ID[shared_C],
        row_P=row_P,
        column_P=torch.tensor([1, -1, -1]),
        positive_PD=item_ID[item_P],
        context=TableContext(n_items=10),
    )
    score = (user_RD @ item_ID.T).tolist()
    betas = [1 - 0.5 * (1 - 3 / 8), 1 - 0.5 * (1 - 3 / 8), 1 - 0.5 * (1 - 4 / 9)]
    expected = sum(
        beta * softplus(-score[row][item])
        + sum(softplus(score[row][j]) for j in shared_C.tolist() if not (row == 0 and j == 2))
        for beta, row, item in zip(betas, row_P.tolist(), item_P.tolist(), strict=True)
    )
    assert GBCE(t=0.5)(table).item() == pytest.approx(expected / 3, rel=1e-12)


def test_gbce_of_a_weighted_sample_is_bce() -> None:
    """Weights make up for what was not drawn: nothing is left to correct."""
    pos, neg = normal(2), normal(2, 4, seed=1)
    n_represented_R = torch.tensor([9.0, 9.0], dtype=torch.float64)
    table = DenseTable(pos, torch.arange(2), neg, log_weight=normal(4, seed=2), n_represented_R=n_represented_R)
    table = with_context(table, n_items=10)
    torch.testing.assert_close(GBCE(t=1.0)(table), BCE()(table), rtol=1e-14, atol=0)


# --------------------------------------------------------------------------------------------------------- MSE and CCL


def test_mse_is_torchs_squared_error() -> None:
    pos, neg = normal(6), normal(6, 4, seed=1)
    score, aim = torch.cat([pos.unsqueeze(1), neg], 1), F.one_hot(torch.zeros(6, dtype=torch.long), 5).double()
    torch.testing.assert_close(MSE()(pos, neg), F.mse_loss(score, aim, reduction="sum") / 2 / 6)


@pytest.mark.parametrize("form", FORMS)
def test_mse_aims_at_grades_where_there_are_any(form: str) -> None:
    case = random_case(1, rows=6, items=12)
    grade_P = torch.arange(len(case.row_P)) % 5
    table = with_context(getattr(case, form)(), grade_P=grade_P)
    score, mask = case.scores().tolist(), case.positive_mask().tolist()
    expected = sum(
        (score[row][column] - grade) ** 2 / 2
        + sum(s * s for s, p in zip(score[row], mask[row], strict=True) if not p) / 2
        for row, column, grade in zip(case.row_P.tolist(), case.column_P.tolist(), grade_P.tolist(), strict=True)
    )
    assert MSE()(table).item() == pytest.approx(expected / len(case.row_P), rel=1e-12)


def test_ccl_is_torchs_cosine_embedding_loss() -> None:
    """That loss is 1 − cos for positives and max(0, cos − m) for negatives."""
    user, item, others = normal(5, 4), normal(5, 4, seed=1), normal(7, 4, seed=2)
    pos, neg = F.cosine_similarity(user, item), F.cosine_similarity(user.unsqueeze(1), others.unsqueeze(0), dim=2)
    near = F.cosine_embedding_loss(user, item, torch.ones(5))
    away = F.cosine_embedding_loss(user.repeat_interleave(7, 0), others.repeat(5, 1), -torch.ones(35), margin=0.2)
    torch.testing.assert_close(CCL(margin=0.2, weight=3.0)(pos, neg), near + 3 * away)


def test_ccl_passes_nothing_on_once_all_negatives_are_below_the_margin() -> None:
    neg = torch.tensor([[0.1, -0.4]], requires_grad=True)
    for margin, still in ((0.5, True), (-1.0, False)):
        (grad,) = torch.autograd.grad(CCL(margin=margin)(torch.tensor([0.9]), neg), neg)
        assert bool((grad == 0).all()) == still


# ----------------------------------------------------------------------------------------------------------------- TCE


def kept_share(loss: TCE, n_positives: int = 1000) -> float:
    """What is left of the positives' terms, all of which are ln 2."""
    return loss(torch.zeros(n_positives, dtype=torch.float64), torch.zeros(n_positives, 0)).item() / LN2


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_tce_leaves_out_more_and_more(exponent: float) -> None:
    loss = TCE(drop=0.3, gradual=10, exponent=exponent)
    for step in range(15):
        dropped = math.floor(1000 * 0.3 * min(1.0, step / 10) ** exponent + 1e-9)
        assert kept_share(loss) == pytest.approx(1 - dropped / 1000, abs=1e-12)
    assert int(loss.step) == 15


def test_tce_counts_only_in_training_and_anew_for_each() -> None:
    loss = TCE(drop=0.3, gradual=4)
    for _ in range(3):
        kept_share(loss)
    loss.eval()
    assert [kept_share(loss) for _ in range(3)] == [kept_share(loss)] * 3
    assert int(loss.step) == 3
    loss.initialize(Sizes(n_keys=2, n_items=2, n_pairs=2), torch.Generator())
    assert int(loss.step) == 0


def test_tce_leaves_out_the_worst_positives_and_no_negative() -> None:
    """The gradient vanishes at the positives of lowest score over all rows, and nowhere else."""
    score_RC = normal(6, 12).requires_grad_()
    positive_RC = normal(6, 12, seed=1) > 0.4
    loss = TCE(drop=0.25, gradual=0)
    (grad_RC,) = torch.autograd.grad(loss(DenseTable.from_matrix(score_RC, positive_RC)), score_RC)
    n_positives = int(positive_RC.sum())
    worst = torch.sort(score_RC.detach()[positive_RC]).values[: n_positives // 4]
    silent_RC = positive_RC & torch.isin(score_RC.detach(), worst)
    assert 0 < int(silent_RC.sum()) == n_positives // 4
    weight_RC = torch.where(positive_RC, 1, positive_RC.sum(1, keepdim=True)) / n_positives
    slope_RC = torch.where(positive_RC, -torch.sigmoid(-score_RC), torch.sigmoid(score_RC)) * weight_RC
    torch.testing.assert_close(grad_RC, slope_RC.detach().masked_fill(silent_RC, 0))


@pytest.mark.parametrize("share", [0.1, 0.29, 0.3, 0.7])
def test_tce_counts_whole_shares_as_whole(share: float) -> None:
    """0.29·100 is 28.999999999999996 in floats."""
    assert kept_share(TCE(drop=share, gradual=0), 100) == pytest.approx(1 - share, abs=1e-12)


def test_tce_without_truncation_is_bce() -> None:
    pos, neg = normal(9), normal(9, 4, seed=1)
    assert torch.equal(TCE(drop=0.0, gradual=0)(pos, neg), BCE()(pos, neg))


def test_tce_goes_on_counting_after_a_checkpoint(tmp_path: Path) -> None:
    """Stopped after two epochs of four and resumed, it ends with the same bits as without a stop."""

    def made(epochs: int) -> tuple[TCE, object]:
        loss = TCE(drop=0.4, gradual=20)
        return loss, training(loss, batch=50, epochs=epochs)

    (whole_loss, whole), (_, first), (loss, second) = made(4), made(4), made(4)
    whole.run()
    first.epoch()
    first.epoch()
    first.save(tmp_path / "checkpoint", {})
    second.resume(tmp_path / "checkpoint", {})
    assert int(loss.step) == 2 * second.batches.steps
    second.run()
    assert int(loss.step) == int(whole_loss.step) == 4 * whole.batches.steps
    for name, tensor in whole.model.state().items():
        assert torch.equal(second.model.state()[name], tensor)
    assert [line["loss"] for line in whole.progress.log] == [line["loss"] for line in second.progress.log]


# ----------------------------------------------------------------------------------------------------------------- RCE


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("alpha", [0.2, 1.0, 2.5])
def test_gradient_of_rce_is_that_of_bce_by_its_weights(form: str, alpha: float) -> None:
    """∂L/∂s: −σ(s)^α·σ(−s) at positives, σ(−s)^α·σ(s) at negatives, by loops."""
    case = random_case(3, rows=6, items=11, bias=True)
    grads = torch.autograd.grad(RCE(alpha=alpha)(getattr(case, form)()), case.vectors())
    positive_RC, score_RC = case.positive_mask(), case.scores().detach()
    grad_RC = torch.zeros_like(score_RC)
    for row, scores in enumerate(score_RC.tolist()):
        for column, s in enumerate(scores):
            yes = 1 / (1 + math.exp(-s))
            if positive_RC[row, column]:
                grad_RC[row, column] = -(yes**alpha) * (1 - yes)
            else:
                grad_RC[row, column] = int(positive_RC[row].sum()) * (1 - yes) ** alpha * yes
    grad_RC /= int(positive_RC.sum())
    torch.testing.assert_close(grads[0], grad_RC @ case.item_CD.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(grads[1], grad_RC.T @ case.row_RD.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(grads[2], grad_RC.sum(0), rtol=1e-10, atol=1e-12)


def test_rce_without_weights_is_bce() -> None:
    pos, neg = normal(9), normal(9, 4, seed=1)
    assert torch.equal(RCE(alpha=0.0)(pos, neg), BCE()(pos, neg))
