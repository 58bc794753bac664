from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp

from .conftest import digest, mixed, tables


@given(tables(times=True), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter_without_ties(
    frame: pl.DataFrame, random: object
) -> None:
    distinct = frame.with_columns(time=pl.int_range(pl.len()))
    shuffled = distinct.sample(fraction=1, shuffle=True, seed=random.randrange(99))  # type: ignore[attr-defined]
    assert cp.read(distinct) == cp.read(shuffled)


def by_ids(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what the canonical order sorts by: user, time, the mix of the ids, item, the rest."""
    user, item, rating, time, *others = row
    mix = mixed((digest(user) * 0x9E3779B97F4A7C15 + digest(item)) % 2**64) >> 40
    plain = [each.encode() if isinstance(each, str) else each for each in (user, item)]
    return plain[0], time, mix, plain[1], rating, *others


@given(tables(times=True), st.data())
def test_rows_survive_in_canonical_order(frame: pl.DataFrame, data: st.DataObject) -> None:
    n = frame.height
    ratings = data.draw(st.lists(st.sampled_from([-2.5, -1.0, 0.0, 3.5]), min_size=n, max_size=n))
    places = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    frame = frame.with_columns(rating=pl.Series(ratings), position=pl.Series(places))
    frame = frame.select("user", "item", "rating", "time", "position")
    log = cp.read(frame, time_unit="s")
    result = log.to_frame().with_columns(pl.col("time").to_physical() // 1_000_000)
    assert result.rows() == sorted(frame.rows(), key=by_ids)
    assert (np.diff(log.user) >= 0).all()


@given(tables(times=True))
def test_the_order_of_the_input_stays_between_ties_if_asked_for(frame: pl.DataFrame) -> None:
    log = cp.read(frame, order="file", time_unit="s")
    expected = frame.sort("user", "time", maintain_order=True)
    result = log.to_frame().with_columns(pl.col("time").to_physical() // 1_000_000)
    assert result.rows() == expected.rows()
    assert log.in_file_order
    assert log.take(np.arange(2)).in_file_order
    assert not cp.read(frame).in_file_order


def test_columns_cannot_be_changed(small_log: cp.Interactions) -> None:
    with pytest.raises(ValueError, match="read-only"):
        small_log.user[0] = 1
    with pytest.raises(FrozenInstanceError):
        small_log.name = "other"  # type: ignore[misc]


def test_offsets_and_pairs(small_log: cp.Interactions) -> None:
    assert small_log.offsets.tolist() == [0, 5, 8, 9]
    assert small_log.pair.tolist() == [1, 2, 0, 3, 0, 4, 5, 6, 11]


def test_equality_is_by_content(small_log: cp.Interactions) -> None:
    same = small_log.take(np.ones(len(small_log), dtype=bool))
    fewer = small_log.take(np.arange(8))
    assert same == small_log
    assert hash(same) == hash(small_log)
    assert fewer != small_log
    assert small_log != "log"


@pytest.mark.parametrize(
    "change",
    [
        {"rating": [1, 2, 4]},
        {"user": [1, 2, 4]},
        {"item": ["1", "2", "3"]},
        {"time": [1, 2, 3]},
    ],
)
def test_the_fingerprint_sees_every_column(change: dict[str, list[object]]) -> None:
    base: dict[str, list[object]] = {"user": [1, 2, 3], "item": [1, 2, 3], "rating": [1, 2, 3]}
    assert cp.read(base).fingerprint != cp.read(base | change).fingerprint


def test_the_fingerprint_sees_features() -> None:
    log = {"user": [1, 2], "item": [1, 2]}
    tables: list[dict[str, list[object]]] = [
        {"a": [1, 2]},
        {"b": [1, 2]},
        {"a": [1, 3]},
        {"a": ["x", "yz"]},
        {"a": ["xy", "z"]},
        {"a": [["x"], ["y", "z"]]},
        {"a": [["x", "y"], ["z"]]},
        {"a": [None, 2]},
        {"a": [0, 2]},
    ]
    prints = {cp.read(log, user_features={"id": [1, 2], **each}).fingerprint for each in tables}
    assert len(prints) == len(tables)


def test_the_fingerprint_is_frozen() -> None:
    log = cp.read({"user": ["b", "a"], "item": [1, 2], "rating": [1, 2], "time": [5, 6]})
    assert (
        log.fingerprint == "sha256:df3d7daad28685403ef43d52952a7245cd15d71f5cc787bf210e2d163d61eabd"
    )


def test_a_threshold_makes_explicit_feedback_implicit(small_log: cp.Interactions) -> None:
    clicks = small_log.to_implicit(4)
    assert small_log.is_explicit
    assert not clicks.is_explicit
    assert len(clicks) == 4
    assert clicks.n_items == small_log.n_items
    assert clicks.steps[-1].counts == {"rows": 5}


def test_a_threshold_must_make_sense(small_log: cp.Interactions) -> None:
    with pytest.raises(cp.DataError, match="must reach the threshold of 6; found the highest"):
        small_log.to_implicit(6)
    with pytest.raises(cp.DataError, match="needs ratings"):
        small_log.to_implicit(4).to_implicit(4)


def test_a_threshold_may_be_a_numpy_number() -> None:
    log = cp.read({"user": [1, 2], "item": [1, 2], "rating": [4.1, 3.0]})
    assert len(log.to_implicit(np.float64(4.1))) == 1


def test_columns_must_be_of_one_length(small_log: cp.Interactions) -> None:
    with pytest.raises(cp.DataError, match="all columns must have 9 rows"):
        replace(small_log, rating=np.ones(3, dtype=np.float32))


def test_the_arrays_of_a_caller_stay_writeable(small_log: cp.Interactions) -> None:
    rating = np.ones(9, dtype=np.float32)
    log = replace(small_log, rating=rating)
    rating[0] = 2
    assert log.rating is not None
    assert not log.rating.flags.writeable


def test_compact_leaves_out_ids_without_rows(small_log: cp.Interactions) -> None:
    kept = small_log.take(small_log.user != 1).compact()
    assert kept.users.ids.to_list() == ["a", "c"]
    assert kept.items.ids.to_list() == [10, 20, 30, 40]
    assert kept.user.tolist() == [0, 0, 0, 0, 0, 1]


def test_a_log_shows_itself(small_log: cp.Interactions) -> None:
    assert repr(small_log) == (
        "<Interactions 'log': 9 rows, 3 users, 4 items; user, item, rating, time>"
    )


def test_a_log_in_a_notebook_shows_its_first_rows_as_text() -> None:
    rows = {"user": ["<b>x</b>"] * 7 + ["y"], "item": list(range(1000, 1008))}
    page = cp.read(rows, name="<script>")._repr_html_()
    assert "<b>" not in page
    assert "<script>" not in page
    assert page.count("&lt;b&gt;x&lt;/b&gt;") == 5
    assert ">1000</td>" in page  # an id is not a number
    assert "…" in page
    short = cp.read({"user": [1, 2], "item": [3, 4], "rating": [0.5, 1]})
    assert "…" not in short._repr_html_()
    assert "0 rows" in short.take(np.zeros(2, dtype=bool))._repr_html_()
