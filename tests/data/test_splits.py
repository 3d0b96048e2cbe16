"""Splits: nothing lost, nothing twice, the right number from each user, and the same for the same seed."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Interactions, at_time, hold_out_irbenchmark, hold_out_share, leave_last
from shortlist.errors import InputError

N_ITEMS = 60


@st.composite
def interactions(draw: st.DrawFn) -> Interactions:
    """Users with 0 to 50 items each, times with many ties."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = draw(st.lists(st.integers(0, 50), min_size=1, max_size=8))
    items = [np.sort(generator.choice(N_ITEMS, count, replace=False)) for count in counts]
    n_pairs = sum(counts)
    return Interactions.from_pairs(
        np.repeat(np.arange(len(counts)), counts),
        np.concatenate(items),
        user_ids=range(len(counts)),
        item_ids=range(N_ITEMS),
        weights=generator.random(n_pairs).astype(np.float32),
        times=generator.integers(0, 5, n_pairs),
    )


def pairs(part: Interactions) -> set[tuple[int, int, float, int]]:
    assert part.weights is not None
    assert part.times is not None
    columns = (part.users_of_pairs(), part.indices, part.weights, part.times)
    return set(zip(*(column.tolist() for column in columns), strict=True))


def check_parts(whole: Interactions, rest: Interactions, held_out: Interactions) -> None:
    assert pairs(rest) | pairs(held_out) == pairs(whole)
    assert not pairs(rest) & pairs(held_out)
    for part in (rest, held_out):
        assert part.user_ids is whole.user_ids
        assert part.item_ids is whole.item_ids


@given(interactions(), st.floats(0, 0.99), st.integers(0, 100))
def test_a_random_share(whole: Interactions, share: float, seed: int) -> None:
    rest, held_out = hold_out_share(whole, share, seed)
    check_parts(whole, rest, held_out)
    for n, n_held in zip(whole.user_counts(), held_out.user_counts(), strict=True):
        assert n_held == max(0, min(n - 1, int(share * n + 0.5)))
    assert pairs(hold_out_share(whole, share, seed)[1]) == pairs(held_out)


@given(interactions(), st.integers(0, 100))
def test_the_authors_validation_rule(whole: Interactions, seed: int) -> None:
    rest, held_out = hold_out_irbenchmark(whole, seed)
    check_parts(whole, rest, held_out)
    for n, n_held in zip(whole.user_counts(), held_out.user_counts(), strict=True):
        assert n_held == (max(1, int(0.1 * n)) if n > 1 else 0)


@pytest.mark.parametrize("hold_out", [hold_out_irbenchmark, lambda met, seed: hold_out_share(met, 0.3, seed)])
def test_every_item_is_as_likely_and_seeds_differ(hold_out: Callable[..., tuple[Interactions, Interactions]]) -> None:
    n = 10
    whole = Interactions.from_pairs([0] * n, range(n), user_ids=[0], item_ids=range(n))
    held_out = [hold_out(whole, seed)[1] for seed in range(2000)]
    counts = np.bincount(np.concatenate([part.indices for part in held_out]), minlength=n)
    expected = counts.sum() / n
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


@given(interactions(), st.integers(1, 3))
def test_the_last_items(whole: Interactions, n: int) -> None:
    rest, held_out = leave_last(whole, n, cold_users="drop")
    by_user: dict[int, list[tuple[int, int]]] = {}
    for user, item, _, time in pairs(whole):
        by_user.setdefault(user, []).append((time, item))
    expected = {(user, item) for user, met in by_user.items() if len(met) > n for _, item in sorted(met)[-n:]}
    assert {(user, item) for user, item, *_ in pairs(held_out)} == expected
    assert pairs(rest) <= pairs(whole) - pairs(held_out)
    if any(len(met) <= n for met in by_user.values()):
        with pytest.raises(InputError, match="expected every user to keep training items"):
            leave_last(whole, n)
    else:
        check_parts(whole, *leave_last(whole, n))


@given(interactions(), st.integers(1, 4))
def test_a_point_in_time(whole: Interactions, time: int) -> None:
    early = {pair for pair in pairs(whole) if pair[3] < time}
    late = pairs(whole) - early
    if not early or not late:
        with pytest.raises(InputError, match="every interaction"):
            at_time(whole, time, cold_users="drop")
        return
    rest, held_out = at_time(whole, time, cold_users="drop")
    known = {pair[0] for pair in early}
    assert pairs(rest) == early
    assert pairs(held_out) == {pair for pair in late if pair[0] in known}
    if {pair[0] for pair in late} - known:
        with pytest.raises(InputError, match="expected every user to keep training items"):
            at_time(whole, time)


def test_times_are_needed() -> None:
    whole = Interactions.from_pairs([0, 0], [0, 1], user_ids=[0], item_ids=[0, 1])
    for split in (leave_last, lambda met: at_time(met, 1)):
        with pytest.raises(InputError, match="expected interactions with a time"):
            split(whole)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_impossible_shares(share: float) -> None:
    whole = Interactions.from_pairs([0, 0], [0, 1], user_ids=[0], item_ids=[0, 1])
    with pytest.raises(InputError, match=r"hold_out_share\.share: expected a number"):
        hold_out_share(whole, share, 0)
