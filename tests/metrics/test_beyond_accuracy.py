from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.metrics import beyond_accuracy as metrics

N_ITEMS = 6
Lists = list[list[int]]
LISTS = st.lists(
    st.lists(st.integers(0, N_ITEMS - 1), max_size=4, unique=True), min_size=1, max_size=5
)
OWNED = st.sets(st.tuples(st.integers(0, 4), st.integers(0, N_ITEMS - 1)), max_size=20)


def padded(lists: Lists) -> np.ndarray:
    return np.array([each + [-1] * (4 - len(each)) for each in lists], dtype=np.int32)


def columns(owned: set[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(sorted(owned), dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def owners(owned: set[tuple[int, int]], item: int) -> set[int]:
    return {user for user, own in owned if own == item}


def cosine(owned: set[tuple[int, int]], one: int, other: int) -> float:
    first, second = owners(owned, one), owners(owned, other)
    if not first or not second:
        return 0.0
    return len(first & second) / math.sqrt(len(first) * len(second))


def diversity(owned: set[tuple[int, int]], items: list[int]) -> float:
    """One list's diversity, word for word."""
    pairs = list(combinations(items, 2))
    if not pairs:
        return math.nan
    return 1 - sum(cosine(owned, *pair) for pair in pairs) / len(pairs)


@given(LISTS, OWNED)
def test_diversity_is_that_of_all_pairs(lists: Lists, owned: set[tuple[int, int]]) -> None:
    found = metrics.intra_list_diversity(padded(lists), *columns(owned), N_ITEMS)
    np.testing.assert_allclose(found, [diversity(owned, each) for each in lists], atol=1e-12)


@given(LISTS, OWNED)
def test_blocks_change_nothing(lists: Lists, owned: set[tuple[int, int]]) -> None:
    whole = metrics.intra_list_diversity(padded(lists), *columns(owned), N_ITEMS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "_ENTRIES", 1)
        parts = metrics.intra_list_diversity(padded(lists), *columns(owned), N_ITEMS)
    np.testing.assert_array_equal(whole, parts)


@given(LISTS, OWNED)
def test_the_order_of_a_list_changes_nothing(lists: Lists, owned: set[tuple[int, int]]) -> None:
    one, other = padded(lists), padded([each[::-1] for each in lists])
    varied, turned = (
        metrics.intra_list_diversity(each, *columns(owned), N_ITEMS) for each in (one, other)
    )
    np.testing.assert_allclose(varied, turned, atol=1e-12)
    new, again = (metrics.novelty(each, np.arange(N_ITEMS), 9) for each in (one, other))
    np.testing.assert_allclose(new, again, atol=1e-12)


def test_diversity_at_its_ends() -> None:
    users, items = np.array([0, 1, 0, 1, 2]), np.array([0, 0, 1, 1, 2])
    lists = np.array([[0, 1], [0, 2], [0, 3]])  # the same users; none in common; nobody has it
    found = metrics.intra_list_diversity(lists, users, items, 4)
    np.testing.assert_allclose(found, [0, 1, 1], atol=1e-12)


def test_an_item_that_nobody_has_is_like_no_other() -> None:
    owned = {(0, 0), (0, 1)}  # nobody has 2, beside two that are the same
    found = metrics.intra_list_diversity(np.array([[0, 1, 2]]), *columns(owned), N_ITEMS)
    np.testing.assert_allclose(found, [2 / 3])


@given(LISTS, st.lists(st.integers(0, 9), min_size=N_ITEMS, max_size=N_ITEMS))
def test_novelty_is_the_mean_surprise(lists: Lists, n_users_of: list[int]) -> None:
    found = metrics.novelty(padded(lists), np.array(n_users_of), 9)
    wanted = [
        sum(-math.log2((n_users_of[item] + 1) / 10) for item in each) / len(each)
        if each
        else math.nan
        for each in lists
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert (found[~np.isnan(found)] >= 0).all()


def test_what_everybody_has_is_no_news() -> None:
    assert metrics.novelty(np.array([[0]]), np.array([7]), 7).tolist() == [0.0]
    assert metrics.novelty(np.array([[0]]), np.array([0]), 7).tolist() == [3.0]


@given(st.lists(st.tuples(st.floats(1, 50), st.floats(1, 50)), min_size=1, max_size=8))
def test_lift_compares_lists_with_histories(pairs: list[tuple[float, float]]) -> None:
    of_lists, of_histories = np.array(pairs).T
    found = metrics.popularity_lift(of_lists, of_histories)
    assert found == pytest.approx(of_lists.mean() / of_histories.mean() - 1)
    assert metrics.popularity_lift(of_lists, of_lists) == pytest.approx(0)
    assert metrics.popularity_lift(2 * of_lists, of_lists) == pytest.approx(1)


def test_users_without_a_list_or_a_history_are_left_out() -> None:
    nan = math.nan
    lists, histories = np.array([4.0, nan, 6.0]), np.array([2.0, 5.0, nan])
    assert metrics.popularity_lift(lists, histories) == 1.0
    assert math.isnan(metrics.popularity_lift(lists[1:], histories[1:]))
    rng = np.random.default_rng(0)
    n, value, low, high = metrics.with_interval(lists, histories, rng)
    assert (n, value) == (1, 2.0)
    assert math.isnan(low), "one user has no spread"
    assert math.isnan(high)
    assert metrics.with_interval(lists[1:], histories[1:], rng)[0] == 0


def test_an_interval_holds_the_mean() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(3, 1, 400)
    n, value, low, high = metrics.with_interval(values, np.ones(400), rng)
    assert n == 400
    assert value == pytest.approx(values.mean())
    assert low < value < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.2)


@pytest.mark.parametrize("lists", [np.array([[6]]), np.array([0, 1]), np.array([[0.5]])])
def test_bad_lists_are_refused(lists: np.ndarray) -> None:
    with pytest.raises(cp.DataError, match=r"lists must be indices .*; found .*; give"):
        metrics.novelty(lists, np.arange(N_ITEMS), 9)


def test_other_users_are_refused() -> None:
    with pytest.raises(cp.DataError, match=r"of the same users; found .*\(2,\).*; give"):
        metrics.popularity_lift(np.ones(2), np.ones(3))
