from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.time_units import TimeUnit

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


def dates(texts: list[str], **options: Any) -> list[str]:
    n = len(texts)
    log = cp.read({"user": np.arange(n), "item": np.arange(n), "time": texts}, **options)
    return [str(time)[:16] for time in log.to_frame()["time"]]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["12/1/2010 8:26", "1/13/2011 18:05"], ["2010-12-01 08:26", "2011-01-13 18:05"]),
        (["1/12/2010 8:26", "13/1/2011 18:05"], ["2010-12-01 08:26", "2011-01-13 18:05"]),
        (["31.12.2010", "01.02.2011"], ["2010-12-31 00:00", "2011-02-01 00:00"]),
        (["01.02.2011 08:26:05", "03.04.2011 09:00"], ["2011-02-01 08:26", "2011-04-03 09:00"]),
        (["31-12-2010", "1-2-2011"], ["2010-12-31 00:00", "2011-02-01 00:00"]),
        (["12/31/10 8:26 PM", "1/2/11 8:26 AM"], ["2010-12-31 20:26", "2011-01-02 08:26"]),
        (["01-Dec-2010 08:26", "02-Jan-2011 09:00"], ["2010-12-01 08:26", "2011-01-02 09:00"]),
        (["09 13, 2009", "01 2, 2010"], ["2009-09-13 00:00", "2010-01-02 00:00"]),
        (["1/1/2010", "2/2/2010"], ["2010-01-01 00:00", "2010-02-02 00:00"]),  # both say the same
    ],
)
def test_dates_of_america_and_europe(texts: list[str], expected: list[str]) -> None:
    assert dates(texts) == expected


def test_the_order_of_day_and_month_is_asked_for_where_rows_do_not_tell() -> None:
    texts = ["5/5/2010 8:26", "12/1/2010 8:26", "1/2/2011 18:05"]
    with pytest.raises(cp.DataError, match="the rows must tell the day from the month") as caught:
        dates(texts)
    for said in (
        "row 2 is 2010-12-01T08:26:00 in the form '%m/%d/%Y %H:%M'",
        "or 2010-01-12T08:26:00 in the form '%d/%m/%Y %H:%M'",
        "--date-format",
    ):
        assert said in str(caught.value)
    american = dates(texts, date_format="%m/%d/%Y %H:%M")
    assert american[1:] == ["2010-12-01 08:26", "2011-01-02 18:05"]
    european = dates(texts, date_format="%d/%m/%Y %H:%M")
    assert european[1:] == ["2010-01-12 08:26", "2011-02-01 18:05"]


def test_a_later_batch_tells_the_day_from_the_month(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterplay.data.readers.BATCH_ROWS", 2)
    texts = ["1/2/2010", "3/4/2010", "5/6/2010", "25/7/2010"]
    assert dates(texts)[0] == "2010-02-01 00:00"
    with pytest.raises(cp.DataError, match="found 1 of 5 rows"):
        dates([*texts, "7/25/2010"])


def test_a_year_of_two_digits_is_not_one_of_the_first_century() -> None:
    with pytest.raises(cp.DataError, match=r"found 1 of 3 rows .*'1/2/10'"):
        dates(["2010-12-01", "2010-12-02", "1/2/10"])
    with pytest.raises(cp.DataError, match=r"found 1 of 3 rows .*'1/2/10'"):
        dates(["12/31/2010", "12/30/2010", "1/2/10"])
    with pytest.raises(cp.DataError, match="in the form '%d-%m-%y'"):
        dates(["10-12-11", "11-01-10"])
    assert dates(["10-12-31", "11-01-01"], date_format="%y-%m-%d")[0] == "2010-12-31 00:00"


def test_a_format_that_is_said_holds_for_all_rows() -> None:
    with pytest.raises(cp.DataError, match=r"in the form %Y; found|must be in the form %d\.%m\.%Y"):
        dates(["31.12.2010", "2011-01-01"], date_format="%d.%m.%Y")
    n = cp.read({"user": [1, 2], "item": [1, 2], "time": [3112, 102]}, date_format="%d%m", time="-")
    assert n.time is None
    whole = cp.read({"user": [1, 2], "item": [1, 2], "time": [31122010, 11022010]},
                    date_format="%d%m%Y")  # fmt: skip
    assert [str(time)[:10] for time in whole.to_frame()["time"]] == ["2010-12-31", "2010-02-11"]


@given(st.lists(st.dates(dt.date(1990, 1, 1), dt.date(2040, 1, 1)), min_size=2, max_size=30))
def test_day_first_and_month_first_are_never_mixed_up(days: list[dt.date]) -> None:
    certain = any(day.day > 12 for day in days) or all(day.day == day.month for day in days)
    expected = [f"{day} 00:00" for day in days]
    for form in ("%d/%m/%Y", "%m/%d/%Y"):
        texts = [day.strftime(form) for day in days]
        if certain:
            assert dates(texts) == expected
        else:
            with pytest.raises(cp.DataError, match="the day from the month"):
                dates(texts)


@pytest.mark.parametrize(
    ("number", "text"),
    [(20170730074410, "2017-07-30T07:44:10"), (201707300744, "2017-07-30T07:44")],
)
def test_numbers_of_dates_and_clocks_are_no_milliseconds(number: int, text: str) -> None:
    expected = int(np.datetime64(text, "us").astype(np.int64))
    assert times_of([number, number]) == [expected] * 2
    assert times_of([str(number), str(number)]) == [expected] * 2


@pytest.mark.parametrize("odd", [1_500_000_000, 1_500_000_000_000_000])
def test_numbers_in_two_units_are_refused(odd: int) -> None:
    most = [1_500_000_000_000] * 3
    with pytest.raises(cp.DataError, match=r"most in ms, and 1 of 4 rows .* row 4 with"):
        times_of([*most, odd])
    assert sorted(times_of([*most, 0]))[0] == 0  # a time that is not known
    assert len(times_of([*most, odd], "ms")) == 4


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_dates_of_a_table_are_the_same_in_every_unit(unit: Any) -> None:
    dates = pl.Series([MOMENT.replace(tzinfo=None)] * 2).cast(pl.Datetime(unit))
    assert times_of(dates) == [SECONDS * 10**6] * 2


def test_a_year_in_two_digits_may_be_first() -> None:
    expected = int(np.datetime64("1995-07-30", "us").astype(np.int64))
    for text in ("95/07/30", "95.07.30", "30.07.95", "30-07-95"):
        assert times_of([text, text]) == [expected] * 2
    with pytest.raises(
        cp.DataError, match=r"2014-07-17T.* '%d.%m.%y', or 2017-07-14T.* '%y.%m.%d'"
    ):
        times_of(["17.07.14", "18.12.29"])
    with pytest.raises(cp.DataError, match=r"'%d/%m/%y', or .* in the form '%y/%m/%d'"):
        times_of(["17/07/30", "18/12/29"])


def test_days_of_a_spreadsheet_are_no_seconds() -> None:
    with pytest.raises(cp.DataError, match="may be days of a spreadsheet; export them as dates"):
        times_of([44_197.5, 44_198.25])
    assert times_of([44_197, 44_198]) == [44_197 * 10**6, 44_198 * 10**6]  # counted by the log
