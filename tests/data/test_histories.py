from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.histories import before_impressions

from .conftest import tables


def histories_of(log: cp.Interactions) -> list[list[int]]:
    return [log.item[log.user == user].tolist() for user in range(log.n_users)]


@given(tables(times=True), st.integers(1, 7))
def test_last_items_equal_brute_force(frame: pl.DataFrame, length: int) -> None:
    log = cp.read(frame)
    last = cp.data.Histories(log).last(np.arange(log.n_users), length)
    for history, row in zip(histories_of(log), last.tolist(), strict=True):
        expected = history[-length:]
        assert row == [log.n_items] * (length - len(expected)) + expected


@given(tables(times=True), st.integers(1, 6))
def test_every_row_is_a_target_once_after_what_came_before(
    frame: pl.DataFrame, length: int
) -> None:
    log = cp.read(frame)
    windows = cp.data.Histories(log).windows(length)
    padding = log.n_items
    found: dict[int, list[int]] = {user: [] for user in range(log.n_users)}
    for user, inputs, targets in zip(*_rows(windows)[:3], strict=True):
        real = [place for place in range(length) if targets[place] != padding]
        found[user] = [targets[place] for place in real] + found[user]
        for place in real:
            if place + 1 < length and targets[place + 1] != padding:
                assert inputs[place + 1] == targets[place]
    assert [found[user] for user in range(log.n_users)] == histories_of(log)
    real_rows = windows.row >= 0
    assert sorted(windows.row[real_rows].tolist()) == list(range(len(log)))
    assert (log.item[windows.row[real_rows]] == windows.targets[real_rows]).all()
    assert (windows.targets[~real_rows] == padding).all()


def _rows(windows: object) -> tuple[list[int], list[list[int]], list[list[int]]]:
    return tuple(getattr(windows, name).tolist() for name in ("user", "inputs", "targets"))


def test_windows_by_hand() -> None:
    log = cp.read({"user": [0] * 5 + [1], "item": [0, 1, 2, 3, 4, 0], "time": range(6)})
    windows = cp.data.Histories(log).windows(3)
    assert windows.user.tolist() == [0, 0, 1]
    assert windows.inputs.tolist() == [[1, 2, 3], [5, 5, 0], [5, 5, 5]]
    assert windows.targets.tolist() == [[2, 3, 4], [5, 0, 1], [5, 5, 0]]


def test_the_padding_is_one_past_the_last_item(small_log: cp.Interactions) -> None:
    histories = cp.data.Histories(small_log)
    assert histories.padding == small_log.n_items
    assert int(histories.windows(50).inputs.max()) == small_log.n_items


def test_a_user_without_rows_has_an_empty_history(small_log: cp.Interactions) -> None:
    histories = cp.data.Histories(small_log.take(small_log.user != 1))
    assert histories.last(np.array([1]), 2).tolist() == [[4, 4]]
    assert 1 not in histories.windows(2).user


def test_a_length_must_make_sense(small_log: cp.Interactions) -> None:
    with pytest.raises(cp.ConfigError, match="length of 1 or more"):
        cp.data.Histories(small_log).last(np.array([0]), 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 6), st.booleans()),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 4),
)
def test_histories_of_impressions_are_those_of_a_loop(
    rows: list[tuple[int, int, int, bool]], length: int
) -> None:
    rows += [(0, 0, 0, False), (1, 1, 0, True)]  # two users and two items at least
    columns = zip(*rows, strict=True)
    frame = pl.DataFrame(dict(zip(("user", "item", "time", "clicked"), columns, strict=True)))
    log = cp.read(frame, clicked="clicked")
    assert log.time is not None
    assert log.clicked is not None
    found = before_impressions(log, length)
    for row in range(len(log)):
        mine = (log.user == log.user[row]) & log.clicked
        clicks, n = log.item[mine].tolist(), int((mine & (log.time < log.time[row])).sum())
        place = int(found.place[row])
        window = found.inputs[found.window[row]].tolist()
        assert window[: place + 1] == ([log.n_items] * length + clicks[:n])[-place - 1 :]
        after = clicks[n:][: length - place - 1]
        assert window[place + 1 :] == after  # nobody looks at them
        assert place == length - 1 - (len(clicks) - n) % length  # windows are shared
