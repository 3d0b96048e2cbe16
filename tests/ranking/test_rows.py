"""Items of queries in CSR form, against plain lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Interactions
from shortlist.errors import InputError
from shortlist.ranking import RowItems, excluded_rows

N_ITEMS = 9

item_lists = st.lists(st.lists(st.integers(0, N_ITEMS - 1), unique=True), min_size=1, max_size=6)


def as_lists(rows: RowItems, queries: np.ndarray) -> list[list[int]]:
    """The items of the given queries, a list for each."""
    place_P, item_P = rows.pairs_of(queries)
    return [item_P[place_P == place].tolist() for place in range(len(queries))]


@given(item_lists, st.data())
def test_rows_of_lists_are_the_lists(lists: list[list[int]], data: st.DataObject) -> None:
    rows = RowItems.of_lists(lists, N_ITEMS)
    assert len(rows) == len(lists)
    assert rows.counts().tolist() == [len(items) for items in lists]
    queries = np.array(data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8)), np.int64)
    assert as_lists(rows, queries) == [lists[query] for query in queries]  # in any order and with repeats


@given(item_lists, st.data())
def test_rows_of_interactions_are_those_of_the_users(lists: list[list[int]], data: st.DataObject) -> None:
    users = np.repeat(np.arange(len(lists)), [len(items) for items in lists])
    pairs = Interactions.from_pairs(
        users, [item for items in lists for item in items], user_ids=range(len(lists)), item_ids=range(N_ITEMS)
    )
    queries = np.array(data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8)), np.int64)
    rows = RowItems.of(pairs, queries)
    assert len(rows) == len(queries)
    assert rows.counts().tolist() == [len(lists[user]) for user in queries]
    assert as_lists(rows, np.arange(len(queries))) == [sorted(lists[user]) for user in queries]
    assert rows.items_P is pairs.indices  # nothing is copied


@given(item_lists, st.data())
def test_only_grades_above_zero_are_relevant(lists: list[list[int]], data: st.DataObject) -> None:
    grades = [[data.draw(st.sampled_from([-1.0, 0.0, 0.5, 3.0])) for _ in items] for items in lists]
    rows = RowItems.of_lists(lists, N_ITEMS, grades)
    assert rows.grades_P is not None
    place_P, number_P = rows.places_of(np.arange(len(lists)))
    found = list(zip(place_P.tolist(), rows.items_P[number_P].tolist(), rows.grades_P[number_P].tolist(), strict=True))
    assert found == [
        (row, item, grade)
        for row, items in enumerate(lists)
        for item, grade in zip(items, grades[row], strict=True)
        if grade > 0
    ]
    assert rows.counts().sum() == len(found)


def test_a_grade_for_each_item_is_needed() -> None:
    with pytest.raises(InputError, match=r"^grades: expected one for each of 3 items, received 2$"):
        RowItems.of_lists([[0, 1], [2]], 4, [[1.0, 2.0], []])


def test_exclusions_of_interactions_belong_to_the_users_that_are_asked_for() -> None:
    train = Interactions.from_pairs([0, 1, 1], [2, 0, 1], user_ids=range(2), item_ids=range(4))
    given_rows = RowItems.of_lists([[3], []], 4)
    of_users, same = excluded_rows([train, given_rows], np.array([1, 0]))
    assert as_lists(of_users, np.arange(2)) == [[0, 1], [2]]
    assert same is given_rows
    assert excluded_rows(None, np.array([0])) == excluded_rows([], np.array([0])) == ()
    assert len(excluded_rows(train, np.array([0]))) == 1
