"""Stand-ins for NDCG beyond the suite: what they become in the limit, what they keep from step to step."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import ndcg_score
from torch import Tensor

from losses.entries.surrogates import sigmoid
from losses.graded import graded_table, separated
from scores.tables import Case, random_case, with_context
from shortlist.errors import ShortlistError
from shortlist.losses import SONG, ApproxNDCG, GuidedRec, Loss, SONGAtK
from shortlist.scores import DenseTable, ScoreTable, Sizes, TableContext
from shortlist.training import Progress
from training.fixtures import training

FORMS = ["dense", "factored", "factored_apart"]


@pytest.mark.parametrize("is_graded", [False, True])
def test_a_sharp_approx_ndcg_is_ndcg(is_graded: bool) -> None:
    """scikit-learn's NDCG takes gains as they are given."""
    score_RC, label_RC = separated(0)
    label_RC = label_RC if is_graded else label_RC.clamp(max=1)
    table = graded_table(score_RC, label_RC) if is_graded else DenseTable.from_matrix(score_RC, label_RC > 0)
    expected = ndcg_score(2.0 ** label_RC.numpy() - 1, score_RC.numpy())
    assert ApproxNDCG(sharpness=100.0)(table).item() == pytest.approx(-expected, rel=1e-9)


def test_approx_ndcg_of_a_sample_stands_for_the_catalogue() -> None:
    pos, neg = torch.tensor([0.0]).double(), torch.tensor([[1.0, -1.0]]).double()
    rank = 1 + 49 / 2 * (sigmoid(1.0) + sigmoid(-1.0))
    assert ApproxNDCG()(pos, neg, n_items=50).item() == pytest.approx(-1 / math.log2(1 + rank))


# -------------------------------------------------------------------------------------------------------------- SONG


def with_ids(table: ScoreTable, users: list[int], first_pair: int = 0) -> ScoreTable:
    return with_context(table, key_R=torch.tensor(users), pair_P=first_pair + torch.arange(table.n_positives))


def steps(seed: int, count: int) -> list[Case]:
    """The same rows and positives with other vectors, as training would leave them."""
    first = random_case(seed, rows=5, items=9)
    cases = []
    for number in range(count):
        other = random_case(seed + 100 + number, rows=5, items=9)
        cases.append(Case(other.row_RD, other.item_CD, first.row_P, first.column_P))
    return cases


def estimates(case: Case, margin: float = 1.0) -> Tensor:
    """ĝ of each positive, in a form that torch differentiates."""
    score_RC, positive_RC = case.scores(), case.positive_mask()
    return torch.stack(
        [
            (score_RC[r][~positive_RC[r]] - score_RC[r, c] + margin).clamp(min=0).square().mean()
            for r, c in zip(case.row_P.tolist(), case.column_P.tolist(), strict=True)
        ]
    )


def ideals(case: Case, k: int) -> list[float]:
    """The ideal DCG of the row of each positive, among the first k places."""
    counts = [min(k, int((case.row_P == row).sum())) for row in case.row_P.tolist()]
    return [sum(1 / math.log2(2 + place) for place in range(count)) for count in counts]


def f_and_slope(u: float, n_negatives: int, ideal: float) -> tuple[float, float]:
    """f and f′ of u, the slope by a difference quotient."""

    def f(g: float) -> float:
        return -1 / (ideal * math.log2(2 + n_negatives * g))

    return f(u), (f(u + 1e-6) - f(u - 1e-6)) / 2e-6


@pytest.mark.parametrize("form", FORMS)
def test_song_moves_its_averages_and_takes_its_slope_there(form: str) -> None:
    loss, kept = SONG(gamma=0.3), {}
    cases = steps(0, 4)
    n_pairs = len(cases[0].row_P)
    loss.initialize(Sizes(n_keys=5, n_items=9, n_pairs=n_pairs + 3), torch.Generator())
    loss.double()
    for case in cases:
        table = with_ids(getattr(case, form)(), [0, 1, 2, 3, 4], first_pair=3)
        estimate_P, expected, surrogate = estimates(case), 0.0, torch.zeros((), dtype=torch.float64)
        for p, g in enumerate(estimate_P.tolist()):
            kept[p] = 0.7 * kept[p] + 0.3 * g if p in kept else g
            value, slope = f_and_slope(kept[p], int(table.n_represented_R[case.row_P[p]]), ideals(case, 9)[p])
            expected, surrogate = expected + value / n_pairs, surrogate + slope * estimate_P[p] / n_pairs
        value = loss(table)
        assert value.item() == pytest.approx(expected, rel=1e-9)
        ours, theirs = torch.autograd.grad(value, case.vectors()), torch.autograd.grad(surrogate, case.vectors())
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)
    assert loss.average is not None
    assert bool(loss.average[:3].isnan().all())
    torch.testing.assert_close(loss.average[3:], torch.tensor([kept[p] for p in range(n_pairs)], dtype=torch.float64))


def test_song_with_gamma_1_remembers_nothing() -> None:
    loss = SONG(gamma=1.0)
    cases = steps(1, 2)
    loss.initialize(Sizes(n_keys=5, n_items=9, n_pairs=len(cases[0].row_P)), torch.Generator())
    for case in cases:
        torch.testing.assert_close(loss(with_ids(case.factored(), [0, 1, 2, 3, 4])), SONG()(case.factored()))


@pytest.mark.parametrize("loss", [SONG(gamma=0.5), SONGAtK(k=2, gradient="theo", gamma=0.5)])
def test_nothing_moves_where_nothing_is_trained(loss: Loss) -> None:
    first, second = steps(2, 2)
    loss.initialize(Sizes(n_keys=5, n_items=9, n_pairs=len(first.row_P)), torch.Generator())
    loss(with_ids(first.factored(), [0, 1, 2, 3, 4]))
    before = {name: tensor.clone() for name, tensor in loss.state_dict().items()}
    assert before
    with torch.no_grad():
        loss(with_ids(second.factored(), [0, 1, 2, 3, 4]))
    loss.eval()
    loss(with_ids(second.factored(), [0, 1, 2, 3, 4]))
    loss.train()
    for name, tensor in loss.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)
    loss(with_ids(second.factored(), [0, 1, 2, 3, 4]))
    assert not torch.equal(loss.state_dict()["average"], before["average"])


# ------------------------------------------------------------------------------------------------------------ SONG@K


def lower_level(lam: float, scores: list[float], loss: SONGAtK) -> float:
    """The gradient of the lower level's objective at λ, by a difference quotient of the objective."""

    def objective(x: float) -> float:
        n = len(scores)
        spread = sum(loss.tau1 * math.log1p(math.exp(min(700, (s - x) / loss.tau1))) for s in scores) / n
        return (loss.k + 0.5) * x / n + loss.tau2 * x**2 / 2 + spread

    return (objective(lam + 1e-5) - objective(lam - 1e-5)) / 2e-5


@pytest.mark.parametrize("form", FORMS)
def test_song_at_k_moves_its_thresholds_down_the_lower_level(form: str) -> None:
    loss, lam = SONGAtK(k=2, eta=0.4, tau1=0.2, tau2=0.05), [0.0] * 5
    loss.initialize(Sizes(n_keys=5, n_items=9, n_pairs=40), torch.Generator())
    loss.double()
    for case in steps(3, 3):
        loss(with_ids(getattr(case, form)(), [4, 0, 1, 2, 3]))
        for row, user in enumerate([4, 0, 1, 2, 3]):
            lam[user] -= 0.4 * lower_level(lam[user], case.scores()[row].tolist(), loss)
        assert loss.threshold is not None
        torch.testing.assert_close(loss.threshold.tolist(), lam, rtol=1e-6, atol=1e-7)


def test_song_at_k_counts_all_positives_of_a_user_whose_pairs_are_drawn() -> None:
    """Each positive in a row of its own, with all negatives: λ moves as from the user's whole row."""
    whole = SONGAtK(k=2, eta=0.4, tau1=0.2, tau2=0.05)
    drawn = SONGAtK(k=2, eta=0.4, tau1=0.2, tau2=0.05)
    for loss in (whole, drawn):
        loss.initialize(Sizes(n_keys=1, n_items=7, n_pairs=3), torch.Generator())
        loss.double()
    score_C = torch.tensor([0.9, 0.1, -0.3, 0.5, 0.4, -0.2, 0.05]).double().requires_grad_()
    context = TableContext(n_items=7)
    table = DenseTable.from_matrix(score_C[None], torch.tensor([[True] * 3 + [False] * 4]), context=context)
    whole(with_ids(table, [0]))
    context = TableContext(n_items=7, n_negatives_R=torch.full((3,), 4.0).double())
    pairs = DenseTable.from_pairs(score_C[:3], score_C[3:].expand(3, 4), context=context)
    drawn(with_ids(pairs, [0, 0, 0]))
    assert whole.threshold is not None
    assert whole.threshold.item() != 0
    torch.testing.assert_close(drawn.threshold, whole.threshold, rtol=1e-12, atol=0)


def test_thresholds_of_song_at_k_find_the_score_after_the_last_place() -> None:
    case = random_case(4, rows=5, items=30)
    loss = SONGAtK(k=4, eta=1.0)
    loss.initialize(Sizes(n_keys=5, n_items=30, n_pairs=100), torch.Generator())
    for number in range(600):
        loss.eta = 1.0 if number < 300 else 0.01
        loss(with_ids(case.factored(), [0, 1, 2, 3, 4]))
    fifth_R = case.scores().detach().topk(5, 1).values[:, -1]
    assert loss.threshold is not None
    torch.testing.assert_close(loss.threshold, fifth_R.float(), rtol=0, atol=0.05)


def test_a_user_in_several_rows_moves_by_the_mean_and_samples_stand_for_the_catalogue() -> None:
    loss = SONGAtK(k=1, eta=0.5, tau1=0.5, tau2=0.1)
    loss.initialize(Sizes(n_keys=2, n_items=20, n_pairs=3), torch.Generator())
    loss.double()
    pos, neg = torch.tensor([0.3, -0.2, 1.0]).double(), torch.tensor([[0.5, -1.0], [0.1, 0.2], [0.0, 2.0]]).double()
    loss(pos.requires_grad_(), neg, keys=torch.tensor([1, 1, 0]), pairs=torch.arange(3), n_items=20)

    def gradient(row: int) -> float:
        share = sigmoid(pos[row].item() / 0.5) + 19 / 2 * sum(sigmoid(x / 0.5) for x in neg[row].tolist())
        return 1.5 / 20 - share / 20

    expected = [-0.5 * gradient(2), -0.5 * (gradient(0) + gradient(1)) / 2]
    assert loss.threshold is not None
    torch.testing.assert_close(loss.threshold.tolist(), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gradient", ["prac", "theo"])
def test_gradient_of_song_at_k(gradient: Any, form: str) -> None:
    """ψ·f′(u)·∇ĝ, and with theo ψ′·f(u)·(∇s_i − Σ_j h_j·∇s_j/(n·H)), over two steps."""
    loss = SONGAtK(k=2, gradient=gradient, gamma=0.3, gamma1=0.6, tau1=0.3, tau2=0.05, sharpness=1.5, eta=0.2)
    loss.initialize(Sizes(n_keys=5, n_items=9, n_pairs=40), torch.Generator())
    loss.double()
    averages: dict[int, float] = {}
    bends: dict[int, float] = {}
    for case in steps(5, 2):
        assert loss.threshold is not None
        lam, score_RC = loss.threshold.tolist(), case.scores()
        table, estimate_P = with_ids(getattr(case, form)(), [0, 1, 2, 3, 4]), estimates(case)
        window = [
            [sigmoid((s - lam[r]) / 0.3) * (1 - sigmoid((s - lam[r]) / 0.3)) / 0.3 for s in scores]
            for r, scores in enumerate(score_RC.tolist())
        ]
        for r in range(5):
            bend = 0.05 + sum(window[r]) / 9
            bends[r] = 0.4 * bends[r] + 0.6 * bend if r in bends else bend
        surrogate = torch.zeros((), dtype=torch.float64)
        for p, (r, c) in enumerate(zip(case.row_P.tolist(), case.column_P.tolist(), strict=True)):
            g = estimate_P[p].item()
            averages[p] = 0.7 * averages[p] + 0.3 * g if p in averages else g
            value, slope = f_and_slope(averages[p], int(table.n_represented_R[r]), ideals(case, 2)[p])
            psi = sigmoid(1.5 * (score_RC[r, c].item() - lam[r]))
            surrogate = surrogate + psi * slope * estimate_P[p]
            if gradient == "theo":
                mean = (torch.tensor(window[r], dtype=torch.float64) * score_RC[r]).sum() / 9 / bends[r]
                surrogate = surrogate + 1.5 * psi * (1 - psi) * value * (score_RC[r, c] - mean)
        ours = torch.autograd.grad(loss(table), case.vectors())
        theirs = torch.autograd.grad(surrogate / len(case.row_P), case.vectors())
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", [SONG(normalised=False), SONGAtK(normalised=False)])
def test_without_the_ideal_positives_stand_alone(loss: Loss) -> None:
    """Pair by pair, each with the user's negatives."""
    case = random_case(0, rows=6, items=15)
    score_RC, positive_RC = case.scores(), case.positive_mask()
    values = [
        loss(score_RC[row, column].view(1), score_RC[row][~positive_RC[row]].view(1, -1))
        for row, column in positive_RC.nonzero().tolist()
    ]
    torch.testing.assert_close(torch.stack(values).mean(), loss(case.factored()))


def test_song_at_k_with_thresholds_far_below_is_song() -> None:
    case = random_case(6, rows=5, items=12)
    loss = SONGAtK(gradient="prac")
    loss.initialize(Sizes(n_keys=5, n_items=12, n_pairs=100), torch.Generator())
    assert loss.threshold is not None
    loss.threshold.fill_(-1e6)
    table = with_context(case.factored(), key_R=torch.arange(5))
    values = [loss(table), SONG()(case.factored())]
    torch.testing.assert_close(*values, rtol=1e-12, atol=0)
    grads = [torch.autograd.grad(value, case.vectors()) for value in values]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-14)


# ----------------------------------------------------------------------------------------------------- what is kept

STATEFUL: dict[str, Callable[[], Loss]] = {
    "song": lambda: SONG(gamma=0.3),
    "song_at_k": lambda: SONGAtK(k=5, gradient="theo", gamma=0.3),
    "guidedrec": lambda: GuidedRec(negatives=5),
}


@pytest.mark.parametrize("candidates", ["all", "shared", "pairs"])
@pytest.mark.parametrize("name", STATEFUL)
def test_stopped_and_resumed_gives_the_same_bits(name: str, candidates: str, tmp_path: Path) -> None:
    def make() -> Any:
        return training(STATEFUL[name](), candidates=candidates, negatives=12, epochs=4)

    whole, path = make(), tmp_path / "checkpoint"
    whole.run()

    def stop(progress: Progress) -> None:
        if progress.epoch == 3:  # which is not saved yet
            raise KeyboardInterrupt

    with pytest.raises(ShortlistError, match="stopped in epoch"):
        make().run(path, {}, on_epoch=stop)
    again = make()
    again.resume(path, {})
    assert again.progress.epoch == 2
    again.run(path, {})
    states = [{**each.model.state(), **each.loss.state_dict()} for each in (whole, again)]
    assert len(states[0]) > 2
    for key, tensor in states[0].items():
        assert np.array_equal(tensor.numpy(), states[1][key].numpy(), equal_nan=True), key


# -------------------------------------------------------------------------------------------- samples, and bounds


@pytest.mark.parametrize("loss", [ApproxNDCG(), SONG(), SONGAtK()])
def test_exact_is_the_limit_of_sampled(loss: Loss) -> None:
    """The error falls as the square root of the number of draws, which stand for the whole catalogue."""
    g = torch.Generator().manual_seed(0)
    score_C = torch.randn(2000, generator=g, dtype=torch.float64) * 0.3
    pos = torch.tensor([0.8], dtype=torch.float64)
    exact = loss(pos, score_C[1:].unsqueeze(0))
    errors = []
    for draws in (100, 1600, 25600):
        drawn = [score_C[1 + torch.randint(1999, (1, draws), generator=g)] for _ in range(100)]
        errors.append(sum(abs(float(loss(pos, neg, n_items=2000) - exact)) for neg in drawn) / 100)
    assert 2.5 < errors[0] / errors[1] < 6.5  # 4 in the limit
    assert 2.5 < errors[1] / errors[2] < 6.5


@pytest.mark.parametrize("margin", [1.0, 1.5])
def test_song_never_promises_more_than_dcg(margin: float) -> None:
    """With c ≥ 1 the squared hinges count at least those that stand above: the rank is at least the true one."""
    for seed in range(50):
        g = torch.Generator().manual_seed(seed)
        pos, neg = torch.randn(1, generator=g).double(), torch.randn(1, 8, generator=g).double()
        rank = 1 + int((neg >= pos).sum())
        assert -SONG(margin=margin)(pos, neg).item() <= 1 / math.log2(1 + rank) + 1e-12


def test_a_user_of_several_rows_keeps_the_mean_of_their_curvatures() -> None:
    """Of drawn pairs: what is kept is not that of the last row alone, and each alone gives another."""
    pos, neg, users = torch.tensor([0.5, 0.1]), torch.tensor([[0.0, 0.01], [0.9, 0.8]]), torch.tensor([4, 4])

    def kept_by(rows: list[int]) -> float:
        loss = SONGAtK(k=1, gradient="theo")
        loss.initialize(Sizes(n_keys=5, n_items=8, n_pairs=2), torch.Generator())
        loss(pos[rows].requires_grad_(), neg[rows], keys=users[rows], pairs=torch.tensor(rows), n_items=8)
        assert loss.curvature is not None
        return float(loss.curvature[4])

    each = [kept_by([0]), kept_by([1])]
    assert each[0] != pytest.approx(each[1], rel=0.5)
    assert kept_by([0, 1]) == pytest.approx(sum(each) / 2)
    assert kept_by([1, 0]) == pytest.approx(sum(each) / 2)
