import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Interactions
from shortlist.errors import InputError

PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), unique=True, max_size=30)


def make(pairs: list[tuple[int, int]], **extra: np.ndarray) -> Interactions:
    users, items = [user for user, _ in pairs], [item for _, item in pairs]
    return Interactions.from_pairs(users, items, user_ids=range(5), item_ids=range(7), **extra)


@given(PAIRS)
def test_pairs_in_any_order_give_the_same_rows(pairs: list[tuple[int, int]]) -> None:
    numbers = np.arange(len(pairs))
    bare, dated = make(pairs), make(pairs, times=numbers, weights=numbers.astype(np.float32))
    for met in (bare, dated):
        assert list(zip(met.users_of_pairs().tolist(), met.indices.tolist(), strict=True)) == sorted(pairs)
        assert met.indices.dtype == np.int32
        assert met.user_counts().sum() == met.item_counts().sum() == met.n_pairs == len(pairs)
    assert dated.times is not None
    assert dated.weights is not None
    assert [pairs[time] for time in dated.times] == sorted(pairs)
    assert dated.weights.tolist() == dated.times.tolist()


@given(PAIRS, st.lists(st.integers(0, 4), max_size=6))
def test_pairs_of_some_users(pairs: list[tuple[int, int]], users: list[int]) -> None:
    row_P, item_P = make(pairs).pairs_of(np.array(users, dtype=np.int64))
    expected = [(row, item) for row, user in enumerate(users) for u, item in sorted(pairs) if u == user]
    assert list(zip(row_P.tolist(), item_P.tolist(), strict=True)) == expected


@given(PAIRS, st.integers(0, 2**30))
def test_selected_pairs(pairs: list[tuple[int, int]], mask: int) -> None:
    keep = np.array([bool(mask >> n & 1) for n in range(len(pairs))], dtype=bool)
    met = make(pairs, times=np.arange(len(pairs))).select(keep)
    kept = [pair for pair, stays in zip(sorted(pairs), keep, strict=True) if stays]
    assert list(zip(met.users_of_pairs().tolist(), met.indices.tolist(), strict=True)) == kept
    assert met.times is not None
    assert [pairs[time] for time in met.times] == kept


@pytest.mark.parametrize("extra", [{}, {"times": np.arange(3)}])
def test_repeats_are_refused(extra: dict[str, np.ndarray]) -> None:
    with pytest.raises(InputError, match=r"expected each .* pair once"):
        make([(0, 1), (2, 2), (0, 1)], **extra)


def test_frozen() -> None:
    met = make([(0, 1)])
    with pytest.raises(ValueError, match="read-only"):
        met.indices[0] = 3
    with pytest.raises(AttributeError):
        met.indices = np.array([1])  # type: ignore[misc]
