"""Lists are exactly the K best, by score and then by item, whoever asks and however the work is shared."""

from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scorers import Factors, Given, random_factors
from shortlist.data import IntArray, Interactions
from shortlist.errors import InputError, ShortlistError
from shortlist.ranking import Ranking, Selector, tiling, top_k

Pairs = Set[tuple[int, int]]


def naive(scores_UI: np.ndarray, users: IntArray, k: int, excluded_items: Pairs = frozenset()) -> list[list[int]]:
    """Sort every row in full."""
    lists = []
    for user in users.tolist():
        score = {
            item: score for item, score in enumerate(scores_UI[user].tolist()) if (user, item) not in excluded_items
        }
        order = sorted((item for item in score if score[item] > -np.inf), key=lambda item: (-score[item], item))
        lists.append((order + [-1] * k)[:k])
    return lists


def interactions(n_users: int, n_items: int, pairs: Pairs) -> Interactions:
    users, items = zip(*sorted(pairs), strict=True) if pairs else ((), ())
    return Interactions.from_pairs(users, items, user_ids=range(n_users), item_ids=range(n_items))


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, int, Pairs]:
    n_users, n_items = draw(st.integers(1, 5)), draw(st.integers(1, 70))
    seed, levels = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([1, 2, 5, 1000]))
    generator = np.random.default_rng(seed)
    scores_UI = ((generator.integers(levels, size=(n_users, n_items)) - levels // 2) / 7).astype(np.float32)
    scores_UI[generator.random(scores_UI.shape) < draw(st.sampled_from([0.0, 0.1]))] = draw(
        st.sampled_from([-np.inf, np.inf, -0.0])
    )
    excluded_UI = generator.random(scores_UI.shape) < draw(st.sampled_from([0, 0.3, 0.95, 1]))
    return scores_UI, draw(st.integers(1, 90)), {(user, item) for user, item in np.argwhere(excluded_UI).tolist()}


@settings(max_examples=1000, deadline=None)
@given(cases())
def test_lists_are_those_of_a_full_sort(case: tuple[np.ndarray, int, Pairs]) -> None:
    scores_UI, k, excluded_items = case
    users = np.arange(len(scores_UI))
    ranking = top_k(
        Given(torch.from_numpy(scores_UI)), users, k, exclude=interactions(*scores_UI.shape, excluded_items)
    )
    assert ranking.items_RK.tolist() == naive(scores_UI, users, k, excluded_items)
    filled = ranking.items_RK >= 0
    row, _ = np.nonzero(filled)
    np.testing.assert_array_equal(ranking.scores_RK[filled], scores_UI[row, ranking.items_RK[filled]])
    assert (ranking.scores_RK[~filled] == -np.inf).all()


@pytest.mark.parametrize("n_items", [1, 23, 24, 239, 240, 241, 1000, 4799, 4801])
@pytest.mark.parametrize("levels", [2, 30, 10**6])
def test_every_shape_of_columns_gives_the_full_sort(n_items: int, levels: int) -> None:
    generator = np.random.default_rng(n_items)
    scores_UI = generator.integers(levels, size=(70, n_items)).astype(np.float32)
    users = np.arange(70)
    assert top_k(Given(torch.from_numpy(scores_UI)), users, 10).items_RK.tolist() == naive(scores_UI, users, 10)


@pytest.fixture
def factors() -> Factors:
    return random_factors(300, 5003, 777)  # with so many dimensions two threads would add up in another order


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def equal(one: Ranking, other: Ranking) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("queries_R", "items_RK", "scores_RK")
    )


@pytest.mark.usefixtures("threads")
def test_lists_do_not_depend_on_the_number_of_threads(factors: Factors) -> None:
    users = np.arange(300)
    torch.set_num_threads(1)
    alone = top_k(factors, users, 20)
    torch.set_num_threads(2)
    assert equal(alone, top_k(factors, users, 20))
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("threads")
def test_sweeps_side_by_side_give_the_threads_back(factors: Factors) -> None:
    torch.set_num_threads(2)
    alone = top_k(factors, np.arange(300), 20)
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda _: top_k(factors, np.arange(300), 20), range(6)))
    assert all(equal(alone, ranking) for ranking in together)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("d", [1, 7, 64, 777])
def test_lists_do_not_depend_on_who_else_is_asked_for(d: int) -> None:
    factors = random_factors(200, 1201, d)
    together = top_k(factors, np.arange(200), 20)
    order = np.random.default_rng(0).permutation(200)
    shuffled = top_k(factors, order, 20)
    assert equal(shuffled, Ranking(order, together.items_RK[order], together.scores_RK[order]))
    for user in (0, 63, 64, 199):
        alone = top_k(factors, np.array([user]), 20)
        assert np.array_equal(alone.items_RK[0], together.items_RK[user])
        assert np.array_equal(alone.scores_RK[0], together.scores_RK[user])
    repeated = top_k(factors, np.array([5, 5, 5]), 20)
    assert (repeated.items_RK == together.items_RK[5]).all()


@pytest.mark.parametrize("rows", [1, 3, 64, 1000])
def test_lists_do_not_depend_on_the_size_of_a_portion(rows: int) -> None:
    factors = random_factors(150, 1201, 64)
    together = top_k(factors, np.arange(150), 20).scores_RK
    portions = [top_k(factors, np.arange(150)[start : start + rows], 20).scores_RK for start in range(0, 150, rows)]
    assert np.array_equal(together, np.concatenate(portions))


def test_a_shorter_list_is_the_beginning_of_a_longer_one(factors: Factors) -> None:
    users = np.arange(100)
    long, short = top_k(factors, users, 100), top_k(factors, users, 7)
    assert np.array_equal(long.items_RK[:, :7], short.items_RK)


def test_only_and_without_leave_items_out() -> None:
    scorer = Given(torch.arange(6.0).repeat(2, 1))
    only, without = np.array([1, 1, 1, 1, 0, 0], bool), np.array([0, 0, 0, 1, 0, 0], bool)
    assert top_k(scorer, np.array([1]), 4, only=only, without=without).items_RK.tolist() == [[2, 1, 0, -1]]


@pytest.mark.parametrize("mask", [np.ones(5, bool), np.ones(6, int)])
def test_a_mask_that_does_not_fit_is_named(mask: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"ranking\.only: expected 6 booleans, received"):
        top_k(Given(torch.zeros(1, 6)), np.array([0]), 2, only=mask)


def test_several_exclusions_add_up() -> None:
    scorer = Given(torch.arange(6.0).repeat(2, 1))
    exclude = [interactions(2, 6, {(0, 5), (1, 0)}), interactions(2, 6, {(0, 3)})]
    assert top_k(scorer, np.array([0, 1]), 2, exclude=exclude).items_RK.tolist() == [[4, 2], [5, 4]]


@pytest.mark.parametrize("item", [0, 9_999, 10_002])
def test_a_score_that_is_not_a_number_is_reported(item: int) -> None:
    scores_UI = torch.rand(3, 10_003, generator=torch.Generator().manual_seed(0))
    scores_UI[1, item] = torch.nan
    threads = torch.get_num_threads()
    with pytest.raises(ShortlistError, match="received NaN"):
        top_k(Given(scores_UI), np.arange(3), 5)
    assert torch.get_num_threads() == threads


def test_scores_of_another_shape_are_reported() -> None:
    class Short:
        n_items = 6

        def score(self, queries: IntArray, out: torch.Tensor | None = None) -> torch.Tensor:
            return torch.zeros(len(queries), 1)

    with pytest.raises(ShortlistError, match=r"expected scores of shape \(64, 6\), received \(64, 1\)"):
        top_k(Short(), np.array([0]), 2)


def test_a_list_needs_a_place() -> None:
    with pytest.raises(InputError, match="expected K of at least 1, received 0"):
        top_k(Given(torch.zeros(1, 6)), np.array([0]), 0)


def test_nobody_asked_for_gives_no_lists() -> None:
    assert top_k(Given(torch.zeros(1, 6)), np.empty(0, np.int64), 3).items_RK.shape == (0, 3)


def test_progress_reaches_the_end() -> None:
    content: list[tuple[int, int]] = []
    top_k(random_factors(130, 50, 4), np.arange(130), 3, progress=lambda done, total: content.append((done, total)))
    assert [done for done, _ in content] == sorted(done for done, _ in content)
    assert content[-1] == (130, 130)


def test_a_large_catalogue_is_worked_in_small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    monkeypatch.setattr(tiling, "TILE_SCORES", 5000)
    monkeypatch.setattr(tiling, "Selector", lambda n, *rest: rows.append(n) or Selector(n, *rest))
    top_k(random_factors(9, 1201, 4), np.arange(9), 3)
    assert set(rows) == {4}


def test_rankings_are_frozen() -> None:
    ranking = top_k(Given(torch.zeros(1, 6)), np.array([0]), 3)
    with pytest.raises(ValueError, match="read-only"):
        ranking.items_RK[0, 0] = 1
