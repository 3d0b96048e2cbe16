"""AUC and its partial forms: the saddle that their scalars are after, and the way there."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from losses.entries.auc import naive, share, square_of_negative, square_of_positive
from losses.oracle import Row, softplus
from scores.tables import Case, random_case
from shortlist.losses import AUC, LLPAUC, OPAUC, Loss, registry
from shortlist.losses.auc import Minimax, SquareOfNegatives, TopOfNegatives
from shortlist.scores import DenseTable, Kernel, ScoreTable, Sizes
from training.fixtures import training

FORMS = ["dense", "factored", "factored_apart"]
NAMES = ["auc", "opauc", "llpauc"]
ELSEWHERE = {"a": 0.7, "b": 0.2, "gamma": -0.3, "s_neg": 0.9, "s_pos": 1.1}
"""Values of the scalars that are none of those they start at."""


def at(loss: Loss, **values: float) -> Loss:
    """The loss with its scalars, as far as it has them, at given values."""
    with torch.no_grad():
        for name, buffer in loss.named_buffers():
            buffer.fill_(values[name])
    return loss


def scalars(loss: Loss) -> dict[str, float]:
    return {name: buffer.item() for name, buffer in loss.named_buffers()}


def rows_of(case: Case) -> list[Row]:
    positive_RC = case.positive_mask()
    return [Row(s, p, 0.0) for s, p in zip(case.scores().tolist(), positive_RC.tolist(), strict=True)]


def made(name: str, **settings: Any) -> Minimax:
    loss = registry[name](**settings)
    assert isinstance(loss, Minimax)
    return loss


# ------------------------------------------------------------------------------------------------- values off the start


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_value_with_scalars_elsewhere_agrees_with_loops(name: str, form: str) -> None:
    for seed, shape in enumerate([{"rows": 5, "items": 9}, {"rows": 7, "items": 30, "bias": True, "max_elements": 60}]):
        case, loss = random_case(seed, **shape), at(made(name), **ELSEWHERE)
        table: ScoreTable = getattr(case, form)()
        expected = naive(loss.settings(), rows_of(case), ELSEWHERE)
        assert loss(table).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_scalars_agree_with_numerical_ones(name: str, weights: bool, form: str) -> None:
    """And those of the vectors at the same place."""
    case, loss = random_case(3, rows=5, items=8, weights=weights), at(made(name), **ELSEWHERE)
    names = list(loss.scalars)

    def value(*inputs: Tensor) -> Tensor:
        changed = Case(inputs[0], inputs[1], case.row_P, case.column_P, None, case.log_weight_C)
        table: ScoreTable = getattr(changed, form)()
        buffers = dict(zip(names, inputs[2:], strict=True))
        result: Tensor = torch.func.functional_call(loss, buffers, (table,))
        return result

    moved = [buffer.detach().clone().requires_grad_() for buffer in loss.buffers()]
    assert torch.autograd.gradcheck(value, (case.row_RD, case.item_CD, *moved))


@pytest.mark.parametrize("kappa", [None, 3.0, 1000.0])
def test_kernels_are_nothing_at_minus_infinity(kappa: float | None) -> None:
    b, gamma, s = (torch.tensor(ELSEWHERE[name], dtype=torch.float64) for name in ("b", "gamma", "s_neg"))
    kernel: Kernel = SquareOfNegatives(b, gamma) if kappa is None else TopOfNegatives(b, gamma, s, kappa)
    for dtype in (torch.float32, torch.float64):
        nowhere = torch.full((3,), -torch.inf, dtype=dtype)
        for result in (kernel.value(nowhere), kernel.slope(nowhere), *kernel.parameter_slopes(nowhere)):
            assert result.dtype == dtype
            assert result.tolist() == [0.0, 0.0, 0.0]


def test_weights_stand_for_more_items() -> None:
    """A negative of weight 3 is three negatives, where the population says so."""
    pos, neg = torch.tensor([0.4]).double(), torch.tensor([[1.0, -0.5]]).double()
    weight, row = torch.tensor([3.0, 1.0]).double().log(), torch.tensor([0])
    for name in NAMES:
        loss = at(made(name), **ELSEWHERE)
        table = DenseTable(pos, row, neg, log_weight=weight, n_represented_R=torch.tensor([4.0]).double())
        torch.testing.assert_close(loss(table), loss(pos, torch.tensor([[1.0, 1.0, 1.0, -0.5]]).double()))


# ----------------------------------------------------------------------------------------------------------- the saddle


def case_and_shares(seed: int = 1) -> tuple[Case, list[float], list[tuple[float, float]]]:
    """A case, f of its positives that have a negative, and f of negatives, each with its weight in E₋."""
    case = random_case(seed, rows=6, items=12)
    positives, negatives = [], []
    for row in rows_of(case):
        for positive in row.positives:
            positives.append(share(positive))
            negatives += [(share(negative), 1 / len(row.negatives)) for negative in row.negatives]
    return case, positives, negatives


def mean(weighted: Sequence[tuple[float, float]]) -> float:
    return sum(value * weight for value, weight in weighted) / sum(weight for _, weight in weighted)


@pytest.mark.parametrize("form", FORMS)
def test_auc_at_its_saddle_is_the_square_loss_of_all_pairs(form: str) -> None:
    case, positives, negatives = case_and_shares()
    a, b = statistics.fmean(positives), mean(negatives)
    loss = at(AUC(), a=a, b=b, gamma=b - a)
    pairs = statistics.fmean(mean([((1 - f + g) ** 2, weight) for g, weight in negatives]) for f in positives)
    value = loss(getattr(case, form)())
    assert value.item() == pytest.approx(pairs, rel=1e-12)
    value.backward()
    assert [buffer.grad.item() for buffer in loss.buffers() if buffer.grad is not None] == pytest.approx([0.0] * 3)
    for name, sign in {"a": 1, "b": 1, "gamma": -1}.items():  # lowest in a and b, highest in γ
        for by in (-0.1, 0.1):
            off = at(AUC(), **{**scalars(loss), name: scalars(loss)[name] + by})
            assert off(getattr(case, form)()).item() - pairs == pytest.approx(sign * by**2, rel=1e-9)


def test_partial_forms_with_all_items_are_the_whole_one_but_for_the_smoothing() -> None:
    """r_κ(x) = x + ln(1 + e^{−κx})/κ, with s⁺ and s⁻ at the least values of −ℓ₊ and ℓ₋."""
    place = {**ELSEWHERE, "s_neg": 0.0, "s_pos": -1.0}
    case, positives, negatives = case_and_shares()
    whole = at(AUC(), **place)(case.factored()).item()
    for kappa in (0.5, 5.0, 100.0):
        below = statistics.fmean(softplus(-kappa * (1 - square_of_positive(f, place))) / kappa for f in positives)
        above = mean([(softplus(-kappa * square_of_negative(g, place)) / kappa, weight) for g, weight in negatives])
        assert 0 < below < math.log(2) / kappa
        assert 0 < above < math.log(2) / kappa
        opauc = at(OPAUC(beta=1.0, kappa=kappa), **place)(case.factored()).item()
        llpauc = at(LLPAUC(alpha=1.0, beta=1.0, kappa=kappa), **place)(case.factored()).item()
        assert opauc == pytest.approx(whole + above, rel=1e-12)
        assert llpauc == pytest.approx(whole + above - below, rel=1e-12)
        for beta in (0.1, 0.6):
            opauc = at(OPAUC(beta=beta, kappa=kappa), **place)(case.factored()).item()
            llpauc = at(LLPAUC(alpha=1.0, beta=beta, kappa=kappa), **place)(case.factored()).item()
            assert llpauc == pytest.approx(opauc - below, rel=1e-12)


def toy() -> tuple[Tensor, Tensor, list[float], list[float]]:
    """Scores of ten positives that share twenty negatives, and f of both, best first."""
    g = torch.Generator().manual_seed(0)
    pos, neg = torch.randn(10, generator=g).double() + 0.5, torch.randn(20, generator=g).double()
    shares = (sorted((share(s) for s in scores.tolist()), reverse=True) for scores in (pos, neg))
    return pos, neg.expand(10, 20), *shares


def chosen(alpha: float, beta: float) -> tuple[dict[str, float], float]:
    """The scalars that LLPAUC's saddle tends to, and the square loss of pairs of chosen items."""
    _, _, positives, negatives = toy()
    positives, negatives = positives[: round(alpha * 10)], negatives[: round(beta * 20)]
    a, b = statistics.fmean(positives), statistics.fmean(negatives)
    pairs = statistics.fmean((1 - f + g) ** 2 for f, g in itertools.product(positives, negatives))
    return {"a": a, "b": b, "gamma": b - a}, pairs


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.25), (0.2, 0.1), (1.0, 0.3), (0.7, 1.0)])
def test_llpauc_at_the_saddle_of_chosen_items_is_their_square_loss(alpha: float, beta: float) -> None:
    """With κ so large that r_κ is the hinge, and s⁺, s⁻ at −ℓ₊ and ℓ₋ of the last that is chosen."""
    pos, neg, positives, negatives = toy()
    place, pairs = chosen(alpha, beta)
    place["s_pos"] = -square_of_positive(positives[round(alpha * 10) - 1], place)
    place["s_neg"] = square_of_negative(negatives[round(beta * 20) - 1], place)
    value = at(LLPAUC(alpha=alpha, beta=beta, kappa=1e9), **place)(pos, neg)
    assert value.item() == pytest.approx(pairs, rel=1e-7)


# ------------------------------------------------------------------------------------------------ the way to the saddle


def settle(loss: Loss, steps: int = 600) -> dict[str, float]:
    """Descent and ascent with the model held still, at a falling rate."""
    pos, neg, _, _ = toy()
    for step in range(steps):
        loss(pos, neg).backward()
        loss.after_step(0.1 / (1 + step / 60))
    return scalars(loss)


def test_scalars_of_auc_settle_at_the_means() -> None:
    expected, pairs = chosen(1.0, 1.0)
    loss = AUC()
    assert settle(loss) == pytest.approx(expected, abs=1e-9)
    assert loss(*toy()[:2]).item() == pytest.approx(pairs, rel=1e-9)


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.25), (0.7, 0.1)])
def test_scalars_of_llpauc_settle_at_the_means_of_the_chosen_as_kappa_grows(alpha: float, beta: float) -> None:
    expected, pairs = chosen(alpha, beta)
    errors = []
    for kappa in (5.0, 30.0, 300.0):
        loss = LLPAUC(alpha=alpha, beta=beta, kappa=kappa)
        found = settle(loss)
        errors.append(max(abs(found[name] - value) for name, value in expected.items()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 5e-3
    assert loss(*toy()[:2]).item() == pytest.approx(pairs, abs=5e-3)


@pytest.mark.parametrize("beta", [0.25, 0.1])
def test_scalars_of_opauc_settle_at_the_means_of_the_chosen_as_kappa_grows(beta: float) -> None:
    expected, pairs = chosen(1.0, beta)
    loss = OPAUC(beta=beta, kappa=300.0)
    found = settle(loss)
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=5e-3)
    assert loss(*toy()[:2]).item() == pytest.approx(pairs, abs=5e-3)


def test_one_step_is_down_or_up_and_no_further_than_the_rate_allows() -> None:
    loss = at(LLPAUC(scalar_lr_ratio=0.5), **ELSEWHERE)
    for buffer, gradient in zip(loss.buffers(), (0.2, -0.4, 0.3, -99.0, 0.6), strict=True):
        buffer.grad = torch.tensor(gradient, dtype=torch.float64)
    assert list(loss.scalars) == ["a", "b", "gamma", "s_neg", "s_pos"]
    loss.after_step(0.1)
    # half the rate: 0.05 for a, b and γ, 0.2 for the others; s⁻ has the clipped gradient −1
    expected = {"a": 0.7 - 0.05 * 0.2, "b": 0.2 + 0.05 * 0.4, "gamma": -0.3 + 0.05 * 0.3}
    expected |= {"s_neg": 0.9 + 0.2, "s_pos": 1.1 + 0.2 * 0.6}
    assert scalars(loss) == pytest.approx(expected, rel=1e-12)
    assert all(buffer.grad is None for buffer in loss.buffers())
    loss.after_step(0.1)  # without a gradient nothing moves
    assert scalars(loss) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_scalars_stay_in_their_boxes(name: str, sign: float) -> None:
    loss = made(name)
    for signs in itertools.product((-1.0, 1.0), repeat=len(loss.scalars)):
        for buffer, up in zip(loss.buffers(), signs, strict=True):
            buffer.grad = torch.tensor(sign * up, dtype=torch.float64)
        loss.after_step(100.0)
        now = scalars(loss)
        assert {now["a"], now["b"]} <= {0.0, 1.0}
        assert max(-now["a"], now["b"] - 1) <= now["gamma"] <= 1
        assert now.get("s_neg", 0.0) in {0.0, 5.0}
        assert now.get("s_pos", -1.0) in {-1.0, 4.0}


# ------------------------------------------------------------------------------------------------------- kept and found


def test_state_is_named_and_is_no_parameter() -> None:
    loss = at(LLPAUC(), **ELSEWHERE)
    assert not list(loss.parameters())
    assert {name: tensor.item() for name, tensor in loss.state_dict().items()} == ELSEWHERE


@pytest.mark.parametrize("name", NAMES)
def test_a_start_forgets_what_was_learnt(name: str) -> None:
    loss, fresh = at(made(name), **ELSEWHERE), made(name)
    loss(torch.zeros(1), torch.zeros(1, 2)).backward()
    loss.initialize(Sizes(n_keys=1, n_items=2, n_pairs=1), torch.Generator())
    loss.after_step(1.0)
    assert scalars(loss) == scalars(fresh)


def test_scalars_still_learn_after_a_change_of_type() -> None:
    loss = LLPAUC().to(torch.float32)
    value = loss(torch.zeros(2), torch.zeros(2, 3))
    value.backward()
    loss.after_step(0.1)
    assert all(buffer.dtype == torch.float32 for buffer in loss.buffers())
    assert all(now != was for now, was in zip(scalars(loss).values(), scalars(LLPAUC()).values(), strict=True))


@pytest.mark.parametrize("candidates", ["all", "shared", "pairs"])
@pytest.mark.parametrize("name", NAMES)
def test_next_step_is_the_same_after_saving_and_loading(name: str, candidates: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    settings: dict[str, Any] = {"candidates": candidates, "negatives": 12, "epochs": 8}
    whole = training(made(name), **settings)
    whole.run()
    first, second = training(made(name), **settings), training(made(name), **settings)
    for _ in range(3):
        first.epoch()
    first.save(path, {})
    second.resume(path, {})
    assert scalars(second.loss) == scalars(first.loss) != scalars(made(name))
    second.epoch()
    first.epoch()
    assert scalars(second.loss) == scalars(first.loss)
    assert torch.equal(second.model.state()["user"], first.model.state()["user"])
    second.run()
    assert scalars(second.loss) == scalars(whole.loss)
    assert torch.equal(second.model.state()["item"], whole.model.state()["item"])
