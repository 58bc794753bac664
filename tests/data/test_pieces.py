from __future__ import annotations

from itertools import accumulate

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from counterplay.data.cuts import cuts_of
from counterplay.data.pieces import row_ranges


@given(st.lists(st.integers(0, 300)), st.integers(1, 120))
def test_ranges_have_all_rows_once_and_end_with_row_groups_if_they_can(
    sizes: list[int], at_once: int
) -> None:
    ranges = row_ranges(sizes, at_once)
    assert [row for begin, n in ranges for row in range(begin, begin + n)] == [*range(sum(sizes))]
    assert all(0 < n <= at_once for _, n in ranges)
    if all(size <= at_once for size in sizes):
        assert {begin + n for begin, n in ranges} <= {*accumulate(sizes)}


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 50)), min_size=1), st.integers(1, 30))
def test_cuts_are_ids_that_leave_no_range_empty(users: list[tuple[int, int]], shards: int) -> None:
    sample = pl.DataFrame(users, schema={"id": pl.Int64, "rows": pl.Float64}, orient="row")
    cuts = cuts_of(sample, shards).to_list()
    known = sorted({user for user, _ in users})
    assert cuts == sorted(set(cuts))
    assert set(cuts) <= set(known[1:])
    assert len(cuts) < shards
