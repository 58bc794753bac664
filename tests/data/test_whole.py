from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterplay.data.whole import nth

NUMBERS = st.lists(st.integers(-(2**61), 2**61), max_size=9)


@given(st.lists(NUMBERS | st.lists(st.integers(0, 3)), min_size=1).filter(any))
def test_the_nth_of_many_arrays_is_that_of_all_in_order(several: list[list[int]]) -> None:
    arrays = [np.array(sorted(each), dtype=np.int64) for each in several]
    ordered = sorted(number for each in several for number in each)
    found = [nth(arrays, n) for n in range(len(ordered) + 1)]
    assert found == [*ordered, ordered[-1] + 1]
