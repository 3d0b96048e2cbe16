"""Threshold, repeats, k-core: against plain loops, and the counts that are known."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Interactions, k_core, read, to_interactions
from shortlist.data.prepare import deduplicate
from shortlist.errors import InputError

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "é", "zz", "A"]),
        st.integers(-3, 12),
        st.integers(1, 5),
        st.integers(-(10**12), 10**12),
    ),
    min_size=1,
    max_size=60,
)
SCHEMA = {"user": pl.String, "item": pl.Int64, "weight": pl.Float64, "time": pl.Int64}


def triples(met: Interactions) -> set[tuple[str, int, float, int]]:
    assert met.weights is not None
    assert met.times is not None
    users = met.user_ids.gather(met.users_of_pairs()).to_list()
    items = met.item_ids.gather(met.indices).to_list()
    return set(zip(users, items, met.weights.tolist(), met.times.tolist(), strict=True))


@given(ROWS)
def test_repeats_keep_their_last_time_and_largest_weight(rows: list[tuple[str, int, int, int]]) -> None:
    (met,) = deduplicate([pl.DataFrame(rows, schema=SCHEMA, orient="row")])
    expected: dict[tuple[str, int], tuple[float, int]] = {}
    for user, item, weight, time in rows:
        heaviest, last = expected.get((user, item), (weight, time))
        expected[user, item] = max(heaviest, weight), max(last, time)
    assert triples(met) == {(*pair, *values) for pair, values in expected.items()}
    assert met.user_ids.to_list() == sorted({row[0] for row in rows})
    assert met.item_ids.to_list() == sorted({row[1] for row in rows})


@given(ROWS, st.integers(1, 4), st.integers(0, 4))
def test_threshold_and_core_against_loops(rows: list[tuple[str, int, int, int]], min_rating: int, core: int) -> None:
    left = {(user, item) for user, item, weight, _ in rows if weight >= min_rating}
    while True:
        few = {
            (user, item)
            for user, item in left
            if sum(u == user for u, _ in left) < core or sum(i == item for _, i in left) < core
        }
        if not few:
            break
        left -= few
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    users, items = sorted({user for user, _ in left}), sorted({item for _, item in left})
    if len(users) < 2:
        with pytest.raises(InputError):
            to_interactions(frame, min_rating=min_rating, core=core)
        return
    met = to_interactions(frame, min_rating=min_rating, core=core)
    assert {(user, item) for user, item, *_ in triples(met)} == left
    assert (met.user_ids.to_list(), met.item_ids.to_list()) == (users, items)


def test_tables_without_weight_and_time_take_the_same_way() -> None:
    frame = pl.DataFrame({"user": ["b", "a", "b", "b"], "item": ["y", "x", "x", "y"]})
    met = to_interactions(frame)
    assert (met.indptr.tolist(), met.indices.tolist()) == ([0, 1, 3], [0, 0, 1])
    assert met.weights is None
    assert met.times is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pl.Series([3, 1], dtype=pl.Int32), pl.Series([2, 9], dtype=pl.Int64), [1, 2, 3, 9]),
        (pl.Series([3, 1], dtype=pl.UInt8), pl.Series([2**63 + 5], dtype=pl.UInt64), [1, 3, 2**63 + 5]),
        (pl.Series([-3, 10]), pl.Series([2**63 + 5], dtype=pl.UInt64), ["-3", "10", str(2**63 + 5)]),
        (pl.Series([3, 10]), pl.Series(["x", "3"]), ["10", "3", "x"]),
    ],
)
def test_parts_share_the_ids_of_all(one: pl.Series, other: pl.Series, expected: list[object]) -> None:
    frames = [pl.DataFrame({"user": ["u"] * len(ids), "item": ids}) for ids in (one, other)]
    first, second = deduplicate(frames)
    assert first.item_ids.to_list() == second.item_ids.to_list() == expected
    assert sorted(first.item_ids.gather(first.indices).cast(pl.String)) == sorted(one.cast(pl.String))
    assert sorted(second.item_ids.gather(second.indices).cast(pl.String)) == sorted(other.cast(pl.String))


def test_times_of_parts_must_be_comparable() -> None:
    def frame(times: list[object]) -> pl.DataFrame:
        return pl.DataFrame({"user": ["a", "b"], "item": [1, 2], "time": times})

    whole, fractions = deduplicate([frame([1, 2]), frame([1.5, 2.5])])
    assert whole.times is not None
    assert fractions.times is not None
    assert np.concatenate([whole.times, fractions.times]).tolist() == [1_000_000, 2_000_000, 1_500_000, 2_500_000]
    with pytest.raises(InputError, match=r"time: expected one kind in all tables, received Datetime.* and Int64"):
        deduplicate([frame([1, 2]), frame([dt.datetime(2024, 5, 31)] * 2)])


@pytest.mark.parametrize(
    ("name", "users", "items", "pairs"), [("ml-100k", 939, 1_016, 80_393), ("ml-1m", 6_033, 3_123, 834_449)]
)
def test_movielens_gives_the_known_counts(
    shared_data: Callable[[str], Path], name: str, users: int, items: int, pairs: int
) -> None:
    met = to_interactions(read(shared_data(f"raw/{name}.zip")), min_rating=3, core=10)
    assert (met.n_users, met.n_items, met.n_pairs) == (users, items, pairs)
    assert met.user_counts().min() >= 10
    assert met.item_counts().min() >= 10


def test_the_core_of_a_core_is_itself() -> None:
    generator = np.random.default_rng(0)
    pairs = pl.DataFrame({"user": generator.integers(0, 80, 900), "item": generator.integers(0, 60, 900)})
    met = to_interactions(pairs, core=7)
    again = k_core(met, 7)
    assert (again.indptr.tolist(), again.indices.tolist()) == (met.indptr.tolist(), met.indices.tolist())
