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
    ],
)
def test_offending_rows_are_counted_and_the_first_is_shown(
    column: str, values: list[Any], expected: str
) -> None:
    message = failing(**{column: pl.Series(values, strict=False)})
    assert expected in message
    assert f"column '{column}'" in message
    assert "the first at row" in message


def test_the_first_offending_row_is_named() -> None:
    assert "the first at row 2 with None" in failing(user=[1, None, None])
    assert "the first at row 3 with 1.1" in failing(propensity=[0.5, 1.0, 1.1])


def test_counts_go_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterplay.data.readers.BATCH_ROWS", 10)
    rating = np.ones(100)
    rating[[35, 36, 99]] = np.nan
    with pytest.raises(cp.DataError, match=r"found 3 of 100 rows .* the first at row 36 with nan"):
        cp.read({"user": np.arange(100), "item": np.arange(100), "rating": rating})


def test_the_earliest_problem_speaks() -> None:
    message = failing(rating=[1.0, 1.0, float("nan")], propensity=[1.0, 2.0, 1.0])
    assert message.startswith("propensities")


def test_whole_floats_are_integer_ids() -> None:
    log = cp.read({"user": [1.0, 2.0], "item": ["a", "b"]})
    assert log.users.ids.to_list() == [1, 2]


def test_whole_decimals_are_integer_ids() -> None:
    decimals = pl.Series(["10", "9"]).cast(pl.Decimal(38, 0))
    assert cp.read({"user": decimals, "item": [1, 2]}).users.ids.to_list() == [9, 10]
    fraction = pl.Series(["1.5", "9", "2"]).cast(pl.Decimal(38, 1))
    assert "found 1 of 3 rows" in failing(user=fraction)


def test_ids_too_large_for_64_bits_are_refused() -> None:
    for dtype in (pl.UInt64, pl.Int128):
        message = failing(user=pl.Series([1, 2**63 + 1, 2], dtype=dtype))
        assert "at most 64 bits, or text; found 1 of 3 rows" in message


def test_an_empty_text_is_no_id() -> None:
    assert "every row must have an id; found 2 of 3 rows" in failing(item=["a", "", ""])


@pytest.mark.parametrize("dtype", [pl.Boolean, pl.Date])
def test_ids_of_other_types_are_refused(dtype: pl.DataType) -> None:
    message = failing(user=pl.Series([0, 1, 1]).cast(dtype))
    assert "ids must be integers or text; found column 'user' of type" in message


def test_mixed_ids_are_counted() -> None:
    message = failing(user=pl.Series([1, "a", "b"], dtype=pl.Object))
    assert "found 2 of 3 rows that are not int, the first at row 2 with 'a'" in message


def test_numbers_as_lists_are_refused() -> None:
    assert "column 'rating' must hold numbers" in failing(rating=[[1], [2], [3]])


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
