import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Interactions, LoadOptions, flip_negatives, load
from shortlist.errors import InputError


def make(rows: list[set[int]], n_items: int = 12) -> Interactions:
    users = [user for user, items in enumerate(rows) for _ in items]
    items = [item for items in rows for item in sorted(items)]
    return Interactions.from_pairs(users, items, user_ids=range(len(rows)), item_ids=range(n_items))


ROWS = st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=6)


@given(ROWS, st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 3.0]), st.integers(0, 50))
def test_the_right_number_of_negatives(rows: list[set[int]], ratio: float, seed: int) -> None:
    noisy = flip_negatives(make(rows), ratio, seed)
    for user, items in enumerate(rows):
        flipped = set(noisy.row(user).tolist()) - items
        assert items <= set(noisy.row(user).tolist())
        assert len(flipped) == min(12 - len(items), math.ceil(ratio * len(items)))
    again = flip_negatives(make(rows), ratio, seed)
    assert again.indices.tolist() == noisy.indices.tolist()


@given(ROWS, st.integers(0, 50))
def test_other_parts_can_be_spared(rows: list[set[int]], seed: int) -> None:
    test = make([{0, 5, 11} - items for items in rows])
    noisy = flip_negatives(make(rows), 2.0, seed, avoid=[test])
    for user, items in enumerate(rows):
        assert not (set(noisy.row(user).tolist()) - items) & set(test.row(user).tolist())


def test_a_share_that_is_whole_is_not_rounded_up() -> None:
    noisy = flip_negatives(make([set(range(30))], n_items=100), 0.1, seed=0)
    assert noisy.n_pairs == 33


def test_every_negative_is_as_likely() -> None:
    train = make([{1, 4, 5, 9}])
    flips = [set(flip_negatives(train, 0.5, seed).row(0).tolist()) - {1, 4, 5, 9} for seed in range(2000)]
    counts = np.bincount([item for items in flips for item in items], minlength=12)
    assert counts[[1, 4, 5, 9]].tolist() == [0] * 4
    assert np.abs(counts[counts > 0] - 500).max() < 5 * np.sqrt(500)


@pytest.mark.parametrize("ratio", [-1.0, float("nan")])
def test_impossible_ratios(ratio: float) -> None:
    with pytest.raises(InputError, match=r"flip_negatives\.ratio: expected a number at least 0"):
        flip_negatives(make([{1}]), ratio, 0)


class TestAsAnOption:
    """``load`` with ``noise``: false positives in train, and nowhere else."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        rng = np.random.default_rng(0)
        for part, share in (("train", 20), ("test", 5)):
            rows = [f"{user},{item}" for user in range(12) for item in rng.choice(60, share, replace=False)]
            (tmp_path / f"{part}.csv").write_text("\n".join(["user_id,item_id", *rows]) + "\n")
        return tmp_path

    @pytest.mark.parametrize("protocol", ["shortlist", "irbenchmark"])
    def test_only_train_gets_it(self, folder: Path, protocol: str) -> None:
        clean = load(folder, LoadOptions(protocol=protocol, seed=3))
        noisy = load(folder, LoadOptions(protocol=protocol, seed=3, noise=0.1))
        assert clean.valid is not None
        assert clean.test is not None
        for part in ("valid", "test"):
            before, after = getattr(clean, part), getattr(noisy, part)
            assert (before.indptr.tolist(), before.indices.tolist()) == (after.indptr.tolist(), after.indices.tolist())
        for user in range(12):
            before, after = set(clean.train.row(user).tolist()), set(noisy.train.row(user).tolist())
            assert before < after
            assert len(after) - len(before) == math.ceil(0.1 * len(before))
            held_out = {*clean.valid.row(user).tolist(), *clean.test.row(user).tolist()}
            assert not (after - before) & held_out  # those are true positives

    def test_the_seed_decides(self, folder: Path) -> None:
        def pairs(seed: int) -> list[int]:
            return load(folder, LoadOptions(noise=0.2, seed=seed)).train.indices.tolist()

        assert pairs(0) == pairs(0)
        assert pairs(0) != pairs(1)

    def test_a_set_that_comes_without_validation(self, folder: Path) -> None:
        noisy = load(folder, LoadOptions(noise=0.5, valid_share=0.0))
        assert noisy.valid is None
        assert noisy.train.n_pairs == 12 * 30

    def test_less_than_none(self) -> None:
        with pytest.raises(InputError, match=r"LoadOptions\.noise: expected a number at least 0, received -0\.1"):
            LoadOptions(noise=-0.1)
