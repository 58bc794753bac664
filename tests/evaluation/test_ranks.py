from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import counterplay as cp
from counterplay.evaluation.ranks import ranks_of_first, sampled_candidates

ROWS = st.integers(1, 6).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 3), min_size=k, max_size=k), min_size=1, max_size=5)
)


@given(ROWS)
def test_ranks_equal_the_mean_over_all_orders_of_ties(rows: list[list[int]]) -> None:
    found = ranks_of_first(np.array(rows, dtype=np.float64))
    for row, rank in zip(rows, found, strict=True):
        greater = sum(value > row[0] for value in row)
        ties = sum(value == row[0] for value in row)
        assert rank == np.mean([greater + place for place in range(1, ties + 1)])


def small_split(seed: int) -> cp.Split:
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 8, 60), rng.integers(0, 30, 60)
    log = cp.read({"user": user, "item": np.append(item[:-30], np.arange(30))})
    return cp.split_at_random(log, rng, fractions=(0.2, 0.2))


@given(st.integers(0, 99), st.integers(1, 10))
def test_candidates_are_distinct_unseen_and_begin_with_the_target(seed: int, n: int) -> None:
    split = small_split(seed)
    found = sampled_candidates(split.train, split.test, n, np.random.default_rng(seed))
    assert found.shape == (len(split.test), 1 + n)
    for user, target, row in zip(split.test.user, split.test.item, found.tolist(), strict=True):
        assert row[0] == target
        assert len(set(row)) == 1 + n
        assert not set(row[1:]) & set(split.train.item[split.train.user == user].tolist())


def test_candidates_are_uniform() -> None:
    """A chi-square test at 1e-4: one run in 10,000 would alarm falsely."""
    log = cp.read(
        {"user": [0, 0, 1, 1], "item": [0, 1, 2, 11]},
        item_features={"id": range(12), "x": range(12)},
        include_unseen=True,
    )
    seen, target = log.take(np.array([True, False, True, True])), log.take(log.item == 1)
    rng, counts = np.random.default_rng(0), np.zeros(12, dtype=int)
    for _ in range(3000):
        counts += np.bincount(sampled_candidates(seen, target, 4, rng)[0, 1:], minlength=12)
    assert counts[:2].sum() == 0
    assert chisquare(counts[2:]).pvalue > 1e-4


def test_too_few_unseen_items_are_an_error() -> None:
    split = small_split(0)
    with pytest.raises(cp.DataError, match="must have 30 unseen items"):
        sampled_candidates(split.train, split.test, 30, np.random.default_rng(0))
