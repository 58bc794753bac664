from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.vocabulary import Vocabulary
from counterplay.serving.asked import asked_for, check_column

NUMBERS, TEXTS = Vocabulary.of([3, 5, 70]), Vocabulary.of(["007", "5", "a b", "é"])


def write(path: Path, values: dict[str, list[object]]) -> Path:
    if path.suffix == ".parquet":
        pl.DataFrame(values).write_parquet(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(pl.DataFrame(values).write_csv().encode()))
    else:
        pl.DataFrame(values).write_csv(path)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
@pytest.mark.parametrize(
    ("values", "vocabulary", "expected"),
    [
        ({"user": [70, 3]}, NUMBERS, [2, 0]),
        ({"user": ["70", "3"]}, NUMBERS, [2, 0]),
        ({"who": [5]}, NUMBERS, [1]),
        ({"item": [3, 3], "user": [5, 5]}, NUMBERS, [1]),
        ({"user": [5]}, TEXTS, [1]),
        ({"user": ["é", "007", "a b"]}, TEXTS, [3, 0, 2]),
    ],
)
def test_users_of_tables(
    values: dict[str, list[object]],
    vocabulary: Vocabulary,
    expected: list[int],
    name: str,
    tmp_path: Path,
) -> None:
    assert asked_for(write(tmp_path / name, values), "user", vocabulary).known.tolist() == expected


def test_users_of_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "users.TXT"
    path.write_bytes("\ufeffé\r\n007\r\n\r\na b".encode())
    assert asked_for(path, "user", TEXTS).known.tolist() == [3, 0, 2]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "3\n4\nuser\n", r"found 1 of 3 in .* that are not, the first is 'user'"),
        ("a.csv", "user\n3\n07\n", r"found 1 of 2 in .*, the first is '07'"),
        ("a.csv", "user\n3.0\n", "the first is '3.0'"),
        ("a.txt", "\n\n", "must be one or more; found none in"),
        ("a.csv", "user\n", "must be one or more; found none in"),
        ("a.csv", "", "found an empty file"),
        ("a.csv", "a,b\n1,2\n", "in a column 'user'; found only a, b"),
        ("a.json", "[3]", "must be csv, tsv, parquet, ndjson"),
        ("a.parquet", "user\n3\n", "must be what its name says"),
        ("a.jsonl", '{"user": [3, 5]}\n', r"found one of List\(Int64\)"),
        ("a.txt", b"\xff\xfe3\n", "whole, valid text file"),
    ],
)
def test_users_that_cannot_be_read_are_one_sentence(
    name: str, content: str | bytes, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(cp.DataError, match=expected) as caught:
        asked_for(path, "user", NUMBERS)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("a.txt", "a.csv"):
        with pytest.raises(cp.DataError, match="found nothing at"):
            asked_for(tmp_path / name, "user", NUMBERS)


@pytest.mark.parametrize(
    ("given", "known", "unknown"),
    [
        ([70, 4, 3, 70, 4], [2, 0], [4]),
        (["70", "-1"], [2], [-1]),
        (np.array([5, 6]), [1], [6]),
        (pl.Series([9, 3], dtype=pl.UInt8), [0], [9]),
        (range(4, 6), [1], [4]),
    ],
)
def test_lists_of_ids(given: Any, known: list[int], unknown: list[int]) -> None:
    found = asked_for(given, "user", NUMBERS)
    assert (found.known.tolist(), found.unknown.to_list()) == (known, unknown)
    assert found.unknown.dtype == pl.Int64


def test_texts_of_a_list() -> None:
    found = asked_for(pl.Series(["é", "no"], dtype=pl.Categorical), "item", TEXTS)
    assert (found.known.tolist(), found.unknown.to_list()) == ([3], ["no"])
    assert asked_for([5], "item", TEXTS).known.tolist() == [1]


@pytest.mark.parametrize("given", [[1, "a"], [1.5], [[1, 2]], [object()], [True]])
def test_lists_of_other_things_are_one_sentence(given: list[object]) -> None:
    with pytest.raises(cp.DataError, match="ids of items must be all integers or all text"):
        asked_for(given, "item", NUMBERS)


@pytest.mark.parametrize(("text", "vocabulary"), [("3\n5\n70\n", NUMBERS), ("a b\n5\n", TEXTS)])
def test_a_file_that_begins_with_an_id_is_refused(
    text: str, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    path = tmp_path / "users.csv"
    path.write_text(text)
    with pytest.raises(cp.DataError, match="must begin with the name of its column; found the id"):
        asked_for(path, "user", vocabulary)
    path.rename(tmp_path / "users.txt")
    assert len(asked_for(tmp_path / "users.txt", "user", vocabulary).known) == text.count("\n")


@pytest.mark.parametrize("text", ["99\n3\n70\n", "3,99\n"])
def test_no_column_of_numbers_is_called_by_a_number(text: str, tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text(text.replace(",", "\n"))
    with pytest.raises(cp.DataError, match="must begin with the name of its column; found the id"):
        asked_for(path, "user", NUMBERS)


def test_a_name_that_may_be_an_id_is_said(tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("nobody\n007\n")
    with pytest.warns(cp.CounterplayWarning, match="took the first line in .*, 'nobody', for the"):
        assert asked_for(path, "user", TEXTS).known.tolist() == [0]
    path.write_text("Visitor ID\n007\n")
    assert asked_for(path, "user", TEXTS).known.tolist() == [0]  # without a word


def test_columns_of_a_file_of_ids_are_told_at_a_glance(tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("name,age\n3,5\n")
    for check in (lambda: check_column(path, "user"), lambda: asked_for(path, "user", NUMBERS)):
        with pytest.raises(cp.DataError, match="in a column 'user'; found only name, age in"):
            check()
    path.write_text("who\n3\n")
    check_column(path, "user")
    path.rename(tmp_path / "users.txt")
    check_column(tmp_path / "users.txt", "user")
