from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics.recommendations import relevance_by_place, top_k, write_top_k
from counterplay.metrics.scoring import TableScores

from .conftest import Case, MatrixScores, cases, items_of, log_of, memory_for


def plain_list(scores: list[float], seen: set[int], k: int) -> list[tuple[int, float]]:
    """Return the best unseen items by sorting, and −1 where there is nothing more."""
    unseen = [i for i, score in enumerate(scores) if i not in seen and score > -np.inf]
    best = sorted(unseen, key=lambda item: (-scores[item], item))[:k]
    return [(item, scores[item]) for item in best] + [(-1, -np.inf)] * (k - len(best))


@given(cases(), st.integers(1, 10), st.integers(1, 6), st.integers(0, 99))
def test_lists_equal_sorting_whatever_the_memory(
    case: Case, k: int, at_a_time: int, seed: int
) -> None:
    users = np.random.default_rng(seed).integers(0, len(case.matrix), 7)  # some of them repeat
    seen, memory = case.log(case.seen), memory_for(at_a_time, case.n_items)
    items, best = top_k(MatrixScores(case.matrix), users, seen, k, memory=memory)
    assert items.shape == best.shape == (7, k)
    for row, user in enumerate(users.tolist()):
        expected = plain_list(case.matrix[user], items_of(seen, user), k)
        assert list(zip(items[row].tolist(), best[row].tolist(), strict=True)) == expected


@given(cases(), st.integers(1, 10), st.integers(1, 6), st.integers(0, 99))
def test_given_numbers_order_what_ties(case: Case, k: int, at_a_time: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).random((len(case.matrix), case.n_items))
    seen, memory = case.log(case.seen), memory_for(at_a_time, case.n_items)
    users = np.arange(len(case.matrix))
    items, best = top_k(
        MatrixScores(case.matrix), users, seen, k, ties=lambda some: numbers[some], memory=memory
    )
    for user, scores in enumerate(case.matrix):
        unseen = [i for i in range(len(scores)) if i not in items_of(seen, user)]
        ranked = sorted(
            (i for i in unseen if scores[i] > -np.inf),
            key=lambda i, user=user, scores=scores: (-scores[i], -numbers[user, i]),  # type: ignore[misc]
        )[:k]
        assert items[user].tolist() == ranked + [-1] * (k - len(ranked))
        assert best[user].tolist() == [scores[i] for i in ranked] + [-np.inf] * (k - len(ranked))


@given(cases(), st.integers(1, 10), st.integers(1, 6), st.integers(0, 99))
def test_places_hold_the_mean_relevance_of_what_ties(
    case: Case, k: int, at_a_time: int, seed: int
) -> None:
    """By hand: a place of a tie holds the mean of all that ties there, on the list or not."""
    seen, memory = case.log(case.seen), memory_for(at_a_time, case.n_items)
    relevance = np.random.default_rng(seed).random((len(case.matrix), case.n_items), np.float32)
    found = relevance_by_place(
        MatrixScores(case.matrix), MatrixScores(relevance), np.arange(len(case.matrix)), seen, k,
        memory=memory,
    )  # fmt: skip
    for user, scores in enumerate(case.matrix):
        ranked = plain_list(scores, items_of(seen, user), case.n_items)
        level = [score for _, score in ranked if score > -np.inf]
        expected = [
            float(np.mean([relevance[user, item] for item, other in ranked if other == score]))
            for score in level
        ]
        assert found[user].tolist() == pytest.approx((expected + [0.0] * k)[:k], rel=1e-6)


@pytest.mark.parametrize("n_values", [9, 10**6])
@pytest.mark.parametrize("k", [1, 10, 999, 1000, 1200])
def test_long_lists_with_and_without_ties_equal_sorting(k: int, n_values: int) -> None:
    rng = np.random.default_rng(k)
    matrix = rng.integers(0, n_values, (30, 1000)).astype(float)
    seen = log_of(zip(*rng.integers(0, [[30], [1000]], (2, 400)).tolist(), strict=True), 30, 1000)
    items, best = top_k(MatrixScores(matrix), np.arange(30), seen, k)
    for user, scores in enumerate(matrix.tolist()):
        expected = plain_list(scores, items_of(seen, user), k)
        assert list(zip(items[user].tolist(), best[user].tolist(), strict=True)) == expected
        assert not items_of(seen, user) & set(items[user].tolist())


def test_scores_are_left_as_they_are() -> None:
    user, item = np.divmod(np.arange(12), 4)
    scores, seen = TableScores(user, item, np.arange(12.0), 4), log_of([(0, 3), (2, 0)], 3, 4)
    first, again = (top_k(scores, np.arange(3), seen, 4)[0].tolist() for _ in range(2))
    assert first == again == [[2, 1, 0, -1], [3, 2, 1, 0], [3, 2, 1, -1]]


def test_no_users_have_no_lists() -> None:
    scores, seen = MatrixScores(np.zeros((2, 3))), log_of([], 2, 3)
    items, best = top_k(scores, np.empty(0, int), seen, 5)
    assert items.shape == best.shape == (0, 5)
    assert items.dtype == np.int32
    assert best.dtype == np.float32


@pytest.mark.parametrize("k", [0, -3])
def test_lists_of_no_length_are_refused(k: int, tmp_path: Path) -> None:
    scores, seen = MatrixScores(np.zeros((2, 3))), log_of([], 2, 3)
    with pytest.raises(cp.ConfigError, match=f"1 or more; found {k}"):
        top_k(scores, np.arange(2), seen, k)
    with pytest.raises(cp.ConfigError, match=f"1 or more; found {k}"):
        write_top_k(tmp_path / "lists.parquet", scores, np.arange(2), seen, k)
    assert not list(tmp_path.iterdir())


TEXT = {"user": ["ann", "ann", "bob", "çelik", "dan"], "item": ["tea", "5", "tea", "rum", "gin"]}
NUMBERS = {"user": [-7, -7, 12, 2**40, 2**62], "item": [8, 900, 8, 33, -1]}
Ids = dict[str, list[str]] | dict[str, list[int]]


def scored(log: cp.Interactions) -> TableScores:
    """Score some pairs: one user has no list at all, another has a short one."""
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.arange(log.n_users * log.n_items), log.n_items)
    given_ = (user != 1) & ((user != 2) | (item == 0))
    return TableScores(user[given_], item[given_], rng.random(int(given_.sum())), log.n_items)


@pytest.mark.parametrize("at_a_time", [1, 3, 9])
@pytest.mark.parametrize("ids", [TEXT, NUMBERS], ids=["text", "integers"])
def test_a_written_table_holds_the_lists_in_original_ids(
    ids: Ids, at_a_time: int, tmp_path: Path
) -> None:
    log, users, path = cp.read(ids), np.array([1, 3, 0, 2]), tmp_path / "lists.parquet"
    memory = memory_for(at_a_time, log.n_items)
    write_top_k(path, scored(log), users, log, 3, memory=memory)
    items, best = top_k(scored(log), users, log, 3)
    expected = [
        (log.users.ids[user], log.items.ids[item], place + 1, score)
        for user, row, scores in zip(users.tolist(), items.tolist(), best.tolist(), strict=True)
        for place, (item, score) in enumerate(zip(row, scores, strict=True))
        if item >= 0
    ]
    found = pl.read_parquet(path)
    assert found.columns == ["user", "item", "rank", "score"]
    assert found.schema["user"] == log.users.ids.dtype
    assert found.rows() == expected
    assert len(expected) > 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["lists.parquet"]


class Failing(MatrixScores):
    """Scores two lots of users, then breaks down."""

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float32]:
        if len(self.asked) == 2:
            raise RuntimeError("out of order")
        return super().of_all(users)


def write_and_fail(path: Path) -> None:
    scores = Failing(np.random.default_rng(0).random((6, 4)))
    with pytest.raises(RuntimeError, match="out of order"):
        write_top_k(path, scores, np.arange(6), log_of([], 6, 4), 2, memory=memory_for(2, 4))
    assert scores.asked == [2, 2]


def test_a_failure_midway_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    path.write_bytes(b"from the day before")
    write_and_fail(path)
    assert path.read_bytes() == b"from the day before"


def test_no_users_are_a_table_without_rows(tmp_path: Path) -> None:
    path, log = tmp_path / "lists.parquet", cp.read(TEXT)
    write_top_k(path, scored(log), np.empty(0, int), log, 3)
    found = pl.read_parquet(path)
    assert found.columns == ["user", "item", "rank", "score"]
    assert found.height == 0
