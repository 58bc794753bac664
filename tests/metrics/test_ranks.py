from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import counterplay as cp
from counterplay.metrics.ranks import (
    Ranks,
    full_ranks,
    ranks_of_first,
    rows_at_once,
    sampled_candidates,
    sampled_ranks,
)
from counterplay.metrics.scoring import ModelScores
from counterplay.models.registry import ModelName, build

from .conftest import (
    MODELS_TO_WRITE_OVER,
    Case,
    MatrixScores,
    cases,
    items_of,
    log_of,
    memory_for,
)

ROWS = st.integers(1, 6).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 3), min_size=k, max_size=k), min_size=1, max_size=5)
)


@given(ROWS)
def test_ranks_count_what_is_above_and_beside(rows: list[list[int]]) -> None:
    found = ranks_of_first(np.array(rows, dtype=np.float64))
    assert len(found) == len(rows)
    assert found.above.tolist() == [sum(value > row[0] for value in row) for row in rows]
    assert found.tied.tolist() == [sum(value == row[0] for value in row[1:]) for row in rows]


def pairs_of(ranks: Ranks) -> list[tuple[int, int]]:
    return list(zip(ranks.above.tolist(), ranks.tied.tolist(), strict=True))


def small_split(seed: int) -> cp.Split:
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 8, 60), rng.integers(0, 30, 60)
    log = cp.read({"user": user, "item": np.append(item[:-30], np.arange(30))})
    return cp.data.split_at_random(log, rng, fractions=(0.2, 0.2))


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
    for _ in range(600):
        counts += np.bincount(sampled_candidates(seen, target, 4, rng)[0, 1:], minlength=12)
    assert counts[:2].sum() == 0
    assert chisquare(counts[2:]).pvalue > 1e-4


def test_too_few_unseen_items_are_an_error() -> None:
    split = small_split(0)
    with pytest.raises(cp.DataError, match="must have 30 unseen items"):
        sampled_candidates(split.train, split.test, 30, np.random.default_rng(0))


def plain_rank(scores: list[float], target: int, seen: set[int]) -> tuple[int, int]:
    """Return how many candidates are above the target, and how many others beside it."""
    others = [item for item in range(len(scores)) if item != target and item not in seen]
    above = sum(scores[item] > scores[target] for item in others)
    return above, sum(scores[item] == scores[target] for item in others)


@given(cases(), st.integers(1, 6))
def test_full_ranks_equal_their_plain_twin_whatever_the_memory(case: Case, at_a_time: int) -> None:
    seen, targets = case.log(case.seen), case.log(case.targets)
    memory = memory_for(at_a_time, case.n_items)
    found = full_ranks(MatrixScores(case.matrix), targets, seen, memory=memory)
    expected = [
        plain_rank(case.matrix[user], item, items_of(seen, user))
        for user, item in zip(targets.user.tolist(), targets.item.tolist(), strict=True)
    ]
    assert pairs_of(found) == expected


@pytest.mark.parametrize("n_items", [2047, 2999, 4096])
def test_full_ranks_among_many_items_equal_their_plain_twin(n_items: int) -> None:
    """More scores than are counted in one go, and users with one target or with many."""
    rng = np.random.default_rng(n_items)
    matrix = rng.integers(0, 50, (60, n_items)).astype(float)
    user, item = (
        np.append(rng.integers(0, 60, 90), np.zeros(90, int)),
        rng.integers(0, n_items, 180),
    )
    seen, targets = (
        log_of(zip(user[rows].tolist(), item[rows].tolist(), strict=True), 60, n_items)
        for rows in (slice(0, 180, 7), slice(None))
    )
    lists, known = matrix.tolist(), [items_of(seen, user) for user in range(60)]
    assert pairs_of(full_ranks(MatrixScores(matrix), targets, seen)) == [
        plain_rank(lists[user], item, known[user])
        for user, item in zip(targets.user.tolist(), targets.item.tolist(), strict=True)
    ]


def test_golden_full_ranks() -> None:
    """Two items tie above; the seen best is out; a target that is seen too is ranked again."""
    scores = MatrixScores([[9, 5, 5, 1, 5, -np.inf]] * 2)
    seen = log_of([(0, 0), (0, 3)], 2, 6)
    targets = log_of([(0, 1), (0, 3), (0, 0), (0, 5), (1, 1), (1, 0)], 2, 6)
    found = full_ranks(scores, targets, seen)
    assert pairs_of(found) == [(0, 2), (3, 0), (0, 0), (3, 0), (1, 2), (0, 0)]


def test_the_memory_decides_how_many_users_are_scored_at_a_time() -> None:
    scores, log = MatrixScores(np.zeros((7, 5))), log_of([(user, 0) for user in range(7)], 7, 5)
    full_ranks(scores, log, log, memory=memory_for(4, 5) - 1)
    assert scores.asked == [3, 3, 3]  # the last is filled up
    scores.asked.clear()
    sampled_ranks(scores, log.user, np.zeros((7, 2), int), memory=memory_for(4, 2))
    assert scores.asked == [4, 4]


@pytest.mark.parametrize("at_a_time", [1, 3, 100])
@pytest.mark.parametrize("name", MODELS_TO_WRITE_OVER)
def test_ranks_of_a_model_equal_those_of_its_scores(name: ModelName, at_a_time: int) -> None:
    split = small_split(1)
    generator = torch.Generator().manual_seed(0)
    model = build(name, split.train, dim=8, length=4, generator=generator).eval()
    scores = ModelScores(model, split.train)
    matrix = MatrixScores(np.array(scores.of_all(np.arange(split.train.n_users))))
    for _ in range(2):  # the first time must not leave a trace
        found = full_ranks(
            scores, split.test, split.train, memory=memory_for(at_a_time, split.train.n_items)
        )
        assert pairs_of(found) == pairs_of(full_ranks(matrix, split.test, split.train))


@given(cases(), st.integers(0, 99), st.integers(1, 5))
def test_sampled_ranks_equal_those_of_all_rows_at_once(case: Case, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    users = rng.integers(0, len(case.matrix), 9)
    candidates = rng.integers(0, case.n_items, (9, n))
    scores = MatrixScores(case.matrix)
    expected = pairs_of(ranks_of_first(scores.of(users, candidates)))
    for at_a_time in (1, 2, 4, 9, 10):
        memory = memory_for(at_a_time, n)
        assert pairs_of(sampled_ranks(scores, users, candidates, memory=memory)) == expected


def test_rows_of_a_job_are_asked_for_as_many_at_a_time_as_it_is_told() -> None:
    scores, users = MatrixScores([[1, 2, 3]] * 5), np.arange(5)
    sampled_ranks(scores, users, np.array([[0, 1]] * 5), at_once=2)
    assert scores.asked == [2, 2, 2]


def test_a_model_is_asked_for_neither_few_nor_very_many_users_at_a_time() -> None:
    assert rows_at_once(10**6, 10, 1 << 30) == 1024
    assert rows_at_once(10**6, 1 << 20, 1 << 40) == 32
    assert rows_at_once(7, 10, 1 << 30) == 7


def test_progress_counts_targets_not_users() -> None:
    targets = log_of([(0, 0), (0, 1), (1, 0), (1, 2)], 2, 3)
    told: list[int] = []
    seen, memory = log_of([], 2, 3), memory_for(1, 3)
    full_ranks(MatrixScores([[1, 2, 3]] * 2), targets, seen, memory=memory, progress=told.append)
    assert told == [2, 4]


def test_the_expected_rank_is_the_mean_of_the_tied_places() -> None:
    assert Ranks(np.array([0, 2]), np.array([0, 3])).expected.tolist() == [1, 4.5]


def test_as_many_unseen_items_as_are_drawn_are_enough() -> None:
    found = sampled_candidates(
        log_of([(0, 0)], 1, 4), log_of([(0, 1)], 1, 4), 2, np.random.default_rng(0)
    )
    assert sorted(found[0].tolist()) == [1, 2, 3]


def test_no_targets_have_no_ranks() -> None:
    scores, log = MatrixScores(np.zeros((2, 3))), log_of([], 2, 3)
    assert len(full_ranks(scores, log, log)) == 0
    assert len(sampled_ranks(scores, log.user, np.zeros((0, 4), int))) == 0


def test_scores_that_are_no_numbers_are_refused_with_their_count() -> None:
    """Also where the user has seen the item: a model that gives NaN is broken."""
    scores = MatrixScores([[0, np.nan, 1], [np.nan, np.nan, np.inf]])
    log = log_of([(0, 1), (1, 2)], 2, 3)
    with pytest.raises(cp.DataError, match="found 3 that are none among 6"):
        full_ranks(scores, log, log)
    with pytest.raises(cp.DataError, match="found 1 that are none among 4"):
        sampled_ranks(scores, np.arange(2), np.array([[0, 1], [2, 2]]))


def test_a_memory_that_does_not_hold_one_user_is_refused() -> None:
    scores, log = MatrixScores(np.zeros((1, 1000))), log_of([(0, 0)], 1, 1000)
    for memory in (0, memory_for(1, 1000) - 1):
        with pytest.raises(cp.ConfigError, match=f"scores of .* bytes; found {memory:,}; raise it"):
            full_ranks(scores, log, log, memory=memory)
        with pytest.raises(cp.ConfigError, match=f"found {memory:,}; raise it"):
            sampled_ranks(scores, log.user, np.zeros((1, 1000), int), memory=memory)
