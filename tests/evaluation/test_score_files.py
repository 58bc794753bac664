from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.evaluation.score_files import read_scores
from counterplay.metrics.scoring import TableScores

NUMBERS = cp.read({"user": [10, 10, 20, 30], "item": [7, 8, 9, 7]})
TEXTS = cp.read({"user": ["10", "10", "20", "x"], "item": ["7", "tea", "9", "7"]})
ALL = np.arange(3)
SCORES = {"user": [30, 10, 20, 10], "item": [8, 9, 7, 7], "score": [0.5, -1.0, 2.0, 1e-3]}
EXPECTED = [[1e-3, None, -1.0], [2.0, None, None], [None, 0.5, None]]  # by user and item


def matrix(scores: TableScores) -> list[list[float | None]]:
    """Return the scores of all users and items, None where there is none."""
    found = scores.of_all(ALL).astype(float).round(6)
    return [[None if np.isneginf(score) else score for score in row] for row in found.tolist()]


def changed(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({**SCORES, **columns}, strict=False)


WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    "parquet": lambda frame, path: frame.write_parquet(path),
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "ndjson": lambda frame, path: frame.write_ndjson(path),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_and_a_frame_give_the_same_scores(kind: str, tmp_path: Path) -> None:
    frame, path = pl.DataFrame(SCORES), tmp_path / f"scores.{kind}"
    WRITERS[kind](frame.with_columns(pl.lit("?").alias("note")), path)  # more columns do no harm
    assert matrix(read_scores(path, NUMBERS, ALL)) == EXPECTED
    assert matrix(read_scores(frame, NUMBERS, ALL)) == EXPECTED


@given(st.permutations(range(4)), st.permutations(["user", "item", "score"]))
def test_the_order_of_rows_and_columns_does_not_matter(rows: list[int], columns: list[str]) -> None:
    frame = pl.DataFrame(SCORES)[rows].select(columns)
    assert matrix(read_scores(frame, NUMBERS, ALL)) == EXPECTED


@pytest.mark.parametrize("dtype", [pl.Int16, pl.UInt64, pl.String])
def test_ids_of_numbers_may_come_in_other_types(dtype: type[pl.DataType]) -> None:
    frame = pl.DataFrame(SCORES).with_columns(pl.col("user", "item").cast(dtype))
    assert matrix(read_scores(frame, NUMBERS, ALL)) == EXPECTED


@pytest.mark.parametrize("kind", ["frame", "csv"])
def test_ids_of_text_may_come_as_numbers(kind: str, tmp_path: Path) -> None:
    table: pl.DataFrame | Path = pl.DataFrame({"user": [20, 10], "item": [7, 9], "score": [1, 2]})
    if isinstance(table, pl.DataFrame) and kind == "csv":
        path = tmp_path / "scores.csv"
        table.write_csv(path)
        table = path
    found = matrix(read_scores(table, TEXTS, np.array([0, 1])))
    assert found == [[None, 2, None], [1, None, None], [None, None, None]]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Float32, pl.Boolean, pl.String])
def test_scores_may_be_numbers_of_any_type(dtype: type[pl.DataType]) -> None:
    score = pl.Series([1, 0, 0, 1]).cast(pl.Int8).cast(pl.String if dtype == pl.String else dtype)
    frame = pl.DataFrame(SCORES).with_columns(score.alias("score"))
    assert matrix(read_scores(frame, NUMBERS, ALL)) == [
        [1, None, 0],
        [0, None, None],
        [None, 1, None],
    ]


def test_users_who_are_not_asked_for_may_be_scored_or_not() -> None:
    """Users 98 and 99 are none of the dataset, item by item the same; user 20 has no scores."""
    strangers = pl.DataFrame({"user": [98, 99], "item": [7, 7], "score": [1.0, 2.0]})
    frame = pl.concat([strangers, pl.DataFrame(SCORES).filter(pl.col("user") != 20)])
    with pytest.warns(cp.CounterplayWarning, match="left out 2 of 5 scores in the frame: .* is 98"):
        found = matrix(read_scores(frame, NUMBERS, np.array([0, 2, 2])))
    assert found == [EXPECTED[0], [None] * 3, EXPECTED[2]]


def test_users_are_counted_once_however_many_rows_they_have() -> None:
    with pytest.raises(cp.DataError, match="found none for 1 of 2 users with test rows"):
        read_scores(changed(user=[30, 10, 10, 30]), NUMBERS, np.array([0, 1, 1, 1]))


NAN = float("nan")


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        (
            changed(user=[30, 10, 10, 30]),
            "none for 1 of 3 users with test rows or random rows; score them too",
        ),
        (
            changed(user=[1, 2, 3, 30]),
            "none for 2 of 3 users with test rows or random rows; score them too",
        ),
        (changed().clear(), "none for 3 of 3 users with test rows or random rows; score them too"),
        (changed(item=[8, 70, 7, -1]), "2 of 4 rows with an item that the dataset does not know"),
        (
            changed(item=["8", "tea", "7", "x"]),
            "2 of 4 rows with an item that the dataset does not",
        ),
        (changed(item=["8", "none", "7", ""]), "2 of 4 rows with no id in column 'item'"),
        (changed(user=["30", "NULL", "20", "10"]), "1 of 4 rows with no id in column 'user'"),
        (changed(item=[8, 9, None, 7]), "1 of 4 rows with no id in column 'item'"),
        (
            changed(score=[0, NAN, 1, NAN]),
            "2 of 4 rows with no finite number as their score; leave them",
        ),
        (
            changed(score=[0, None, 1, 2]),
            "1 of 4 rows with no finite number as their score; leave them",
        ),
        (
            changed(score=[None] * 4),
            "4 of 4 rows with no finite number as their score; leave them out",
        ),
        (
            changed(score=["1", "2", "high", "-"]),
            "2 of 4 rows with no finite number as their score",
        ),
        (changed(item=[8, 7, 7, 7]), "1 rows that repeat a pair; keep one score for each pair"),
        (pl.concat([changed()] * 3), "8 rows that repeat a pair; keep one score for each pair"),
        (changed().drop("score"), "columns user, item; name the columns user, item and score"),
        (changed().rename({"user": "who"}), "columns who, item, score; name the columns user"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_with_counts(frame: pl.DataFrame, found: str) -> None:
    with pytest.raises(cp.DataError, match=f"one number for each .*; found {re.escape(found)}"):
        read_scores(frame, NUMBERS, ALL)


def test_counts_are_grouped_by_thousands() -> None:
    frame = pl.DataFrame({"user": [10] * 2500, "item": [7] * 2500, "score": [1.0] * 2500})
    with pytest.raises(cp.DataError, match="found 2,499 rows that repeat a pair"):
        read_scores(frame, NUMBERS, ALL)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("scores.csv", None, "a file must exist to be read; found nothing at"),
        ("scores.csv", b"", "must have contents; found an empty file"),
        ("scores.xlsx", b"PK\x03\x04", "found a workbook, whose sheet can be saved as CSV"),
        ("scores.parquet", b"user,item,score\n", "what its name says, parquet; found something"),
        ("scores.parquet", b"PAR1" + b"\0" * 20, "must be a whole, valid parquet file; found"),
        ("scores.csv", b"PAR1" + b"\0" * 20, "what its name says, csv; found a Parquet file"),
        ("scores.csv", b"user,item,score\n10,7,1,5\n", "must have 3 fields; found 1 of 2 records"),
        ("scores.ndjson", b'{"user": 10,\n', "must be a whole, valid ndjson file; found"),
    ],
)
def test_files_that_cannot_be_read_are_named(
    name: str, content: bytes | None, found: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(cp.DataError, match=found) as error:
        read_scores(path, NUMBERS, ALL)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(cp.DataError, match="must be a file; found the folder"):
        read_scores(tmp_path, NUMBERS, ALL)


def test_empty_lines_at_the_end_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(pl.DataFrame(SCORES).write_csv() + "\n")
    assert matrix(read_scores(path, NUMBERS, ALL)) == EXPECTED


@pytest.mark.parametrize("dtype", [pl.Categorical(), pl.Enum(["7", "8", "9"])], ids=str)
def test_ids_may_be_categories(dtype: pl.DataType) -> None:
    frame = pl.DataFrame(SCORES).with_columns(pl.col("item").cast(pl.String).cast(dtype))
    assert matrix(read_scores(frame, NUMBERS, ALL)) == EXPECTED


def test_a_fraction_is_no_id() -> None:
    with pytest.raises(cp.DataError, match="1 of 4 rows with an item that the dataset does not"):
        read_scores(changed(item=[8.0, 9.0, 7.9, 7.0]), NUMBERS, ALL)


@pytest.mark.parametrize("column", ["user", "item", "score"])
def test_columns_of_lists_are_refused_in_one_sentence(column: str) -> None:
    with pytest.raises(cp.DataError, match="found"):
        read_scores(changed(**{column: [[1.0]] * 4}), NUMBERS, ALL)


def test_what_a_file_needed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    rows = ["user,item,score", " 30,8,0.5", "10,9 ,-1", "20,7,2", "user,item,score", "10,7,0.001"]
    path.write_text("\n".join(rows) + "\n")
    with pytest.warns(cp.CounterplayWarning) as caught:
        assert matrix(read_scores(path, NUMBERS, ALL)) == EXPECTED
    said = sorted(str(each.message) for each in caught)
    assert "left out 1 lines that repeat the header" in said[0]
    assert [each.partition("': ")[2] for each in said[1:]] == [
        "took off the blanks around 1 ids of 'item'",
        "took off the blanks around 1 ids of 'user'",
    ]
