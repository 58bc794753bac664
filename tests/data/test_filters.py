from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp

from .conftest import tables


def rows_of(log: cp.Interactions) -> Counter[tuple[object, object]]:
    return Counter(log.to_frame().select("user", "item").rows())


def brute_force_events(
    rows: list[tuple[object, object]], items_above: int, users_above: int, users_below: int
) -> list[tuple[object, object]]:
    items = Counter(item for _, item in rows)
    rows = [row for row in rows if items[row[1]] > items_above]
    users = Counter(user for user, _ in rows)
    return [row for row in rows if users_above < users[row[0]] < users_below]


def brute_force_core(rows: list[tuple[object, object]], k: int) -> list[tuple[object, object]]:
    while True:
        users, items = Counter(u for u, _ in rows), Counter(i for _, i in rows)
        kept = [(u, i) for u, i in rows if users[u] >= k and items[i] >= k]
        if kept == rows:
            return rows
        rows = kept


@given(tables(), st.integers(0, 3), st.integers(0, 3), st.integers(3, 9))
def test_the_papers_filter_equals_brute_force(
    frame: pl.DataFrame, items_above: int, users_above: int, room: int
) -> None:
    expected = brute_force_events(frame.rows(), items_above, users_above, users_above + room)
    enough = len({u for u, _ in expected}) > 1 and len({i for _, i in expected}) > 1
    if not enough:
        with pytest.raises(cp.DataError, match="must leave at least two"):
            cp.data.filter_by_events(
                cp.read(frame),
                items_above=items_above,
                users_above=users_above,
                users_below=users_above + room,
            )
        return
    log = cp.read(frame)
    kept = cp.data.filter_by_events(
        log, items_above=items_above, users_above=users_above, users_below=users_above + room
    )
    assert rows_of(kept) == Counter(expected)
    assert set(kept.users.ids) == {user for user, _ in expected}
    assert kept.steps[-1].counts == {
        "rows": len(frame) - len(expected),
        "users": log.n_users - kept.n_users,
        "items": log.n_items - kept.n_items,
    }


@given(tables(), st.integers(1, 4))
def test_the_core_equals_brute_force(frame: pl.DataFrame, k: int) -> None:
    expected = brute_force_core(frame.rows(), k)
    if len({u for u, _ in expected}) < 2 or len({i for _, i in expected}) < 2:
        with pytest.raises(cp.DataError, match="must leave at least two"):
            cp.data.k_core(cp.read(frame), k)
    else:
        assert rows_of(cp.data.k_core(cp.read(frame), k)) == Counter(expected)


def test_bounds_that_make_no_sense_are_refused(small_log: cp.Interactions) -> None:
    with pytest.raises(cp.ConfigError, match="users_below must leave room"):
        cp.data.filter_by_events(small_log, users_above=20, users_below=21)
    with pytest.raises(cp.ConfigError, match="k must be 1 or more"):
        cp.data.k_core(small_log, 0)
