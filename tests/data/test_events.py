"""Events: order, repeats, times and weights, against loops over the rows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Interactions, Split, flip_negatives, k_core, leave_last, load
from shortlist.data.prepare import restrict
from shortlist.errors import InputError

N_USERS, N_ITEMS = 4, 5
Row = tuple[int, int, int, int]  # user, item, time, weight
ROWS = st.lists(
    st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1), st.integers(-3, 3), st.integers(-2, 5)),
    max_size=40,
)
IDS = {"user_ids": range(N_USERS), "item_ids": range(N_ITEMS)}


def make(rows: list[Row], *, has_times: bool = True, has_weights: bool = True) -> Interactions:
    users, items, times, weights = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Interactions.from_events(
        users, items, times=times if has_times else None, weights=weights if has_weights else None, **IDS
    )


def expected_events(rows: list[Row], held: set[tuple[int, int]], has_times: bool) -> list[list[Row]]:
    """Each user's rows whose pair is held, by time where there is one; Python's sort is stable."""
    lists: list[list[Row]] = [[] for _ in range(N_USERS)]
    for row in rows:
        if row[:2] in held:
            lists[row[0]].append(row)
    return [sorted(own, key=lambda row: row[2]) if has_times else own for own in lists]


def pairs_of(interactions: Interactions) -> list[tuple[int, int]]:
    return list(zip(interactions.users_of_pairs().tolist(), interactions.indices.tolist(), strict=True))


def check_events(interactions: Interactions, rows: list[Row], has_times: bool, has_weights: bool) -> None:
    events = interactions.events
    lists = expected_events(rows, set(pairs_of(interactions)), has_times)
    flat = [row for own in lists for row in own]
    assert [interactions.history(user).tolist() for user in range(N_USERS)] == [[r[1] for r in own] for own in lists]
    assert events.users_of_events().tolist() == [row[0] for row in flat]
    assert (events.times is None, events.weights is None) == (not has_times, not has_weights)
    if events.times is not None:
        assert events.times.tolist() == [row[2] for row in flat]
    if events.weights is not None:
        assert events.weights.tolist() == [row[3] for row in flat]


@given(ROWS, st.booleans(), st.booleans())
def test_events_against_loops(rows: list[Row], has_times: bool, has_weights: bool) -> None:
    interactions = make(rows, has_times=has_times, has_weights=has_weights)
    best: dict[tuple[int, int], tuple[int, int]] = {}
    for user, item, time, weight in rows:
        last, largest = best.get((user, item), (time, weight))
        best[user, item] = max(last, time), max(largest, weight)
    assert pairs_of(interactions) == sorted(best)
    if interactions.times is not None:
        assert interactions.times.tolist() == [best[pair][0] for pair in sorted(best)]
    if interactions.weights is not None:
        assert interactions.weights.tolist() == [best[pair][1] for pair in sorted(best)]
    check_events(interactions, rows, has_times, has_weights)


@given(ROWS, st.booleans(), st.integers(0, 2**20))
def test_selected_pairs_keep_their_events_and_share_the_log(rows: list[Row], has_times: bool, mask: int) -> None:
    whole = make(rows, has_times=has_times)
    keep_P = np.array([bool(mask >> n & 1) for n in range(whole.n_pairs)], bool)
    part, rest = whole.select(keep_P), whole.select(~keep_P)
    assert part.log is whole.log is rest.log
    check_events(part, rows, has_times, True)
    assert len(part.events) + len(rest.events) == len(whole.events) == len(rows)


@given(ROWS, st.integers(2, 3))
def test_the_core_and_restricted_users_keep_their_events(rows: list[Row], core: int) -> None:
    whole = make(rows)
    left = k_core(whole, core)
    users, items = left.user_ids.to_list(), left.item_ids.to_list()
    held = {(users[user], items[item]) for user, item in pairs_of(left)}
    expected = expected_events(rows, held, True)
    assert [[items[item] for item in left.history(n)] for n in range(left.n_users)] == [
        [row[1] for row in expected[user]] for user in users
    ]


@given(ROWS, st.integers(1, 2))
def test_leave_last_takes_pairs_by_their_last_event(rows: list[Row], n: int) -> None:
    whole = make(rows)
    rest, held_out = leave_last(whole, n, cold_users="drop")
    expected = set()
    for own in expected_events(rows, set(pairs_of(whole)), True):
        items = list(dict.fromkeys(row[1] for row in reversed(own)))  # each at its last event, last first
        expected |= {(own[0][0], item) for item in items[:n] if len(items) > n}
    assert set(pairs_of(held_out)) == expected
    assert not set(pairs_of(rest)) & expected
    known = {user for user, _ in expected}
    assert {pair for pair in pairs_of(rest) if pair[0] in known} == {
        pair for pair in set(pairs_of(whole)) - expected if pair[0] in known
    }


def test_ties_are_in_the_order_of_the_table() -> None:
    events = Interactions.from_events([0, 0, 0], [2, 4, 1], times=[7, 7, 7], **IDS)
    assert events.history(0).tolist() == [2, 4, 1]
    assert leave_last(events)[1].indices.tolist() == [1]
    pairs = Interactions.from_pairs([0, 0, 0], [2, 4, 1], times=np.array([7, 7, 7]), **IDS)
    assert pairs.history(0).tolist() == [1, 2, 4]  # pairs have no order of their own
    assert leave_last(pairs)[1].indices.tolist() == [4]


@pytest.mark.parametrize(
    ("users", "items", "is_kept"),
    [([0, 0, 1], [1, 2, 0], False), ([0, 0, 1], [2, 1, 0], True), ([0, 0, 1], [1, 1, 0], True), ([], [], False)],
    ids=["pairs in order", "another order", "a repeat", "nothing"],
)
@pytest.mark.parametrize("has_values", [False, True])
def test_a_log_is_kept_if_it_says_more_than_the_pairs(
    users: list[int], items: list[int], is_kept: bool, has_values: bool
) -> None:
    values = range(len(users)) if has_values else None
    interactions = Interactions.from_events(users, items, times=values, weights=values, **IDS)
    assert (interactions.log is not None) == is_kept
    assert len(interactions.events) == len(users)


def test_noise_has_no_log() -> None:
    interactions = Interactions.from_events([0, 0, 1], [2, 1, 0], **IDS)
    assert interactions.log is not None
    assert flip_negatives(interactions, 0.5, seed=0).log is None


def test_restricting_without_a_log() -> None:
    pairs = Interactions.from_pairs([0, 2], [1, 3], **IDS)
    left = restrict(pairs, pairs.user_counts() > 0, pairs.item_counts() > 0)
    assert left.log is None
    assert [left.history(user).tolist() for user in range(2)] == [[0], [1]]


def test_arrays_are_frozen_and_the_callers_are_not() -> None:
    users, items, times = np.array([1, 0], np.int32), np.array([1, 0], np.int32), np.array([5, 6])
    interactions = Interactions.from_events(users, items, times=times, **IDS)
    users[0], items[0], times[0] = 0, 0, 0
    assert interactions.log is not None
    assert interactions.log.users_E.tolist() == [1, 0]
    for array in (interactions.log.users_E, interactions.log.times_E, interactions.events.items):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3


@pytest.mark.parametrize(
    ("users", "items", "more", "expected"),
    [
        ([0, N_USERS], [0, 0], {}, "expected indices from 0 to 3, received 0 to 4"),
        ([0], [-1], {}, "expected indices from 0 to 4, received -1 to -1"),
        ([0], [0, 1], {}, r"expected arrays of one length, received \[1, 2\]"),
        ([0], [0], {"times": [1.5]}, "expected whole numbers, received an array of float64"),
    ],
)
def test_impossible_events(users: list[int], items: list[int], more: dict[str, list[float]], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Interactions.from_events(users, items, **more, **IDS)


def test_a_pair_that_repeats_is_held_out_by_its_last_event() -> None:
    rows = [("ann", "x", 1), ("ann", "y", 2), ("ann", "x", 3), ("bob", "y", 1), ("bob", "z", 1)]
    split = load(pl.DataFrame(rows, schema=["user", "item", "time"], orient="row"), split="last", valid_share=0.0)
    assert split.test is not None
    assert split.test.item_ids.gather(split.test.indices).to_list() == ["x", "z"]
    assert split.test.history(0).tolist() == [0, 0]
    assert split.train.history(0).tolist() == [1]
    assert split.repeated_pairs == 1


def test_dropped_users_leave_a_log_that_parts_share() -> None:
    rows = [("a", "w", 9), ("b", "y", 1), ("b", "x", 2), ("b", "y", 3), ("c", "x", 2), ("c", "y", 1)]
    frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    split: Split = load(frame, split="last", valid_share=0.0, cold_users="drop")
    assert split.test is not None
    assert split.train.log is split.test.log
    assert split.train.user_ids.to_list() == ["b", "c"]
    assert [split.test.history(0).tolist(), split.train.history(1).tolist()] == [[1, 1], [1]]


@pytest.mark.parametrize("name", ["seq-movielens-1m", "seq-amazon2014-beauty"])
def test_the_last_event_of_every_user_is_the_last_row_of_the_file(
    shared_data: Callable[[str], Path], name: str
) -> None:
    path = shared_data(name) / "interactions.parquet"
    rows = pl.read_parquet(path)
    last = rows.group_by("user", maintain_order=True).last().sort("user")
    interactions = Interactions.from_frame(rows)
    items = interactions.item_ids.gather(interactions.events.items[interactions.events.indptr[1:] - 1])
    assert interactions.user_ids.equals(last["user"].alias("user_id"))
    assert items.to_list() == last["item"].to_list()
    test = load(path, split="last").test
    assert test is not None
    assert test.item_ids.gather(test.indices).to_list() == last["item"].to_list()
