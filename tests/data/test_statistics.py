"""Statistics against hand-made splits and against plain counting."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data.interactions import Interactions
from shortlist.data.load import load
from shortlist.data.splits import Split
from shortlist.data.statistics import describe, gini

Pairs = set[tuple[int, int]]
USERS, ITEMS = 4, 5


def interactions(pairs: Pairs, times: list[int] | None = None) -> Interactions:
    users, items = [user for user, _ in sorted(pairs)], [item for _, item in sorted(pairs)]
    return Interactions.from_pairs(
        users,
        items,
        user_ids=list("abcd"),
        item_ids=list(range(ITEMS)),
        times=None if times is None else np.array(times),
    )


def test_a_split_with_everything_odd() -> None:
    train = interactions({(0, 0), (0, 1), (1, 0), (2, 0)}, times=[874724710, 874724711, 893286638, 880000000])
    valid = interactions({(0, 2)}, times=[874724700])
    test = interactions({(0, 1), (1, 2), (1, 3), (3, 4)})
    facts = describe(Split(train, valid, test, repeated_pairs=7))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["users"], facts["items"], facts["interactions"]) == (4, 5, 8)
    assert facts["density"] == 8 / 20
    assert facts["parts"] == {"train": 4, "valid": 1, "test": 4}
    assert facts["repeated_pairs"] == 7
    assert facts["users_without_train"] == 1
    assert facts["users_without_test"] == 1
    assert facts["cold_test_items"] == 2
    assert (facts["test_pairs_in_train"], facts["test_pairs_in_valid"]) == (1, 0)
    assert facts["activity"]["max"] == 3
    assert facts["activity"]["median"] == 1
    assert facts["activity"]["mean"] == 2.0
    assert facts["popularity"]["min"] == 1
    assert facts["time"] == {
        "first": 874724700,
        "last": 893286638,
        "first_date": "1997-09-20",
        "last_date": "1998-04-22",
    }


def test_what_is_not_there_is_none() -> None:
    facts = describe(Split(interactions({(0, 0)}), None, None))
    assert facts["parts"] == {"train": 1, "valid": None, "test": None}
    assert all(facts[name] is None for name in ("users_without_test", "cold_test_items", "test_pairs_in_train", "time"))


@pytest.mark.parametrize(
    ("last", "date"),
    [(893286638, "1998-04-22"), (893286638_000, "1998-04-22"), (893286638_000_000, "1998-04-22"), (12, None)],
)
def test_dates_of_unix_times_in_any_unit(last: int, date: str | None) -> None:
    facts = describe(Split(interactions({(0, 0)}, times=[last]), None, None))
    assert facts["time"]["last_date"] == date


def test_no_pairs_at_all() -> None:
    facts = describe(Split(interactions(set()), None, interactions(set())))
    assert (facts["interactions"], facts["density"], facts["popularity_gini"]) == (0, 0.0, 0.0)


pairs = st.sets(st.tuples(st.integers(0, USERS - 1), st.integers(0, ITEMS - 1)))


@given(train=pairs, valid=st.none() | pairs, test=pairs)
def test_agrees_with_plain_counting(train: Pairs, valid: Pairs | None, test: Pairs) -> None:
    known = train | (valid or set())
    held_out = None if valid is None else interactions(valid)
    facts = describe(Split(interactions(train), held_out, interactions(test)))
    assert facts["interactions"] == len(known | test)
    assert facts["test_pairs_in_train"] == len(train & test)
    assert facts["test_pairs_in_valid"] == (None if valid is None else len(valid & test))
    assert facts["cold_test_items"] == len({item for _, item in test} - {item for _, item in known})
    assert facts["users_without_test"] == USERS - len({user for user, _ in test})
    activity = sorted(sum(user == wanted for user, _ in known | test) for wanted in range(USERS))
    assert (facts["activity"]["min"], facts["activity"]["max"]) == (activity[0], activity[-1])
    assert facts["activity"]["median"] == activity[USERS // 2 - 1]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_gini_is_half_the_relative_mean_difference(counts: list[int]) -> None:
    x = np.array(counts)
    expected = np.abs(x[:, None] - x[None, :]).mean() / (2 * x.mean()) if x.sum() else 0.0
    assert gini(x) == pytest.approx(expected, abs=1e-12)


def test_the_built_in_set() -> None:
    facts = describe(load("debian"))
    assert (facts["users"], facts["items"], facts["interactions"]) == (11_778, 4_770, 141_464)
    assert (facts["activity"]["min"], facts["popularity"]["max"]) == (5, 8_102)
    assert (facts["test_pairs_in_train"], facts["test_pairs_in_valid"]) == (0, 0)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("amazon2014-health", (1_974, 1_200, 48_189)),
        ("movielens-100k", (939, 1_016, 80_393)),
    ],
)
def test_public_sets_have_their_known_sizes(
    shared_data: Callable[[str], Path], name: str, sizes: tuple[int, int, int]
) -> None:
    facts = describe(load(shared_data(name)))
    assert (facts["users"], facts["items"], facts["interactions"]) == sizes


@pytest.mark.parametrize(("name", "common"), [("llpauc-adressa-clean", 89), ("llpauc-adressa-noise", 79)])
def test_pairs_in_train_and_test_are_counted(shared_data: Callable[[str], Path], name: str, common: int) -> None:
    facts = describe(load(shared_data(name)))
    assert facts["test_pairs_in_train"] == common
    assert facts["repeated_pairs"] > 0
