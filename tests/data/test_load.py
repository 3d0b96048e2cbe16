"""One call from a source to a split."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from shortlist.data import Interactions, LoadOptions, Split, builtin, datasets, load
from shortlist.errors import InputError

SIZES = {
    "amazon2014-health": (1_974, 1_200, 48_189),
    "amazon2014-electronic": (13_455, 8_360, 234_521),
    "amazon2014-electronic-popularity": (13_455, 8_360, 234_521),
    "gowalla": (29_858, 40_988, 1_027_464),
    "movielens-100k": (939, 1_016, 80_393),
    "movielens-1m": (6_033, 3_123, 834_449),
    "movielens-1m-temporal": (4_032, 3_116, 544_490),
    "lightgcn-yelp2018": (31_668, 38_048, 1_561_406),
    "llpauc-adressa-clean": (87_416, 2_221, 201_128),
    "llpauc-adressa-noise": (122_577, 3_370, 201_128),
}


def parts_of(split: Split) -> list[Interactions]:
    assert split.valid is not None
    assert split.test is not None
    return [split.train, split.valid, split.test]


@pytest.mark.parametrize("protocol", ["shortlist", "irbenchmark"])
@pytest.mark.parametrize("name", SIZES)
def test_real_sets(shared_data: Callable[[str], Path], name: str, protocol: str) -> None:
    split = load(shared_data(name), LoadOptions(protocol=protocol))
    parts = parts_of(split)
    n_pairs = sum(part.n_pairs for part in parts) + split.repeated_pairs
    assert (split.train.n_users, split.train.n_items, n_pairs) == SIZES[name]
    for part in parts:
        assert part.user_ids.equals(split.train.user_ids)
        assert part.item_ids.equals(split.train.item_ids)
    if "adressa" in name:  # came with a valid part
        assert (parts[1].n_pairs, split.repeated_pairs) == (17_492, 604)
    elif protocol == "irbenchmark":
        counts = split.train.user_counts() + parts[1].user_counts()
        assert np.array_equal(parts[1].user_counts(), np.where(counts > 1, np.maximum(1, counts // 10), 0))


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """Ten users with six dated items each; every user's first pair stands twice."""
    rows = [(f"u{u}", i, 1 + (u + i) % 5, f"2024-01-{1 + i:02}") for u in range(10) for i in (0, *range(6))]
    path = tmp_path / "ratings.csv"
    pl.DataFrame(rows, schema=["user_id", "item_id", "rating", "date"], orient="row").write_csv(path)
    return path


def test_a_table_is_split_at_random(ratings: Path) -> None:
    split = load(ratings, LoadOptions(test_share=0.34, valid_share=0.25))
    assert [part.user_counts().tolist() for part in parts_of(split)] == [[3] * 10, [1] * 10, [2] * 10]
    assert split.repeated_pairs == 10
    again, other = load(ratings, LoadOptions(test_share=0.34)), load(ratings, LoadOptions(test_share=0.34, seed=1))
    assert parts_of(again)[2].indices.tolist() == parts_of(split)[2].indices.tolist()
    assert parts_of(other)[2].indices.tolist() != parts_of(split)[2].indices.tolist()


@pytest.mark.parametrize("protocol", ["shortlist", "irbenchmark"])
def test_validation_can_be_left_out(ratings: Path, protocol: str) -> None:
    split = load(ratings, LoadOptions(test_share=0.34, valid_share=0, protocol=protocol))
    assert split.valid is None
    assert split.train.user_counts().tolist() == [4] * 10


def test_a_share_that_the_protocol_would_not_heed_is_refused(ratings: Path) -> None:
    with pytest.raises(InputError, match=r"valid_share: expected 0, or none given, for the protocol irbenchmark.*0\.3"):
        load(ratings, LoadOptions(valid_share=0.3, protocol="irbenchmark"))


def test_the_order_of_rows_changes_nothing(ratings: Path) -> None:
    split = load(ratings)
    pl.read_csv(ratings).sample(fraction=1, shuffle=True, seed=1).write_csv(ratings)
    for one, other in zip(parts_of(split), parts_of(load(ratings)), strict=True):
        assert one.indices.tolist() == other.indices.tolist()
        assert one.user_ids.equals(other.user_ids)


def test_a_table_is_split_by_the_last_items(ratings: Path) -> None:
    train, valid, test = parts_of(load(ratings, LoadOptions(split="last")))
    assert (test.indices.tolist(), valid.indices.tolist()) == ([5] * 10, [4] * 10)
    assert train.user_counts().tolist() == [4] * 10
    split = load(ratings, LoadOptions(split="last", last=2, valid_share=0.0))
    assert split.valid is None
    assert split.train.user_counts().tolist() == [4] * 10


@pytest.mark.parametrize(("at", "n_test"), [("2024-01-06", 1), ("2024-01-04T12:00:00", 2), ("2024-01-04", 3)])
def test_a_table_is_split_at_a_time(ratings: Path, at: str, n_test: int) -> None:
    split = load(ratings, LoadOptions(split="time", at=at))
    assert parts_of(split)[2].user_counts().tolist() == [n_test] * 10


@pytest.mark.parametrize(("times", "at"), [([1, 2, 3, 4], 2.5), ([1, 2, 3, 4], 3), ([1.5, 2.0, 2.25, 4.0], 2.25)])
def test_times_that_are_numbers(tmp_path: Path, times: list[float], at: float) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user": [1, 2, 1, 3], "item": [7, 8, 9, 8], "time": times}).write_parquet(path)
    split = load(path, LoadOptions(split="time", at=at, cold_users="drop", valid_share=0.0))
    assert split.train.user_ids.to_list() == [1, 2]  # user 3 came later
    assert split.test is not None
    assert (split.train.indices.tolist(), split.test.indices.tolist()) == ([0, 1], [2])


def test_threshold_and_core(ratings: Path) -> None:
    split = load(ratings, LoadOptions(min_rating=4, core=2))
    assert split.train.weights is None, "ratings have decided which rows count"
    rated = load(ratings, LoadOptions(core=2)).train
    assert rated.weights is not None
    assert rated.weights.min() < 4
    assert sum(part.user_counts() for part in parts_of(split)).min() >= 2


def test_a_set_that_came_split_stays_so(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("user,item,rating\n1,2,5\n1,3,5\n2,2,1\n2,9,4\n")
    (tmp_path / "test.csv").write_text("user,item,rating\nnew,2,5\n1,3,5\n")
    split = load(tmp_path, LoadOptions(valid_share=0.0))
    assert split.valid is None
    assert split.test is not None
    assert split.test.user_ids.to_list() == ["1", "2", "new"]
    assert (split.train.user_counts().tolist(), split.test.user_counts().tolist()) == ([2, 2, 0], [1, 0, 1])
    assert load(tmp_path, LoadOptions(valid_share=0.0, min_rating=3)).train.user_counts().tolist() == [2, 1, 0]
    with pytest.raises(InputError, match=r"core: expected 0 for .*which is split already, received 5"):
        load(tmp_path, LoadOptions(core=5))


def test_the_built_in_set() -> None:
    split = load("debian")
    parts = parts_of(split)
    assert sum(part.n_pairs for part in parts) == builtin.DEBIAN.interactions
    assert (split.train.n_users, split.train.n_items) == (builtin.DEBIAN.users, builtin.DEBIAN.items)


def test_registered_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "find", lambda name: None)
    with pytest.raises(InputError, match="ml-1m: expected a downloaded data set; download it with `shortlist data get"):
        load("ml-1m")
    path = tmp_path / "ratings_Beauty.csv"
    path.write_text("ann,01,5.0,100\nbob,02,3.0,200\nann,02,3.0,300\n")
    monkeypatch.setattr(datasets, "find", lambda name: path)
    split = load("amazon2014-beauty", LoadOptions(time="-"))
    assert split.train.item_ids.to_list() == ["01", "02"]
    assert split.train.weights is not None
    assert split.train.times is None
