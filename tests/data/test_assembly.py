from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given

import counterplay as cp
from counterplay.data.roles import columns_of

from .conftest import tables


def test_usual_names_are_found_whatever_their_spelling() -> None:
    roles = columns_of({}, ["movieId", "Customer-ID", "Stars", "timestamp", "note"])
    expected = {"user": "Customer-ID", "item": "movieId", "rating": "Stars", "time": "timestamp"}
    assert roles == expected


def test_given_names_win_and_a_dash_leaves_out() -> None:
    roles = columns_of({"user": "note", "rating": "-"}, ["user", "item", "rating", "note"])
    assert roles == {"user": "note", "item": "item"}


@pytest.mark.parametrize(
    ("columns", "available", "expected"),
    [
        ({"user": "usr"}, ["user", "item"], "did you mean 'user'"),
        ({}, ["users_nr", "item"], "name it with user='users_nr'"),
        ({}, ["a", "b"], "a column for the user; found the columns 'a', 'b'; name it"),
        ({"item": "-"}, ["user", "item"], "a column for the item"),
        ({}, [f"c{n}" for n in range(20)], "and 8 more"),
    ],
)
def test_missing_columns_suggest_the_nearest(
    columns: dict[str, str], available: list[str], expected: str
) -> None:
    with pytest.raises(cp.DataError) as caught:
        columns_of(columns, available)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ({"user": [], "item": []}, "a log must have rows; found none"),
        ({"user": [1, 1], "item": [1, 2]}, "at least two users; found one, 1, in column 'user'"),
        ({"user": [1, 2], "item": ["x", "x"]}, "at least two items; found one, 'x'"),
    ],
)
def test_logs_that_are_too_small_are_refused(frame: dict[str, list[object]], expected: str) -> None:
    with pytest.raises(cp.DataError) as caught:
        cp.read(frame)
    assert expected in str(caught.value)


REPEATED = {
    "user": ["a", "a", "b", "a"],
    "item": [1, 1, 1, 2],
    "rating": [3, 1, 2, 5],
    "time": [9, 4, 5, 6],
}


@pytest.mark.parametrize(
    ("policy", "ratings"), [("all", [1, 5, 3, 2]), ("first", [1, 5, 2]), ("last", [5, 3, 2])]
)
def test_repeated_pairs_are_treated_by_the_policy(policy: str, ratings: list[int]) -> None:
    log = cp.read(REPEATED, duplicates=policy)  # type: ignore[arg-type]
    assert log.rating is not None
    assert log.rating.tolist() == ratings
    assert log.steps[-1].counts["repeats"] == 1


def test_repeated_pairs_can_be_an_error_that_names_the_row() -> None:
    with pytest.raises(cp.DataError, match="found 1 of 4 rows that repeat one, the first at row 1"):
        cp.read(REPEATED, duplicates="error")


@given(tables(times=True))
def test_policies_agree_with_brute_force(frame: pl.DataFrame) -> None:
    ordered = cp.read(frame).to_frame()
    for policy in ("first", "last"):
        kept = cp.read(frame, duplicates=policy).to_frame()
        expected = ordered.unique(["user", "item"], keep=policy, maintain_order=True)
        assert kept.rows() == expected.rows()


def test_a_log_without_repetitions_reports_none() -> None:
    assert cp.read({"user": [1, 2], "item": [1, 2]}).steps == ()


def test_first_and_last_are_defined_at_one_time() -> None:
    tied = {"user": [1, 1, 1, 2], "item": [5, 5, 5, 6], "rating": [3, 1, 2, 4]}
    for time, note in (([7, 7, 7, 7], 2), ([7, 7, 8, 7], 1)):
        for policy, edge in (("first", "lowest"), ("last", "highest")):
            log = cp.read({**tied, "time": time}, duplicates=policy)  # type: ignore[arg-type]
            assert log.rating is not None
            assert log.rating[0] == {"lowest": 1, "highest": 3 if note == 2 else 2}[edge]
            assert log.steps[-1].counts == {"repeats": 2, "rows": 2, "tied": note}
            assert f"{note} of them differ at one time, where the {edge} value" in str(
                log.steps[-1]
            )


def test_first_and_last_need_an_order_where_rows_differ() -> None:
    tied = {"user": [1, 1, 1, 2], "item": [5, 5, 5, 6], "rating": [3, 1, 2, 4]}
    with pytest.raises(cp.DataError, match=r"found 2 rows that repeat .* \(--order file\)"):
        cp.read(tied, duplicates="last")
    log = cp.read(tied, duplicates="last", order="file")
    assert log.rating is not None
    assert log.rating.tolist() == [2, 4]
    assert len(cp.read({**tied, "rating": [1, 1, 1, 1]}, duplicates="last")) == 2
    assert len(cp.read({"user": tied["user"], "item": tied["item"]}, duplicates="first")) == 2
