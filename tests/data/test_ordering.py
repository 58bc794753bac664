from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterplay.data.ordering import offsets_of, stable_order

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
