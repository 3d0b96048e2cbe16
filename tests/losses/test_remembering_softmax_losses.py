"""Softmax losses that remember: what they keep from step to step, and the gradients that come of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from scores.tables import random_case, with_context
from shortlist.errors import InputError
from shortlist.losses import SL, AdvInfoNCE, Loss, SLAtKDetached, SogCLR, SogSLAtK, registry
from shortlist.scores import Sizes
from training.fixtures import training

pytestmark = pytest.mark.usefixtures("thresholds_are_accepted")

G = torch.Generator


def started(loss: Loss, users: int = 6, items: int = 9, seed: int = 0) -> Loss:
    loss.initialize(Sizes(n_keys=users, n_items=items, n_pairs=20), G().manual_seed(seed))
    return loss


def scores(seed: int, rows: int = 4, negatives: int = 5) -> tuple[Tensor, Tensor]:
    g = G().manual_seed(seed)
    pos, neg = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((rows,), (rows, negatives)))
    return pos.requires_grad_(), neg.requires_grad_()


def means(negatives: Tensor, tau: float) -> list[float]:
    """ĝ of each row, by loops."""
    return [sum(math.exp(s / tau) for s in row) / len(row) for row in negatives.tolist()]


class Averages:
    """SogCLR's averages by loops: rows of one user give one ĝ, the mean of theirs; the first sets g."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.g: dict[int, float] = {}

    def step(self, users: list[int], now: list[float]) -> list[float]:
        for user in set(users):
            mine = [value for other, value in zip(users, now, strict=True) if other == user]
            new = sum(mine) / len(mine)
            self.g[user] = (1 - self.gamma) * self.g[user] + self.gamma * new if user in self.g else new
        return [self.g[user] for user in users]


STEPS = [[0, 1, 2, 3], [3, 2, 4, 0], [1, 1, 5, 1], [1, 0, 0, 4]]
"""Users of the rows of some steps: known and new, and several rows of one."""


@pytest.mark.parametrize("gamma", [0.1, 0.9, 1.0])
@pytest.mark.parametrize("tau", [0.2, 1.0])
def test_sogclr_over_steps(gamma: float, tau: float) -> None:
    """Value and gradient of each step, g among the constants, against loops and the published surrogate."""
    loss, averages = started(SogCLR(tau=tau, gamma=gamma)), Averages(gamma)
    for seed, users in enumerate(STEPS):
        pos, neg = scores(seed)
        value = loss(pos, neg, keys=torch.tensor(users))
        now = means(neg, tau)
        g = averages.step(users, now)
        terms = [math.log(b) + a / b - 1 - s / tau for a, b, s in zip(now, g, pos.tolist(), strict=True)]
        assert value.item() == pytest.approx(sum(terms) / 4, rel=1e-6)  # averages are kept in float32
        surrogate = (-pos / tau + (neg / tau).exp().mean(1) / torch.tensor(g, dtype=torch.float64)).mean()
        expected = torch.autograd.grad(surrogate, [pos, neg])
        for ours, theirs in zip(torch.autograd.grad(value, [pos, neg]), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-9)


def test_sogclr_bounds_sl_and_meets_it_on_first_visits() -> None:
    """ln ĝ ≤ ln g + ĝ/g − 1."""
    loss = started(SogCLR(gamma=0.3))
    for seed in range(6):
        pos, neg = scores(seed)
        ours, sl = loss(pos, neg, keys=torch.arange(4)).item(), (SL()(pos, neg) - math.log(5)).item()
        assert (ours == pytest.approx(sl, rel=1e-12)) if seed == 0 else (ours > sl)


@pytest.mark.parametrize("name", ["sogclr", "sogslatk"])
def test_gamma_of_one_forgets(name: str) -> None:
    """SL, and SL@K with a detached weight whose sum is scaled to one negative: value and gradient."""
    loss = started(registry[name](gamma=1.0))
    plain: Loss = SL() if name == "sogclr" else SLAtKDetached(positive_weight=1.0, tau_w=2.5, negatives=1.0)
    beta, constant = torch.linspace(-1, 1, 4, dtype=torch.float64), math.log(5) if name == "sogclr" else 0.0
    for seed in range(3):
        pos, neg = scores(seed)
        values = [one(pos, neg, threshold=beta, keys=torch.arange(4)) for one in (loss, plain)]
        torch.testing.assert_close(values[0], values[1] - constant, rtol=1e-12, atol=1e-12)
        ours, theirs = (torch.autograd.grad(value, [pos, neg]) for value in values)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", ["consistent", "published"])
def test_sogslatk_over_steps(form: Any) -> None:
    """The gradient of the surrogates in words: w·(−s/τ + ĝ/g), or −(w/mean w)·s/τ + ĝ/g."""
    loss, averages, tau = started(SogSLAtK(gamma=0.3, tau_w=0.7, form=form)), Averages(0.3), 0.2
    beta = torch.linspace(-1, 1, 4, dtype=torch.float64)
    for seed, users in enumerate(STEPS):
        pos, neg = scores(seed)
        g = torch.tensor(averages.step(users, means(neg, tau)), dtype=torch.float64)
        w = torch.sigmoid((pos.detach() - beta) / 0.7)
        pull, push = pos / tau, (neg / tau).exp().mean(1) / g
        surrogate = w * (push - pull) if form == "consistent" else push - w / w.mean() * pull
        expected = torch.autograd.grad(surrogate.mean(), [pos, neg])
        ours = torch.autograd.grad(loss(pos, neg, threshold=beta, keys=torch.tensor(users)), [pos, neg])
        for one, other in zip(ours, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["sogclr", "sogslatk"])
class TestAverages:
    def test_sharp_temperatures_stay_in_range(self, name: str) -> None:
        """e^{1/τ} = e^{100} is none of float32's numbers; averages of it are kept all the same."""
        loss = started(registry[name](tau=0.01, gamma=0.5))
        for level in (1.0, -1.0, 1.0, 0.0):
            pos, neg = torch.tensor([0.5], requires_grad=True), torch.full((1, 3), level, requires_grad=True)
            value = loss(pos, neg, keys=torch.tensor([2]), threshold=torch.zeros(1))
            grads = torch.autograd.grad(value, [pos, neg])
            assert all(bool(t.isfinite().all()) for t in (value, *grads))

    def test_users_without_negatives_move_nothing(self, name: str) -> None:
        loss, user = started(registry[name](gamma=0.5)), torch.tensor([2])
        beta = torch.zeros(1)
        loss(torch.ones(1), torch.zeros(1, 3), keys=user, threshold=beta)
        before = {key: tensor.clone() for key, tensor in loss.state_dict().items()}
        pos = torch.ones(1, requires_grad=True)
        value = loss(pos, torch.zeros(1, 0), keys=user, threshold=beta)
        assert value.item() == 0
        assert torch.autograd.grad(value, pos)[0].item() == 0
        for key, tensor in loss.state_dict().items():
            assert torch.equal(tensor, before[key])

    def test_looking_does_not_move_them(self, name: str) -> None:
        loss, (pos, neg) = started(registry[name](gamma=0.5)), scores(1)
        given = {"keys": torch.arange(4), "threshold": torch.zeros(4, dtype=torch.float64)}
        loss(pos, neg, **given)
        loss.eval()
        state = {key: tensor.clone() for key, tensor in loss.state_dict().items()}
        once, again = (loss(2 * pos, 2 * neg, **given) for _ in range(2))
        assert torch.equal(once, again)
        assert all(torch.equal(tensor, state[key]) for key, tensor in loss.state_dict().items())
        loss.train()
        assert torch.equal(loss(2 * pos, 2 * neg, **given), once)
        assert any(not torch.equal(tensor, state[key]) for key, tensor in loss.state_dict().items())

    def test_keys_need_initialized_state(self, name: str) -> None:
        pos, neg = scores(0)
        with pytest.raises(InputError, match=r"^loss\.initialize: expected a call with the number of keys"):
            registry[name]()(pos, neg, keys=torch.arange(4), threshold=torch.zeros(4))


# -------------------------------------------------------------------------------------------------------- AdvInfoNCE


def adversary(seed: int = 0, **settings: Any) -> AdvInfoNCE:
    """A started loss whose adversary is far from uniform, in its own float64 as everything here."""
    loss = AdvInfoNCE(**{"dim": 3, "negatives": None, **settings})
    started(loss, seed=seed)
    loss.double()
    for climber in (loss.users, loss.items):
        climber.vector.copy_(torch.randn(climber.vector.shape, generator=G().manual_seed(seed), dtype=torch.float64))
    return loss


def hardness(loss: AdvInfoNCE, user: int, items: list[int]) -> list[float]:
    """p of some items, by loops."""
    a, b = loss.users.vector.tolist()[user], loss.items.vector.tolist()
    logits = [sum(x * y for x, y in zip(a, b[item], strict=True)) for item in items]
    total = sum(math.exp(logit) for logit in logits)
    return [math.exp(logit) / total for logit in logits]


def adversarial_by_loops(loss: AdvInfoNCE, score_RC: Tensor, positive_RC: Tensor, users: list[int]) -> float:
    terms = []
    for row, scores_C in enumerate(score_RC.tolist()):
        positives = positive_RC[row].nonzero().flatten().tolist()
        negatives = [item for item in range(len(scores_C)) if item not in positives]
        p = hardness(loss, users[row], negatives) if negatives else []
        for item in positives:
            total = sum(
                q * math.exp((scores_C[j] - scores_C[item]) / loss.tau) for q, j in zip(p, negatives, strict=True)
            )
            terms.append(math.log(1 + loss.weight * len(negatives) * total))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("form", ["dense", "factored", "factored_apart"])
def test_hardness_weighs_negatives(form: str) -> None:
    for seed in range(3):
        loss, case = adversary(seed, tau=0.6, weight=3.0), random_case(seed, rows=6, items=9)
        ids: dict[str, Any] = {"key_R": torch.tensor([5, 0, 1, 1, 3, 2]), "item_C": torch.arange(9)}
        table = with_context(getattr(case, form)(), **ids)
        expected = adversarial_by_loops(loss, case.scores(), case.positive_mask(), ids["key_R"].tolist())
        assert loss(table).item() == pytest.approx(expected, rel=1e-10)
        grads = torch.autograd.grad(loss(table), case.vectors())
        dense = with_context(case.dense(), **ids)
        for ours, theirs in zip(grads, torch.autograd.grad(loss(dense), case.vectors()), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_drawn_negatives_have_the_hardness_of_their_items() -> None:
    loss, (pos, neg) = adversary(tau=0.6, weight=3.0), scores(0)
    items, users = torch.randint(9, (4, 5), generator=G().manual_seed(1)), torch.tensor([4, 4, 0, 2])
    terms = []
    for row in range(4):
        p = hardness(loss, int(users[row]), items[row].tolist())
        rivals = zip(p, neg[row].tolist(), strict=True)
        terms.append(math.log(1 + 3 * 5 * sum(q * math.exp((s - pos[row].item()) / 0.6) for q, s in rivals)))
    assert loss(pos, neg, keys=users, items=items).item() == pytest.approx(sum(terms) / 4, rel=1e-10)


def test_uniform_hardness_is_sl_with_the_positive_inside() -> None:
    """Where keys and items are not given, and also where the adversary's vectors are 0."""
    pos, neg = scores(2)
    expected = SL(denominator="all", tau=0.3)(pos, neg)
    loss = adversary(tau=0.3, weight=1.0)
    torch.testing.assert_close(loss(pos, neg), expected, rtol=1e-12, atol=1e-12)
    loss.items.vector.zero_()
    given = loss(pos, neg, keys=torch.arange(4), items=torch.arange(5))
    torch.testing.assert_close(given, expected, rtol=1e-12, atol=1e-12)


def test_it_is_the_cross_entropy_of_shifted_scores() -> None:
    """Torch's own: the positive is class 0, and negatives are shifted by ln(k·N·p)."""
    loss, (pos, neg) = adversary(tau=0.4, weight=3.0, negatives=50.0), scores(5)
    users, items = torch.tensor([0, 3, 3, 5]), torch.tensor([8, 1, 2, 7, 0])
    log_p = torch.log_softmax(loss.users.vector[users] @ loss.items.vector[items].T, 1)
    logit = torch.cat([pos.unsqueeze(1) / 0.4, neg / 0.4 + log_p + math.log(3 * 50)], 1)
    expected = torch.nn.functional.cross_entropy(logit, torch.zeros(4, dtype=torch.long))
    torch.testing.assert_close(loss(pos, neg, keys=users, items=items), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("drawn", [False, True])
def test_adversary_climbs_along_the_gradient(drawn: bool) -> None:
    """Adam's first step is the learning rate times the sign of the gradient, here taken by differences."""
    loss, (pos, neg) = adversary(tau=0.6, weight=1.0, rate=1e-3, every=2), scores(3)
    items = torch.tensor([[0, 1, 2, 3, 4]] * 3 + [[6, 6, 7, 0, 1]]) if drawn else torch.arange(5)
    given = {"keys": torch.tensor([0, 1, 1, 5]), "items": items}
    expected = {}
    for name in ("users", "items"):
        vector = getattr(loss, name).vector
        expected[name] = torch.zeros_like(vector)
        for place in range(vector.numel()):
            values = []
            for shift in (1e-6, -1e-6):
                vector.view(-1)[place] += shift
                values.append(loss(pos, neg, **given).item())
                vector.view(-1)[place] -= shift
            expected[name].view(-1)[place] = (values[0] - values[1]) / 2e-6
    before = {name: getattr(loss, name).vector.clone() for name in expected}
    value = loss(pos, neg, **given).item()
    loss.before_epoch(2)
    loss(pos, neg, **given).backward()
    loss.after_step(0.1)
    for name, gradient in expected.items():
        moved = getattr(loss, name).vector - before[name]
        assert bool((gradient.abs() > 1e-9).any())
        torch.testing.assert_close(moved, 1e-3 * gradient / (gradient.abs() + 1e-8), rtol=1e-3, atol=1e-6)
    assert loss(pos, neg, **given).item() > value


def test_adversary_is_adam_on_what_was_touched() -> None:
    """Beside torch's Adam, which is the same where every step touches all rows."""
    loss, rate = adversary(tau=0.6, weight=1.0, rate=0.05, every=1), 0.05
    users, items = (c.vector.clone().requires_grad_() for c in (loss.users, loss.items))
    optimizer = torch.optim.Adam([users, items], lr=rate, maximize=True)
    twin = adversary(tau=0.6, weight=1.0)
    loss.before_epoch(1)
    for seed in range(4):
        pos, neg = scores(seed, rows=6, negatives=9)
        given = {"keys": torch.randperm(6, generator=G().manual_seed(seed)), "items": torch.arange(9)}
        loss(pos, neg, **given).backward()
        loss.after_step(1.0)
        tilt = users[given["keys"]] @ items.T
        log_p = tilt - torch.logsumexp(tilt, 1, keepdim=True)
        rival = torch.logsumexp(neg.detach() / twin.tau + log_p, 1) + math.log(9)
        optimizer.zero_grad()
        torch.nn.functional.softplus(rival - pos.detach() / twin.tau).mean().backward()
        optimizer.step()
    torch.testing.assert_close(loss.users.vector, users.detach(), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(loss.items.vector, items.detach(), rtol=1e-6, atol=1e-9)


def test_adversary_learns_when_it_is_due() -> None:
    """Every second epoch, three times; never while looking, and never the users that were not there."""
    loss, (pos, neg) = adversary(every=2, rounds=3, rate=0.01), scores(4)
    moved = []
    for epoch in range(1, 12):
        before = loss.users.vector.clone()
        loss.before_epoch(epoch)
        loss.eval()
        loss(pos, neg, keys=torch.arange(4), items=torch.arange(5)).backward()
        loss.after_step(0.1)
        assert torch.equal(loss.users.vector, before)
        loss.train()
        loss(pos, neg, keys=torch.arange(4), items=torch.arange(5)).backward()
        loss.after_step(0.1)
        changed = (loss.users.vector != before).any(1).tolist()
        assert changed[4:] == [False, False]
        moved += [epoch] if all(changed[:4]) else []
    assert moved == [2, 4, 6]


def test_rounds_of_nothing_change_nothing() -> None:
    """An adversary that never learns, or at a rate of 0, leaves the model's way as it is."""
    ends = []
    for settings in ({"rounds": 0}, {"rate": 0.0, "every": 1}):
        run = training(registry["advinfonce"](**settings), epochs=4)
        run.run()
        ends.append(run.model.state()["item"])
    assert torch.equal(ends[0], ends[1])


# ------------------------------------------------------------------------- saved, loaded, and through the loop

REMEMBERING: list[tuple[str, dict[str, Any]]] = [
    ("sogclr", {"gamma": 0.3}),
    ("advinfonce", {"every": 2, "rate": 0.05, "dim": 4}),
    ("sogslatk", {"gamma": 0.3, "k": 5, "refresh": 2}),
    ("sogslatk", {"gamma": 0.3, "k": 5, "refresh": 2, "form": "published"}),
]


@pytest.mark.parametrize(("name", "settings"), REMEMBERING)
@pytest.mark.parametrize("candidates", ["all", "pairs"])
def test_saved_and_loaded_it_goes_on_with_the_same_bits(
    name: str, settings: dict[str, Any], candidates: str, tmp_path: Path
) -> None:
    """Six epochs in one go, and three of them, a checkpoint, another process's worth of objects, and three more."""

    def make() -> Any:
        return training(registry[name](**settings), candidates=candidates, negatives=4, batch=20)

    whole, first, second = make(), make(), make()
    whole.run()
    for _ in range(3):
        first.epoch()
    first.save(tmp_path / "checkpoint", {})
    second.resume(tmp_path / "checkpoint", {})
    second.run()
    assert whole.loss.state_dict().keys() == second.loss.state_dict().keys() != set()
    for part in ("loss", "model"):
        ours, theirs = (getattr(run, part).state_dict() for run in (second, whole))
        assert [key for key in theirs if not torch.equal(ours[key], theirs[key])] == []
    forgetful = make()
    forgetful.resume(tmp_path / "checkpoint", {})
    forgetful.loss.load_state_dict(make().loss.state_dict())
    forgetful.run()  # the memory matters: without it the end is another
    assert not torch.equal(forgetful.model.state()["item"], whole.model.state()["item"])
