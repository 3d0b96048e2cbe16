"""Losses in a training loop that is not Shortlist's: precision, sampling, thresholds, scalars, processes."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import shortlist as sl
from shortlist.errors import InputError
from shortlist.losses import LLPAUC, SL, SLAtK, TopKThreshold, registry

LOSSES = sorted(name for name, cls in registry.items() if cls.__module__.startswith("shortlist."))
HALF = (torch.float16, torch.bfloat16)


def made(name: str) -> sl.Loss:
    torch.manual_seed(0)
    return registry[name]()


def scores(rows: int = 6, negatives: int = 9, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, generator=generator), torch.rand(rows, negatives, generator=generator)


def value(loss: sl.Loss, pos: Tensor, neg: Tensor) -> Tensor:
    threshold = neg.float().topk(3).values[:, -1] if loss.reads_thresholds else None
    return loss(pos, neg, threshold=threshold, n_items=50)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_is_computed_in_single_precision(name: str, dtype: torch.dtype) -> None:
    pos, neg = (each.to(dtype).requires_grad_() for each in scores())
    ours = value(made(name), pos, neg)
    assert ours.dtype == torch.float32
    assert torch.equal(ours, value(made(name), pos.float(), neg.float()))
    ours.backward()
    assert pos.grad is not None
    assert pos.grad.dtype == dtype


@pytest.mark.parametrize("name", ["sl", "slatk", "bpr", "bce", "croloss", "psl", "mse"])
def test_more_candidates_than_half_precision_can_count(name: str) -> None:
    pos, neg = scores(2, 70_000)
    found = value(made(name), pos.half(), neg.half())
    torch.testing.assert_close(found, value(made(name), pos.half().float(), neg.half().float()))
    assert bool(found.isfinite())


@pytest.mark.parametrize("name", LOSSES)
def test_autocast_does_not_round(name: str) -> None:
    pos, neg = scores()
    expected = value(made(name), pos, neg)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = value(made(name), pos, neg)
    assert torch.equal(found, expected)


def test_labels_in_half_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    score_BL, label_BL = torch.rand(4, 7, generator=generator), torch.randint(0, 3, (4, 7), generator=generator)
    for name in ("lambdarank", "lambdaloss_at_k", "listnet", "neural_ndcg"):
        expected = made(name)(score_BL.bfloat16().float(), label_BL)
        assert torch.equal(made(name)(score_BL.bfloat16(), label_BL), expected)


class TestSampling:
    def test_uniform_draws_of_every_item_represent_the_catalogue(self) -> None:
        """With each of I items drawn once with probability 1/I, weights are 1 and nothing changes."""
        pos, neg = scores(4, 20)
        log_q = torch.full((20,), -math.log(20))
        for name in ("sl", "bpr", "bce", "croloss"):
            torch.testing.assert_close(made(name)(pos, neg, log_q=log_q), made(name)(pos, neg))

    def test_popular_items_are_corrected_for(self) -> None:
        """The softmax over a sample by popularity is on average near the softmax over all negatives."""
        generator = torch.Generator().manual_seed(1)
        all_negatives = torch.randn(1, 300, generator=generator)
        chance = torch.arange(1.0, 301).pow(-0.7)
        chance /= chance.sum()
        pos, loss = torch.tensor([0.5]), SL(tau=1.0)
        exactly = loss(pos, all_negatives)
        corrected, plain = [], []
        for _ in range(300):
            drawn = torch.multinomial(chance, 100, replacement=True, generator=generator)
            corrected.append(loss(pos, all_negatives[:, drawn], log_q=chance[drawn].log()))
            plain.append(loss(pos, all_negatives[:, drawn]))
        assert abs(torch.stack(corrected).mean() - exactly) < 0.05
        assert abs(torch.stack(plain).mean() - exactly) > 0.5

    def test_bad_input(self) -> None:
        pos, neg = scores()
        with pytest.raises(InputError, match=r"log_q: expected shape \[6, 9\] or \[9\], received \[4\]"):
            SL()(pos, neg, log_q=torch.zeros(4))
        with pytest.raises(InputError, match=r"SL.log_q: expected negative scores \[B, N\] beside it"):
            SL()(neg, neg > 0.5, log_q=torch.zeros(9))


class TestCall:
    @pytest.mark.parametrize("name", ["sl", "bpr", "lambdarank"])
    def test_sum_is_the_mean_times_the_positives(self, name: str) -> None:
        pos, neg = scores()
        torch.testing.assert_close(made(name)(pos, neg, reduction="sum"), 6 * made(name)(pos, neg))
        weights = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 0.0])
        weighted = made(name)(pos, neg, weights=weights)
        torch.testing.assert_close(made(name)(pos, neg, weights=weights, reduction="sum"), 7.5 * weighted)
        with pytest.raises(InputError, match="reduction: expected 'mean' or 'sum', received 'none'"):
            made(name)(pos, neg, reduction="none")  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", LOSSES)
    def test_a_threshold_is_refused_where_none_is_read(self, name: str) -> None:
        pos, neg = scores()
        loss = made(name)
        assert loss.reads_thresholds == (loss.thresholds(sl.losses.base.Sizes(2, 50, 2)) is not None)
        if not loss.reads_thresholds:
            with pytest.raises(
                InputError, match="threshold: expected none, which the loss does not read, received one"
            ):
                loss(pos, neg, threshold=torch.zeros(6))

    def test_a_loss_shows_its_parameters(self) -> None:
        assert repr(SL(tau=0.1)).startswith("SL(tau=0.1, ")
        assert "dim=8" in repr(sl.MF(dim=8))

    def test_parameters_have_names(self) -> None:
        message = r"SLAtK: expected parameters by name, such as SLAtK\(k=20\), received 20 without a name"
        with pytest.raises(InputError, match=message):
            SLAtK(20)  # type: ignore[misc]

    @pytest.mark.parametrize("name", ["sl", "slatk", "bpr", "lambdarank"])
    def test_a_compiled_model_with_a_loss(self, name: str) -> None:
        loss = made(name)
        weight = torch.nn.Parameter(torch.ones(1))

        @torch.compile(backend="eager")
        def scored(pos: Tensor, neg: Tensor) -> tuple[Tensor, Tensor]:
            return pos * weight, neg * weight

        pos, neg = scores()
        value(loss, *scored(pos, neg)).backward()
        assert weight.grad is not None
        assert bool(weight.grad.isfinite().all())


class TestTopKThreshold:
    def test_from_all_scores(self) -> None:
        generator = torch.Generator().manual_seed(0)
        score_BI = torch.randn(3, 40, generator=generator)
        threshold = TopKThreshold(n_users=5, k=7)
        threshold.update(torch.tensor([4, 0, 2]), score_BI)
        expected = score_BI.sort(1, descending=True).values[:, 6]
        assert torch.equal(threshold(torch.tensor([4, 0, 2])), expected)
        assert threshold(torch.tensor([1])).item() == 0

    def test_from_a_sample(self) -> None:
        """Near the exact threshold: the 20th of 1000 from 200 draws."""
        generator = torch.Generator().manual_seed(0)
        score_BI = torch.randn(50, 1000, generator=generator)
        drawn = torch.randint(1000, (50, 200), generator=generator)
        threshold, users = TopKThreshold(50, k=20), torch.arange(50)
        threshold.update_from_sample(users, score_BI[:, 0], score_BI.gather(1, drawn), n_items=1000)
        exactly = score_BI.topk(20).values[:, -1]
        assert (threshold(users) - exactly).abs().mean() < 0.25
        assert (threshold(users) - exactly).mean().abs() < 0.1

    def test_it_is_part_of_the_state(self) -> None:
        threshold = TopKThreshold(2, k=1)
        threshold.update(torch.tensor([1]), torch.tensor([[1.0, 3.0]]))
        again = TopKThreshold(2, k=1)
        again.load_state_dict(threshold.state_dict())
        assert torch.equal(again(torch.tensor([0, 1])), torch.tensor([0.0, 3.0]))

    def test_bad_input(self) -> None:
        with pytest.raises(InputError, match="expected n_users and k of at least 1, received 0 and 3"):
            TopKThreshold(0, k=3)
        with pytest.raises(InputError, match=r"expected scores \[B, I\] of at least 3 items, received \[1, 2\]"):
            TopKThreshold(2, k=3).update(torch.tensor([0]), torch.zeros(1, 2))


def trained(loss: sl.Loss, rate: float | None, *, scale: float = 1.0) -> tuple[float, list[float]]:
    """Vectors of two tastes trained by Adam: the share of the best six items in the user's taste, and the scalars."""
    generator = torch.Generator().manual_seed(0)
    users, items = (torch.nn.Parameter(torch.randn(40, 8, generator=generator) * 0.1) for _ in range(2))
    adam = torch.optim.Adam([users, items], lr=0.02)
    for _ in range(150):
        user = torch.randint(40, (64,), generator=generator)
        item = (torch.randint(20, (64,), generator=generator) + 20 * (user % 2)) % 40
        neg = torch.randint(40, (64, 16), generator=generator)
        pos_score = (users[user] * items[item]).sum(1)
        neg_score = torch.einsum("bd,bnd->bn", users[user], items[neg])
        adam.zero_grad()
        (loss(pos_score, neg_score) * scale).backward()
        for parameter in (users, items):
            assert parameter.grad is not None
            parameter.grad /= scale
        adam.step()
        loss.after_step(rate, grad_scale=scale)
    best = (users @ items.T).topk(6).indices
    hits = float((best // 20 == torch.arange(40).unsqueeze(1) % 2).float().mean())
    return hits, [buffer.detach().item() for buffer in loss.buffers()]


@pytest.mark.parametrize("name", ["llpauc", "opauc", "auc"])
def test_scalars_learn_at_a_rate_of_their_own(name: str) -> None:
    """As documented: ``after_step()`` without a rate, beside Adam."""
    hits, scalars = trained(made(name), None)
    assert hits > 0.9
    assert scalars != [buffer.detach().item() for buffer in made(name).buffers()]


def test_scaled_gradients_move_the_scalars_as_unscaled_ones_do() -> None:
    hits, scalars = trained(LLPAUC(), None)
    scaled_hits, scaled = trained(LLPAUC(), None, scale=1024.0)
    assert scaled == pytest.approx(scalars, abs=1e-3)
    assert scaled_hits == pytest.approx(hits, abs=0.02)


def test_an_overflow_of_scaled_gradients_leaves_the_scalars() -> None:
    loss = LLPAUC()
    before = [buffer.detach().item() for buffer in loss.buffers()]
    pos, neg = scores()
    (loss(pos.requires_grad_(), neg) * math.inf).backward()
    loss.after_step(grad_scale=65536.0)
    assert [buffer.detach().item() for buffer in loss.buffers()] == before
    assert all(buffer.grad is None for buffer in loss.buffers())


RANKS = """
import sys, torch, torch.distributed as dist
from shortlist.losses import LLPAUC
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
generator, loss = torch.Generator().manual_seed(rank), LLPAUC()
for _ in range(5):
    pos = torch.rand(8, generator=generator, requires_grad=True)
    loss(pos, torch.rand(8, 12, generator=generator)).backward()
    loss.after_step()
print([round(buffer.detach().item(), 9) for buffer in loss.buffers()])
dist.destroy_process_group()
"""


def test_all_ranks_have_the_same_scalars(tmp_path: Path) -> None:
    """Two processes of torch.distributed with different data."""
    store = tmp_path / "store"
    processes = [
        subprocess.Popen([sys.executable, "-c", RANKS, str(rank), str(store)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    first, second = (process.communicate(timeout=120)[0].strip() for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert first == second
    assert first.startswith("[")


def test_a_threshold_in_the_loop_makes_k_act() -> None:
    """SL@K's weight compares each positive with its user's threshold; without one the loss says what it expects."""
    pos, neg = scores()
    with pytest.raises(InputError, match="threshold"):
        SLAtK(k=3)(pos, neg)
    threshold = torch.cat([pos.unsqueeze(1), neg], 1).topk(3).values[:, -1]
    assert SLAtK(k=3, tau=0.2)(pos, neg, threshold=threshold) != SLAtK(k=3, tau=0.2)(pos, neg, threshold=threshold + 1)
