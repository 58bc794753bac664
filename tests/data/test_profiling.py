from __future__ import annotations

import datetime as dt
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.profiling import gini
from counterplay.display import to_polars

from .conftest import tables


@given(st.lists(st.integers(0, 50), min_size=1))
def test_gini_equals_the_mean_absolute_difference(counts: list[int]) -> None:
    values = np.array(counts)
    if values.sum() == 0:
        assert gini(values) == 0
        return
    expected = np.abs(values[:, None] - values).mean() / (2 * values.mean())
    assert gini(values) == pytest.approx(expected)


@given(tables())
def test_counts_equal_brute_force(frame: pl.DataFrame) -> None:
    found = cp.data.profile(cp.read(frame))
    pairs = set(frame.rows())
    n_users, n_items = frame["user"].n_unique(), frame["item"].n_unique()
    assert (found.n_interactions, found.n_users, found.n_items) == (len(frame), n_users, n_items)
    assert found.density == pytest.approx(len(pairs) / (n_users * n_items))
    assert found.repeated_share == pytest.approx(1 - len(pairs) / len(frame))
    per_user = frame["user"].value_counts()["count"]
    assert found.user_events["50%"] == pytest.approx(per_user.median())
    assert found.user_events["100%"] == per_user.max()


def test_times_that_cannot_be_are_counted() -> None:
    times = [dt.datetime(1956, 1, 1), dt.datetime(2020, 5, 1), dt.datetime(2900, 1, 1)]
    log = cp.read({"user": [1, 2, 3], "item": [1, 2, 3], "time": times})
    found = cp.data.profile(log)
    assert found.n_implausible_times == 2
    assert (found.first_time, found.last_time) == ("1956-01-01T00:00:00Z", "2900-01-01T00:00:00Z")


def test_optional_columns_show_when_they_are_there(small_log: cp.Interactions) -> None:
    found = cp.data.profile(small_log)
    assert found.feedback == "explicit"
    assert found.rating_range == pytest.approx((1.0, 29 / 9, 5.0))
    assert found.exposed_share is None
    implicit = cp.data.profile(
        cp.read(
            {"user": [1, 2], "item": [1, 2], "exposed": [1, 0], "propensity": [0.5, 1.0]},
            user_features={"id": [1, 2], "age": [3, 4]},
        )
    )
    assert (implicit.feedback, implicit.rating_range, implicit.first_time) == (
        "implicit",
        None,
        None,
    )
    assert (implicit.exposed_share, implicit.propensity_range) == (0.5, (0.5, 0.75, 1.0))
    assert implicit.features == {"user": ["age"]}


def test_an_empty_log_has_no_profile(small_log: cp.Interactions) -> None:
    with pytest.raises(cp.DataError, match="a profile needs rows"):
        cp.data.profile(small_log.take(np.zeros(9, dtype=bool)))


def test_a_profile_is_ready_for_json(small_log: cp.Interactions) -> None:
    assert json.loads(json.dumps(cp.data.profile(small_log).to_dict()))["n_users"] == 3


def test_a_profile_shows_itself_and_becomes_a_row(small_log: cp.Interactions) -> None:
    found = cp.data.profile(small_log)
    assert repr(found) == "<Profile of 'log': 9 rows, 3 users, 4 items, explicit feedback>"
    page = found._repr_html_()
    for name, text in found.summary().items():
        assert name in page
        assert text in page
    frame = found.to_polars()
    assert len(frame) == 1
    assert frame["rating_range_low"].item() == 1.0
    assert frame["user_events_100%"].item() == found.user_events["100%"]
    assert frame["propensity_range_mean"].item() is None
    assert found.to_pandas().shape == frame.shape


def test_profiles_of_different_logs_become_one_frame(small_log: cp.Interactions) -> None:
    rows, features = {"user": [1, 2], "item": [3, 4]}, {"id": [1, 2], "age": [5, 6]}
    other = cp.read(rows, user_features=features, name="<i>")
    frame = to_polars([cp.data.profile(small_log), cp.data.profile(other)])
    assert frame["name"].to_list() == ["log", "<i>"]
    assert frame["features_user"].to_list() == [None, ["age"]]
    assert "<i>" not in cp.data.profile(other)._repr_html_()
