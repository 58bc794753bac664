from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.canonical import (
    arranged,
    canonical_order,
    offsets_of,
    stable_order,
    time_order,
)
from counterplay.data.vocabulary import Vocabulary

NARROW = st.integers(-3, 3)
WIDE = st.integers(-(2**61), 2**61)


@given(st.lists(st.tuples(NARROW, WIDE, NARROW), min_size=1, max_size=50))
def test_order_equals_a_plain_stable_sort(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    expected = sorted(range(len(rows)), key=lambda row: rows[row])
    order = stable_order(*columns)
    assert (list(range(len(rows))) if order is None else order.tolist()) == expected


def test_rows_in_order_need_no_permutation() -> None:
    assert stable_order(np.array([0, 0, 1, 5])) is None
    assert stable_order(np.array([3])) is None


def test_whole_seconds_over_many_rows_are_sorted_right() -> None:
    rng = np.random.default_rng(0)
    user = rng.integers(0, 50, 5000).astype(np.int32)
    time = rng.integers(0, 10**9, 5000) * 1_000_000
    order = stable_order(user, time)
    assert order is not None
    assert order.tolist() == np.lexsort((time, user)).tolist()


def test_one_odd_microsecond_among_whole_seconds_counts() -> None:
    time = np.arange(3000, dtype=np.int64)[::-1] * 1_000_000
    time[-1] = time[-2] + 1
    order = stable_order(time)
    assert order is not None
    assert order.tolist() == np.argsort(time, kind="stable").tolist()


def test_offsets_tell_where_groups_begin_and_end() -> None:
    assert offsets_of(np.array([0, 0, 2], dtype=np.int32), 4).tolist() == [0, 2, 2, 3, 3]


def test_rows_whose_mix_collides_go_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterplay.data.canonical._MIX_BITS", 1)
    rng = np.random.default_rng(0)
    rows = {"user": np.repeat([1, 2], 40), "item": np.tile(np.arange(40), 2)}
    log = cp.read(rows)
    for _ in range(5):
        order = rng.permutation(80)
        assert cp.read({name: column[order] for name, column in rows.items()}) == log


def test_ratings_order_tied_rows_of_a_pair_before_other_columns() -> None:
    rows = {"user": [1, 1, 2], "item": [1, 1, 2], "time": [5, 5, 5]}
    log = cp.read(rows | {"rating": [2.0, 1.0, 3.0], "position": [1, 2, 1]})
    assert log.rating is not None
    assert log.rating[:2].tolist() == [1.0, 2.0]


@given(st.data(), st.integers(1, 40), st.sampled_from(["canonical", "file"]))
def test_blocks_of_users_are_put_in_the_one_order(data: Any, at_once: int, order: Any) -> None:
    n = data.draw(st.integers(1, 60))
    few = st.lists(st.integers(0, 6), min_size=n, max_size=n)
    user, item, time, place = (np.array(data.draw(few)) for _ in range(4))
    columns: dict[str, Any] = {
        "user": user.astype(np.int32),
        "item": item.astype(np.int32),
        "time": time,
        "position": place.astype(np.int16),
    }
    users, items = Vocabulary.of(np.arange(7) * 13), Vocabulary.of(np.arange(7))
    rows = time_order(columns) if order == "file" else canonical_order(columns, users, items)
    expected = {name: column if rows is None else column[rows] for name, column in columns.items()}
    found = arranged(dict(columns), users, items, order, at_once=at_once)
    assert all(np.array_equal(found[name], column) for name, column in expected.items())
    assert found.keys() == expected.keys()
