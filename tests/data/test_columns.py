from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplay as cp

FINE: dict[str, list[Any]] = {"user": [1, 2, 3], "item": [1, 2, 3]}


def failing(**columns: object) -> str:
    with pytest.raises(cp.DataError) as caught:
        cp.read({**FINE, **columns})
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("user", [1, None, None], "every row must have an id; found 2 of 3 rows"),
        ("user", [1.5, 2.0, 3.0], "or text; found 1 of 3 rows"),
        ("rating", [1.0, float("nan"), float("inf")], "finite numbers; found 2 of 3 rows"),
        ("rating", [1.0, None, 2.0], "finite numbers; found 1 of 3 rows"),
        ("rating", ["1", "x", "2"], "finite numbers; found 1 of 3 rows"),
        ("propensity", [0.0, 1.0, 1.1], r"in (0, 1]; found 2 of 3 rows"),
        ("propensity", [0.5, -0.1, 1.0], r"in (0, 1]; found 1 of 3 rows"),
        ("exposed", [1, 0, 2], "true or false (or 1 and 0, yes and no); found 1 of 3 rows"),
        ("position", [1, 2.5, 3], "whole numbers from 0 to 32,767; found 1 of 3 rows"),
        ("position", [1, 40_000, 3], "whole numbers from 0 to 32,767; found 1 of 3 rows"),
        ("user", [1, None, None], "the first at row 2 with None"),
        ("propensity", [0.5, 1.0, 1.1], "the first at row 3 with 1.1"),
        ("item", ["a", "", ""], "every row must have an id; found 2 of 3 rows"),
        ("user", pl.Series(["1.5", "9", "2"]).cast(pl.Decimal(38, 1)), "found 1 of 3 rows"),
        ("user", pl.Series([1, 2**63 + 1, 2], dtype=pl.UInt64), "64 bits, or text; found 1 of 3"),
        ("user", pl.Series([1, 2**63 + 1, 2], dtype=pl.Int128), "64 bits, or text; found 1 of 3"),
    ],
)
def test_offending_rows_are_counted_and_the_first_is_shown(
    column: str, values: list[Any] | pl.Series, expected: str
) -> None:
    message = failing(**{column: pl.Series(values, strict=False)})
    assert expected in message
    assert f"column '{column}'" in message
    assert "the first at row" in message


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("user", pl.Series([False, True, True]), "integers or text; found column 'user' of type"),
        ("user", pl.Series([0, 1, 1]).cast(pl.Date), "found column 'user' of type Date"),
        (
            "user",
            pl.Series([1, "a", "b"], dtype=pl.Object),
            "found 2 of 3 rows that are not int, the first at row 2 with 'a'",
        ),
        ("rating", pl.Series([[1], [2], [3]]), "column 'rating' must hold numbers"),
    ],
)
def test_columns_of_other_types_are_refused(column: str, values: pl.Series, expected: str) -> None:
    assert expected in failing(**{column: values})


def test_counts_go_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterplay.data.readers.BATCH_ROWS", 10)
    rating = np.ones(100)
    rating[[35, 36, 99]] = np.nan
    with pytest.raises(cp.DataError, match=r"found 3 of 100 rows .* the first at row 36 with nan"):
        cp.read({"user": np.arange(100), "item": np.arange(100), "rating": rating})


def test_the_earliest_problem_speaks() -> None:
    message = failing(rating=[1.0, 1.0, float("nan")], propensity=[1.0, 2.0, 1.0])
    assert message.startswith("propensities")


def test_whole_floats_and_decimals_are_integer_ids() -> None:
    for whole in (pl.Series([10.0, 9.0]), pl.Series(["10", "9"]).cast(pl.Decimal(38, 0))):
        assert cp.read({"user": whole, "item": ["a", "b"]}).users.ids.to_list() == [9, 10]


@pytest.mark.parametrize(
    "flags", [[True, False, True], [1, 0, 1], ["yes", "no", "Y"], ["true", "False", "1"]]
)
def test_flags_in_many_forms(flags: list[Any]) -> None:
    log = cp.read({**FINE, "exposed": flags})
    assert log.exposed is not None
    assert log.exposed.tolist() == [True, False, True]


def test_columns_arrive_with_their_types() -> None:
    log = cp.read(
        {**FINE, "rating": [1, 2, 3], "propensity": ["0.5", "1", "1e-3"], "position": [0, 1, 2]}
    )
    assert {name: column.dtype.str for name, column in log.columns()} == {
        "user": "<i4",
        "item": "<i4",
        "rating": "<f4",
        "propensity": "<f8",
        "position": "<i2",
    }
    assert log.propensity is not None
    assert log.propensity.tolist() == [0.5, 1.0, 1e-3]
