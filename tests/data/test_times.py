from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.times import TimeUnit

MOMENT = dt.datetime(2017, 7, 30, 14, 44, 10, tzinfo=dt.UTC)
SECONDS = int(MOMENT.timestamp())


def times_of(values: Any, unit: TimeUnit | None = None) -> list[int]:
    n = len(values)
    log = cp.read({"user": np.arange(n), "item": np.arange(n), "time": values}, time_unit=unit)
    assert log.time is not None
    return [int(time) for time in log.time]


@pytest.mark.parametrize(
    "text",
    [
        "2017-07-30T14:44:10Z",
        "2017-07-30 14:44:10 UTC",
        "2017-07-30T14:44:10+00:00",
        "2017-07-30T07:44:10-07:00",
        "2017-07-30 14:44:10",
        "2017-07-30T14:44:10",
        "2017-07-30 14:44:10+00:00",
        "2017-07-30 14:44:10.000",
        "Sun Jul 30 07:44:10 -0700 2017",
        "2017/07/30 14:44:10",
        str(SECONDS),
        f" {SECONDS}.0 ",
    ],
)
def test_one_moment_in_many_texts(text: str) -> None:
    assert times_of([text, text]) == [SECONDS * 10**6] * 2


@pytest.mark.parametrize("text", ["2017-07-30", "2017/07/30", "20170730"])
def test_dates_are_midnights(text: str) -> None:
    midnight = int(dt.datetime(2017, 7, 30, tzinfo=dt.UTC).timestamp())
    assert times_of([text, text]) == [midnight * 10**6] * 2


@pytest.mark.parametrize("factor", [1, 10**3, 10**6, 10**9])
def test_the_unit_of_numbers_shows_in_their_size(factor: int) -> None:
    assert times_of([SECONDS * factor] * 2) == [SECONDS * 10**6] * 2
    assert times_of([str(SECONDS * factor)] * 2) == [SECONDS * 10**6] * 2


def test_a_given_unit_decides() -> None:
    assert times_of([5, 7], "ms") == [5_000, 7_000]
    assert times_of([5_000, 7_999], "ns") == [5, 7]


@given(st.lists(st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2100, 1, 1)), min_size=2))
def test_datetimes_are_kept_to_the_microsecond(moments: list[dt.datetime]) -> None:
    epoch = dt.datetime(1970, 1, 1)
    expected = [(moment - epoch) // dt.timedelta(microseconds=1) for moment in moments]
    assert times_of(pl.Series(moments)) == expected


def test_zones_are_taken_into_account() -> None:
    zoned = pl.Series([MOMENT, MOMENT]).dt.convert_time_zone("Asia/Tokyo")
    assert times_of(zoned) == [SECONDS * 10**6] * 2


def test_fractions_of_seconds_survive() -> None:
    assert times_of([1.5e9 + 0.25, 1.5e9 + 0.5]) == [1_500_000_000_250_000, 1_500_000_000_500_000]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2017-07-30", "yesterday", "soon"], "found 2 of 3 rows"),
        ([1.0, float("nan"), 3.0], "found 1 of 3 rows"),
        ([1, None, 3], "found 1 of 3 rows"),
        (["12", "13", "noon"], "found 1 of 3 rows"),
        (["2017-07-30 14:44:10 PST"] * 3, "found 3 of 3 rows"),
    ],
)
def test_what_is_no_time_is_counted(values: list[Any], expected: str) -> None:
    with pytest.raises(cp.DataError, match="times must be dates, ISO 8601 text or numbers") as got:
        times_of(values)
    assert expected in str(got.value)


def test_rows_in_another_form_than_most_are_read_too() -> None:
    texts = ["2017-07-30T14:44:10Z", "2017-07-30T14:44:10", "2017-07-30T14:44", "2017-07-30"]
    midnight = int(dt.datetime(2017, 7, 30, tzinfo=dt.UTC).timestamp()) * 10**6
    expected = [SECONDS * 10**6] * 2 + [(SECONDS - 10) * 10**6, midnight]
    assert times_of(texts) == expected


def test_dates_as_numbers() -> None:
    midnight = int(dt.datetime(2017, 7, 30, tzinfo=dt.UTC).timestamp())
    assert times_of([20170730, 20170730]) == [midnight * 10**6] * 2
    assert times_of([20170730, 20170730], "s") == [20170730 * 10**6] * 2


def test_times_out_of_range_are_refused() -> None:
    with pytest.raises(cp.DataError, match="out of range, the first at row 3"):
        times_of([1, 2, 2**62])


def test_times_of_a_strange_type_are_refused() -> None:
    with pytest.raises(cp.DataError, match="found column 'time' of type Boolean"):
        times_of([True, False])
