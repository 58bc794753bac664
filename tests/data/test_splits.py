from __future__ import annotations

import datetime as dt
import itertools
import re
import warnings
from collections.abc import Callable
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.splits import cold_notes

from .conftest import tables


def quietly(split: Callable[..., cp.Split], *arguments: object, **options: object) -> cp.Split:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        return split(*arguments, **options)


def leave_last_two_out(log: cp.Interactions) -> cp.Split:
    return quietly(cp.data.leave_last_two_out, log)


GOOD = {"user": [1, 2], "item": [1, 2], "time": [1, 2]}


def assert_partition(split: cp.Split) -> None:
    """Every row is in exactly one part, and the parts share the vocabularies."""
    parts = (split.train, split.validation, split.test)
    together = pl.concat([part.to_frame() for part in parts])
    whole = split.interactions.to_frame()
    assert sorted(together.rows(), key=repr) == sorted(whole.rows(), key=repr)
    assert sum(split.counts.values()) == len(whole)
    assert all(part.users is split.interactions.users for part in parts)


@given(tables(times=True))
def test_leave_last_two_out_equals_brute_force(frame: pl.DataFrame) -> None:
    split = leave_last_two_out(cp.read(frame, order="file"))
    assert_partition(split)
    expected: dict[str, list[tuple[object, ...]]] = {"train": [], "validation": [], "test": []}
    for user in sorted(set(frame["user"]), key=repr):
        rows = frame.filter(pl.col("user") == user).sort("time", maintain_order=True)
        pairs = rows.select("user", "item").rows()
        if len(pairs) < 3:
            expected["train"] += pairs
        else:
            expected["train"] += pairs[:-2]
            expected["validation"] += pairs[-2:-1]
            expected["test"] += pairs[-1:]
    for name, rows_expected in expected.items():
        found = getattr(split, name).to_frame().select("user", "item").rows()
        assert sorted(found, key=repr) == sorted(rows_expected, key=repr)


TIED = {"user": [1, 1, 1, 2], "item": [9, 7, 8, 7], "time": [5, 5, 5, 5]}


def test_ties_are_broken_by_the_order_of_the_input_if_asked_for() -> None:
    split = leave_last_two_out(cp.read(TIED, order="file"))
    assert split.test.to_frame()["item"].to_list() == [8]
    assert split.validation.to_frame()["item"].to_list() == [7]


def test_tied_last_rows_are_counted() -> None:
    frame = {
        "user": ["a", "a", "a", "b", "b", "b", "c", "c", "c", "d"],
        "item": [1, 2, 3, 1, 2, 3, 1, 2, 3, 1],
        "time": [1, 2, 2, 1, 1, 2, 1, 2, 3, 1],
    }
    for order, decides in (("canonical", "a fixed mix of the ids"), ("file", "the order of the")):
        with pytest.warns(cp.CounterplayWarning) as caught:
            cp.data.leave_last_two_out(cp.read(frame, order=order))  # type: ignore[arg-type]
        (text,) = [str(each.message) for each in caught if "tied last" in str(each.message)]
        assert "1 of 4 users have a tied last row" in text
        assert "for 1 users that goes for the validation row" in text
        assert decides in text
    log = cp.read({"user": [1, 1, 1, 2], "item": [9, 7, 8, 7], "time": [5, 6, 7, 5]})
    with pytest.warns(cp.CounterplayWarning) as caught:
        cp.data.leave_last_two_out(log)
    assert not any("tied" in str(each.message) for each in caught)


def test_tied_test_items_are_not_those_with_the_largest_ids() -> None:
    """Of 4 tied items, each is the test item of a quarter of 4,000 users, within 5 deviations."""
    users = np.repeat(np.arange(4000), 4)
    log = cp.read({"user": users, "item": np.tile(np.arange(4), 4000), "time": np.ones(16_000)})
    found = np.bincount(leave_last_two_out(log).test.item, minlength=4)
    assert (np.abs(found - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75)).all()


@given(tables(times=True), st.randoms())
def test_any_order_of_the_rows_gives_the_same_log_and_split(
    frame: pl.DataFrame, random: Random
) -> None:
    frame = frame.with_columns(rating=pl.int_range(pl.len()) % 3, shown=pl.int_range(pl.len()) % 2)
    rows = list(range(frame.height))
    random.shuffle(rows)
    log, other = (cp.read(each, exposed="shown") for each in (frame, frame[rows]))
    assert log.fingerprint == other.fingerprint
    assert leave_last_two_out(log).fingerprint == leave_last_two_out(other).fingerprint
    again = cp.read(log.to_frame())
    assert again.fingerprint == log.fingerprint  # the order is one that reading keeps


@given(tables(), st.randoms())
def test_without_times_too(frame: pl.DataFrame, random: Random) -> None:
    rows = list(range(frame.height))
    random.shuffle(rows)
    assert cp.read(frame) == cp.read(frame[rows])


def test_leave_last_two_out_warns_and_names_short_users(small_log: cp.Interactions) -> None:
    with pytest.warns(cp.CounterplayWarning) as caught:
        split = cp.data.leave_last_two_out(small_log)
    texts = [str(each.message) for each in caught]
    assert any("leaks time" in text for text in texts)
    assert any(
        "1 of 3 users have fewer than three rows" in text and "'c'" in text for text in texts
    )
    assert split.users_without_test.to_list() == ["c"]
    assert split.counts == {"train": 5, "validation": 2, "test": 2}


def test_without_times_the_input_decides_only_if_asked_for() -> None:
    frame = {"user": [1, 1, 1, 2, 2, 2], "item": [3, 1, 2, 1, 3, 2]}
    with pytest.raises(cp.DataError, match=r"found a log without times; .* \(--order file\)"):
        cp.data.leave_last_two_out(cp.read(frame))
    log = cp.read(frame, order="file")
    assert [str(step) for step in log.steps] == [
        "order: rows of one user at one time stand as in the input, as was asked for"
    ]
    split = cp.data.leave_last_two_out(log)
    assert split.test.to_frame()["item"].to_list() == [2, 2]
    assert split.validation.to_frame()["item"].to_list() == [1, 3]


@given(tables(times=True), st.floats(0, 0.45), st.floats(0, 0.45))
def test_a_split_by_time_never_trains_on_the_future(
    frame: pl.DataFrame, validation: float, test: float
) -> None:
    try:
        split = quietly(cp.data.split_by_time, cp.read(frame), fractions=(validation, test))
    except cp.DataError as error:
        assert "leave rows to train on" in str(error)
        return
    assert_partition(split)
    moments = [part.time for part in (split.train, split.validation, split.test)]
    filled = [moment for moment in moments if moment is not None and len(moment)]
    for before, after in itertools.pairwise(filled):
        assert before.max() < after.min()


def test_shares_of_zero_hold_nothing_out(small_log: cp.Interactions) -> None:
    nothing = {"train": 9, "validation": 0, "test": 0}
    assert cp.data.split_by_time(small_log, fractions=(0, 0)).counts == nothing
    rng = np.random.default_rng(0)
    assert cp.data.split_at_random(small_log, rng, fractions=(0, 0)).counts == nothing


def test_a_split_by_time_takes_moments(small_log: cp.Interactions) -> None:
    moment = dt.datetime(1970, 1, 1)
    split = cp.data.split_by_time(
        small_log,
        validation_from=moment + dt.timedelta(seconds=3),
        test_from=(moment + dt.timedelta(seconds=5)).replace(tzinfo=dt.UTC),
    )
    assert split.counts == {"train": 5, "validation": 3, "test": 1}
    assert split.users_without_train.to_list() == []


@given(tables(), st.floats(0, 0.24), st.floats(0, 0.24), st.integers(0, 99))
def test_a_random_split_keeps_pairs_together(
    frame: pl.DataFrame, validation: float, test: float, seed: int
) -> None:
    log = cp.read(frame)
    n_pairs = len(np.unique(log.pair))
    split, again = (
        quietly(
            cp.data.split_at_random, log, np.random.default_rng(seed), fractions=(validation, test)
        )
        for _ in range(2)
    )
    assert_partition(split)
    assert (split.part == again.part).all()
    assert not np.isin(split.test.pair, split.train.pair).any()
    assert len(np.unique(split.test.pair)) == n_pairs - round((1 - test) * n_pairs)


def test_the_share_of_seen_test_pairs_is_reported() -> None:
    log = cp.read({"user": [1, 1, 1, 2], "item": [5, 6, 5, 6], "time": [1, 2, 3, 4]})
    assert leave_last_two_out(log).seen_share == 1.0
    assert np.isnan(leave_last_two_out(cp.read(GOOD)).seen_share)


def test_splits_that_make_no_sense_are_refused(small_log: cp.Interactions) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(cp.ConfigError, match="together less than 1"):
        cp.data.split_at_random(small_log, rng, fractions=(0.5, 0.5))
    with pytest.raises(cp.DataError, match="needs times"):
        cp.data.split_by_time(cp.read({"user": [1, 2], "item": [1, 2]}))
    moment = dt.datetime(2020, 1, 1)
    with pytest.raises(cp.ConfigError, match="both moments or neither"):
        cp.data.split_by_time(small_log, test_from=moment)
    with pytest.raises(cp.ConfigError, match="a date or a datetime; found '2020'"):
        cp.data.split_by_time(small_log, validation_from="2020", test_from="2021")  # type: ignore[arg-type]
    with pytest.raises(cp.ConfigError, match="must begin before the test"):
        cp.data.split_by_time(
            small_log, validation_from=moment, test_from=moment - dt.timedelta(days=1)
        )
    early = dt.datetime(1960, 1, 1)
    with pytest.raises(cp.DataError, match="must leave rows to train on"):
        cp.data.split_by_time(small_log, validation_from=early, test_from=early)


def test_an_empty_test_part_is_warned_of(small_log: cp.Interactions) -> None:
    late = dt.date(2050, 1, 1)
    with pytest.warns(cp.CounterplayWarning, match="test part of the split by time is empty"):
        split = cp.data.split_by_time(small_log, validation_from=late, test_from=late)
    assert split.counts["test"] == 0


@pytest.mark.parametrize("part", [[0, 1], [0] * 8 + [3], [0] * 8 + [-1]])
def test_parts_must_fit_the_rows(part: list[int], small_log: cp.Interactions) -> None:
    with pytest.raises(cp.DataError, match="each row the part 0, 1 or 2"):
        cp.Split(small_log, np.array(part, dtype=np.int8), "hand")


def test_a_split_shows_itself_and_its_parts(small_log: cp.Interactions) -> None:
    split = cp.data.split_by_time(small_log, fractions=(0.2, 0.2))
    assert repr(split) == "<Split of 'log' by time: 5 train, 2 validation, 2 test>"
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", split._repr_html_())
    assert cells[0::4] == ["train", "validation", "test"]
    assert cells[1::4] == ["5", "2", "2"]
    assert cells[2::4] == ["55.6%", "22.2%", "22.2%"]
    parts = (split.train, split.validation, split.test)
    assert cells[3::4] == [str(len(set(part.user.tolist()))) for part in parts]


@given(tables(times=True), st.integers(0, 99))
def test_cold_rows_and_distinct_items_are_those_of_a_loop(frame: pl.DataFrame, seed: int) -> None:
    log = cp.read(frame)
    part = np.random.default_rng(seed).integers(0, 3, len(log)).astype(np.int8)
    part[0] = 0
    split = cp.Split(log, part, "any")
    rows = list(zip(log.user.tolist(), log.item.tolist(), part.tolist(), strict=True))
    users, items = ({row[role] for row in rows if row[2] == 0} for role in (0, 1))
    for number, name in ((1, "validation"), (2, "test")):
        held_out = [row for row in rows if row[2] == number]
        assert split.cold(number).tolist() == [row[0] not in users for row in held_out]
        assert split.cold_counts[name] == {
            "user": sum(row[0] not in users for row in held_out),
            "item": sum(row[1] not in items for row in held_out),
        }
    for number in range(3):
        expected = [
            len({row[1] for row in rows if row[0] == user and row[2] <= number})
            for user in range(log.n_users)
        ]
        assert split.n_distinct[number].tolist() == expected


def test_cold_rows_are_noted_with_their_counts() -> None:
    log = cp.read({"user": [1, 1, 2, 2, 3], "item": [1, 2, 1, 2, 9], "time": [1, 2, 3, 4, 5]})
    split = cp.Split(log, np.array([0, 0, 1, 2, 2], dtype=np.int8), "any")
    of_users, of_items = cold_notes(split)
    assert "1 of 1 validation rows (100.0%), 2 of 2 test rows (100.0%)" in of_users
    assert "1 of 2 test rows (50.0%)" in of_items
    assert "validation" not in of_items
    assert cold_notes(cp.Split(log, np.zeros(5, dtype=np.int8), "none held out")) == []
