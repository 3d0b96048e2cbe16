"""One call from a source to a split."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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


def by_time(unit: int | None = 1) -> pl.DataFrame:
    """Forty users with an event a month from 2014-01-01 on; the last ten come in 2015. Dates where there is no unit."""
    rng = np.random.default_rng(0)
    rows = []
    for user in range(40):
        start = datetime(2015 if user >= 30 else 2014, 1, 1, tzinfo=UTC)
        for month in range(12 if user >= 30 else 20):
            when = start + timedelta(days=30 * month, seconds=int(rng.integers(86_400)))
            time = int(when.timestamp() * unit) if unit else when.replace(tzinfo=None)
            rows.append((f"u{user:02}", f"i{(user + 7 * month) % 50}", time))
    return pl.DataFrame(rows, schema=["user", "item", "ts"], orient="row")


class TestTime:
    @pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9, None])
    def test_a_date_works_on_unix_times_of_each_unit(self, unit: int | None, tmp_path: Path) -> None:
        by_time(unit).write_csv(tmp_path / "clicks.csv")
        for source in (by_time(unit), tmp_path / "clicks.csv"):
            split = load(source, at="2015-01-01")
            assert split.origin["split"] == "time"
            seconds = unit or 10**6
            start = int(datetime(2015, 1, 1, tzinfo=UTC).timestamp()) * seconds
            train, valid, test = (part.times for part in parts_of(split))
            assert train is not None
            assert valid is not None
            assert test is not None
            assert train.max() < valid.min() <= valid.max() < start <= test.min()

    def test_fractions_of_seconds(self) -> None:
        frame = by_time().with_columns(pl.col("ts") + 0.5)
        assert load(frame, at="2015-01-01").test is not None

    def test_numbers_that_are_no_unix_times_need_a_number(self) -> None:
        frame = pl.DataFrame({"user": [1, 2] * 4, "item": [*range(8)], "time": [*range(8)]})
        with pytest.raises(InputError, match="at: expected a number like those of the time column"):
            load(frame, split="time", at="2015-01-01")

    def test_validation_is_the_last_share_of_training(self) -> None:
        split = load(by_time(), split="time", at="2015-01-01", valid_share=0.25)
        train, valid, _ = parts_of(split)
        assert valid.n_pairs == pytest.approx(0.25 * (train.n_pairs + valid.n_pairs), rel=0.1)

    def test_users_without_training_items_are_dropped_with_a_count(self) -> None:
        split = load(by_time(), split="time", at="2015-01-01")
        assert split.train.n_users == 30
        assert split.train.user_counts().min() > 0
        assert split.notes == (
            "split time: 10 of 40 users have no training items and are left out (LoadOptions.cold_users=error refuses "
            "them)",
        )
        with pytest.raises(InputError, match="received 10 without, first 'u30'"):
            load(by_time(), split="time", at="2015-01-01", cold_users="error")
        assert load(by_time(), split="last").notes == ()

    def test_users_who_came_during_validation_are_dropped_too(self) -> None:
        frame = by_time().filter(pl.col("user") < "u31")
        split = load(frame, at="2015-03-01", valid_share=0.3)
        assert split.notes[0].startswith("split time: 1 of 31 users")
        assert all("u30" not in part.user_ids for part in parts_of(split))

    def test_one_time_cannot_be_divided(self) -> None:
        frame = pl.DataFrame({"user": [1, 2, 1, 2], "item": [1, 2, 3, 4], "time": [5, 5, 9, 9]})
        with pytest.raises(InputError, match="last_share: expected interactions of several times"):
            load(frame, at=9)


class TestImpliedSplits:
    def test_last_and_at_imply_it(self) -> None:
        assert load(by_time(), last=2).origin["split"] == "last"
        assert parts_of(load(by_time(), last=2))[2].user_counts().tolist() == [2] * 40
        assert load(by_time(), at="2015-01-01").origin["split"] == "time"
        assert load(by_time()).origin["split"] == "random"

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"split": "random", "at": 5}, "LoadOptions.at: expected none for split random, received 5"),
            ({"split": "last", "at": 5}, "LoadOptions.at: expected none for split last"),
            ({"split": "time", "at": 5, "last": 1}, "LoadOptions.last: expected none for split time"),
            ({"at": 5, "last": 1}, "LoadOptions.last: expected none for split time"),
            ({"split": "random", "last": 2}, "LoadOptions.last: expected none for split random"),
        ],
    )
    def test_contradictions_are_refused(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(InputError, match=re.escape(said)):
            load(by_time(), **options)

    @pytest.mark.parametrize("options", [{"at": 5}, {"last": 2}, {"split": "last"}])
    def test_a_set_that_came_split_has_no_other(self, tmp_path: Path, options: dict[str, Any]) -> None:
        for part in ("train", "test"):
            by_time().write_csv(tmp_path / f"{part}.csv")
        with pytest.raises(InputError, match="which is split already"):
            load(tmp_path, **options)

    def test_the_settings_of_a_split_load_it_again(self) -> None:
        for options in ({}, {"last": 2}, {"at": "2015-01-01"}):
            split = load(by_time(), **options)  # type: ignore[arg-type]
            again = {name: split.origin[name] for name in LoadOptions.declared}
            assert np.array_equal(load(by_time(), **again).train.indices, split.train.indices)


class TestBadRows:
    BAD = "user,item,rating,ts\na,x,1,100\nb,y,2,200\n,y,3,300\na,z,four,400\nb,x,5,soon\na,y\nb, z,1,600\na,y,2,700\n"
    GOOD = "user,item,rating,ts\na,x,1,100\nb,y,2,200\na,y,2,700\n"

    def test_they_are_skipped_with_a_count_and_the_first_few(self, tmp_path: Path) -> None:
        (tmp_path / "bad.csv").write_text(self.BAD)
        (tmp_path / "good.csv").write_text(self.GOOD)
        found = load(tmp_path / "bad.csv", on_bad_rows="skip", test_share=0.0, valid_share=0.0)
        wanted = load(tmp_path / "good.csv", test_share=0.0, valid_share=0.0)
        for one, other in ((found.train.indices, wanted.train.indices), (found.train.times, wanted.train.times)):
            assert one is not None
            assert other is not None
            assert one.tolist() == other.tolist()
        (note,) = found.notes
        assert note == (
            f"{tmp_path / 'bad.csv'}: 5 bad rows skipped: row 7: expected 4 fields, received 2 ('a,y'); row 4, column "
            "'user': expected an id, received nothing; row 5, column 'rating': expected a number, received 'four'; "
            "and 2 more"
        )
        assert found.origin["on_bad_rows"] == "skip"
        with pytest.raises(InputError, match="row 7: expected 4 fields"):
            load(tmp_path / "bad.csv")

    def test_a_good_table_is_read_the_same(self, tmp_path: Path) -> None:
        by_time().write_csv(tmp_path / "clicks.csv")
        for source in (tmp_path / "clicks.csv", by_time()):
            one, other = load(source, last=1), load(source, last=1, on_bad_rows="skip")
            assert other.notes == ()
            for part, same in zip(parts_of(one), parts_of(other), strict=True):
                assert np.array_equal(part.indices, same.indices)
                assert part.user_ids.equals(same.user_ids)

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("a.dat", b"1::2::3\n4::5\n2::3::4\n", "row 2: expected 3 fields, received 2 ('4::5')"),
            ("a.csv", b"user,item\n1,2\n3,caf\xe9\n2,5\n", "row 3: expected UTF-8 text, received other bytes"),
            ("a.csv", b'user,item\n"a\nb",2\n\n\nc,,\nb,2\n', "row 5: expected 2 fields, received 3 ('c,,')"),
            ("a.ndjson", b'{"user":1,"item":2}\n[1]\n\n{"user":3,"item":4}\n', "row 2: expected a JSON object"),
            ("a.ndjson", b'{"user":1,"item":2}\n\n{"user":3}\n{"user":3,"item":4}\n', "row 3, column 'item': expected"),
            (
                "a.csv",
                b"user,item,ts\n1,2,2024-05-31\n2,3,9\n2,4,2024-06-01\n",
                "row 3, column 'ts': expected a number",
            ),
        ],
    )
    def test_every_form_of_table(self, tmp_path: Path, name: str, content: bytes, said: str) -> None:
        (tmp_path / name).write_bytes(content)
        split = load(tmp_path / name, on_bad_rows="skip", test_share=0.0, valid_share=0.0)
        assert split.notes[0].startswith(f"{tmp_path / name}: 1 bad row skipped: {said}")
        assert split.train.n_pairs == 2

    def test_frames_and_tables_without_a_good_row(self) -> None:
        frame = pl.DataFrame({"user": ["a", None, "b"], "item": ["x", "y", "z"]})
        split = load(frame, on_bad_rows="skip", test_share=0.0, valid_share=0.0)
        assert split.notes == (
            "polars DataFrame: 1 bad row skipped: row 1, column 'user': expected an id, received nothing",
        )
        with pytest.raises(InputError, match="row 0, column 'user': expected an id"):
            load(frame.filter(pl.col("user").is_null()), on_bad_rows="skip")


def test_the_names_of_the_columns_are_kept(tmp_path: Path) -> None:
    frame = by_time().rename({"user": "Customer No", "item": "sku"})
    frame.write_csv(tmp_path / "clicks.csv")
    names = {"user": "Customer No", "item": "sku", "time": "ts"}
    assert load(frame).origin["columns"] == load(tmp_path / "clicks.csv").origin["columns"] == names
    frame.write_csv(tmp_path / "clicks.dat", separator="|", include_header=False)
    assert "columns" not in load(tmp_path / "clicks.dat").origin
    assert "columns" not in load("debian").origin
