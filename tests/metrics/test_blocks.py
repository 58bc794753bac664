from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics.blocks import Elsewhere, block_scores, blocks_of
from counterplay.metrics.ranks import Ranks, full_ranks, rows_at_once, sampled_ranks
from counterplay.metrics.recommendations import Lists, lists_of, top_k
from counterplay.metrics.scoring import ModelScores, TableScores
from counterplay.metrics.shown_model import RelevanceModel
from counterplay.models.registry import ModelName, build
from counterplay.models.scorer import Scorer

from .conftest import MODELS, Case, MatrixScores, cases, items_of, log_of, memory_for
from .test_ranks import pairs_of, plain_rank
from .test_recommendations import plain_list


@given(st.integers(0, 30), st.integers(1, 12))
def test_blocks_follow_each_other_and_hold_all_items(n_items: int, size: int) -> None:
    assert blocks_of(n_items, size)  # one or more, of no items too
    items = [item for block in blocks_of(n_items, size) for item in range(n_items)[block]]
    assert items == list(range(n_items))
    assert all(0 < each.stop - each.start <= size for each in blocks_of(n_items, size) if n_items)


@given(cases(), st.integers(1, 9), st.integers(1, 6))
def test_ranks_by_blocks_equal_their_plain_twin(case: Case, block: int, at_a_time: int) -> None:
    seen, targets = case.log(case.seen), case.log(case.targets)
    memory = memory_for(at_a_time, min(block, case.n_items))
    found = full_ranks(MatrixScores(case.matrix), targets, seen, memory=memory, block=block)
    assert pairs_of(found) == [
        plain_rank(case.matrix[user], item, items_of(seen, user))
        for user, item in zip(targets.user.tolist(), targets.item.tolist(), strict=True)
    ]


@given(cases(), st.integers(1, 10), st.integers(1, 9), st.integers(1, 6))
def test_lists_by_blocks_equal_sorting(case: Case, k: int, block: int, at_a_time: int) -> None:
    seen, users = case.log(case.seen), np.arange(len(case.matrix))
    memory = memory_for(at_a_time, min(block, case.n_items))
    parts = lists_of(MatrixScores(case.matrix), users, seen, k, memory=memory, block=block)
    items, best = (np.concatenate(each) for each in zip(*parts, strict=True))
    for user in users.tolist():
        expected = plain_list(case.matrix[user], items_of(seen, user), k)
        assert list(zip(items[user].tolist(), best[user].tolist(), strict=True)) == expected


def test_a_memory_that_does_not_hold_all_items_is_enough() -> None:
    """Ties across blocks, a target that was seen, and a user who has seen a whole block."""
    scores = MatrixScores([[5, 9, 5, 1, 5, -np.inf]] * 2)
    seen = log_of([(0, 1), (0, 3), (1, 2), (1, 3)], 2, 6)
    targets = log_of([(0, 0), (0, 3), (0, 5), (1, 4)], 2, 6)
    for memory in (memory_for(1, 2), memory_for(2, 6)):
        found = full_ranks(scores, targets, seen, memory=memory, block=2)
        assert pairs_of(found) == [(0, 2), (3, 0), (3, 0), (1, 1)]
    with pytest.raises(cp.ConfigError, match="scores of 2 items, 64 bytes; found 63; raise it"):
        full_ranks(scores, targets, seen, memory=63, block=2)


def model_of(name: ModelName, log: cp.Interactions) -> Scorer:
    generator = torch.Generator().manual_seed(0)
    return build(name, log, dim=8, length=4, generator=generator).eval()


@pytest.mark.parametrize("name", MODELS)
def test_blocks_of_a_model_are_parts_of_its_scores(name: ModelName) -> None:
    seen = log_of([(0, 3), (0, 1), (1, 2), (2, 0), (2, 8)], 4, 11)  # user 3 is cold
    scores = ModelScores(model_of(name, seen), seen, train=seen)
    users = np.array([3, 0, 2, 1])
    whole = scores.of_all(users)
    for block in blocks_of(11, 4):
        found = block_scores(scores, users, block, 11)
        assert found.dtype == whole.dtype
        np.testing.assert_allclose(found, whole[:, block], rtol=1e-5, atol=1e-6)
        found[:] = np.nan  # free to be changed
    assert scores.of_all(users).tolist() == whole.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_ranks_of_a_model_by_blocks_are_those_of_its_blocks(name: ModelName) -> None:
    """The scores of blocks round as they like: a target is counted against those it has."""
    rng = np.random.default_rng(0)
    pairs = list(
        zip(rng.integers(0, 9, 60).tolist(), rng.integers(0, 40, 60).tolist(), strict=True)
    )
    seen, targets = log_of(pairs[:40], 9, 40), log_of(pairs[40:], 9, 40)
    scores = ModelScores(model_of(name, seen), seen, train=seen)
    users = np.unique(targets.user)
    matrix = np.zeros((9, 40))
    matrix[users] = np.concatenate(
        [block_scores(scores, users, block, 40) for block in blocks_of(40, 16)], axis=1
    )
    found = full_ranks(scores, targets, seen, block=16)
    assert pairs_of(found) == pairs_of(full_ranks(MatrixScores(matrix), targets, seen))


@given(cases(), st.integers(1, 9))
def test_blocks_of_a_table_are_parts_of_it(case: Case, block: int) -> None:
    pairs = sorted(set(case.seen))
    user, item = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    scores = TableScores(user, item, np.arange(len(pairs)) / 2, case.n_items)
    users = np.arange(len(case.matrix))
    parts = [
        block_scores(scores, users, each, case.n_items) for each in blocks_of(case.n_items, block)
    ]
    assert np.concatenate(parts, axis=1).tolist() == scores.of_all(users).tolist()


@given(cases(), st.integers(1, 4))
def test_a_part_of_the_users_is_asked_for_as_the_whole_is(case: Case, memory: int) -> None:
    """So that whoever ranks a part asks a model for the same shapes as who ranks all."""
    seen, targets = case.log(case.seen), case.log(case.targets)
    users = np.unique(targets.user)
    budget = memory_for(memory, case.n_items)
    at_once = rows_at_once(len(users), case.n_items, budget)
    whole, parts = MatrixScores(case.matrix), MatrixScores(case.matrix)
    expected = pairs_of(full_ranks(whole, targets, seen, memory=budget))
    found = []
    for begin in range(0, len(users), at_once):
        mine = targets.take(np.isin(targets.user, users[begin : begin + at_once]))
        found += pairs_of(full_ranks(parts, mine, seen, memory=budget, at_once=at_once))
    assert found == expected
    assert parts.asked == whole.asked


class _Told(Elsewhere):
    """Notes what it is asked for."""

    def __init__(self, here: MatrixScores) -> None:
        super().__init__(here)
        self.asked: list[str] = []

    def full_ranks(self, targets: cp.Interactions, seen: cp.Interactions, memory: int) -> Ranks:
        self.asked.append(f"full {memory}")
        return full_ranks(self.here, targets, seen, memory=memory)

    def sampled_ranks(self, users: NDArray[Any], candidates: NDArray[Any], memory: int) -> Ranks:
        self.asked.append(f"sampled {memory}")
        return sampled_ranks(self.here, users, candidates, memory=memory)

    def lists(
        self, users: NDArray[Any], seen: cp.Interactions, k: int, memory: int
    ) -> Iterator[Lists]:
        self.asked.append(f"lists {k} {memory}")
        return lists_of(self.here, users, seen, k, memory=memory)

    def group_sums(self, *_: Any, memory: int, **__: Any) -> Iterator[NDArray[Any]] | None:
        self.asked.append(f"sums {memory}")
        return None

    def probabilities(self, *given: Any) -> Iterator[NDArray[Any]] | None:
        self.asked.append(f"probabilities {given[-1]}")
        return None


def test_what_is_ranked_elsewhere_is_asked_there() -> None:
    here = MatrixScores(np.arange(12.0).reshape(3, 4))
    told, log = _Told(here), log_of([(0, 1), (2, 3)], 3, 4)
    nothing = log.take(np.empty(0, int))
    assert pairs_of(full_ranks(told, log, nothing, memory=9_999)) == [(2, 0), (0, 0)]
    candidates = np.array([[1, 0], [0, 3]])
    assert pairs_of(sampled_ranks(told, log.user, candidates, memory=9_998)) == [(0, 0), (1, 0)]
    assert top_k(told, np.arange(3), log, 2, memory=9_997)[0].tolist() == [[3, 2], [3, 2], [2, 1]]
    assert told.asked == ["full 9999", "sampled 9998", "lists 2 9997"]
    shared = np.ones((2, 3)), np.zeros(2, np.int64), np.zeros(4)
    model, plain = (RelevanceModel(*shared, [each], nothing) for each in (told, here))
    table = model.table(np.arange(2), memory=64 * 4)
    assert told.asked[3:] == ["probabilities [0, 1, 2]"]
    assert np.array_equal(table.values, plain.of_all(np.arange(2)).astype(np.float32))
    assert told.of_all(np.array([1])).tolist() == [[4, 5, 6, 7]]
    assert told.of(np.array([1]), np.array([[2]])).tolist() == [[6]]
