from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.datasets import dataset, dataset_at, download

Make = Callable[..., Path]
Columns = Callable[[cp.Interactions], dict[str, list[Any]]]


def test_movielens_as_csv_has_exact_values(make: Make, columns: Columns, features: Any) -> None:
    log = cp.data.read_dataset("ml-32m", make("ml-32m"))
    assert isinstance(log, cp.Interactions)
    assert columns(log) == {
        "user": [3, 7, 7],
        "item": [20, 10, 20],
        "rating": [5.0, 4.5, 0.5],
        "time": [10**15 + 200 * 10**6, 10**15, 10**15 + 100 * 10**6],
    }
    assert features(log, "item") == {
        10: {"genres": ["Comedy", "Drama"], "year": 1995.0},
        20: {"genres": [], "year": None},
    }


def test_sizes_of_movielens_are_told_apart_by_their_folder(make: Make) -> None:
    for name in ("ml-20m", "ml-32m", "ml-latest-small"):
        found = dataset_at(make(name))
        assert found is not None
        assert found.name == name
    renamed = make("ml-20m").rename(make("ml-20m").with_name("films"))
    log = cp.data.read_dataset("ml-20m", renamed)
    assert isinstance(log, cp.Interactions)
    assert log.name == "ml"


def test_yahoo_trains_on_what_users_chose_and_tests_on_what_was_drawn(
    make: Make, columns: Columns
) -> None:
    split = cp.data.read_dataset("yahoo-r3", make("yahoo-r3"))
    assert isinstance(split, cp.Split)
    assert split.interactions.random is None
    train, test = columns(split.train), columns(split.test)
    rows = [sorted(zip(*part.values(), strict=True)) for part in (train, test)]
    assert rows[0] == [(1, 14, 5.0), (1, 35, 1.0), (2, 14, 3.0)]
    assert rows[1] == [(1, 49, 1.0), (2, 35, 4.0)]


def test_kuairec_tests_on_its_complete_matrix(make: Make, columns: Columns) -> None:
    split = cp.data.read_dataset("kuairec", make("kuairec"))
    assert isinstance(split, cp.Split)
    assert split.interactions.time is None
    assert sorted(zip(*columns(split.train).values(), strict=True)) == [
        (0, 3649, 1.25),
        (5, 9598, 0),
    ]
    assert sorted(zip(*columns(split.test).values(), strict=True)) == [
        (0, 9598, 0.75),
        (5, 3649, 2.5),
    ]


def test_kuairand_says_what_was_drawn_and_what_was_clicked(make: Make, columns: Columns) -> None:
    log = cp.data.read_dataset("kuairand", make("kuairand"))
    assert isinstance(log, cp.Interactions)
    found = columns(log)
    assert found["user"] == [3, 3, 4]
    assert found["item"] == [9, 8, 8]
    assert found["clicked"] == [True, False, True]
    assert found["random"] == [False, True, False]
    assert found["time"][0] == 1649400000000 * 1000


def test_amazon_is_read_as_ratings_and_as_reviews(make: Make, columns: Columns) -> None:
    folder = make("amazon-2023")
    log = cp.data.read_dataset("amazon-2023", folder)
    assert isinstance(log, cp.Interactions)
    assert columns(log)["item"] == ["B00YQ6X8EO", "B081TJ8YS3"]
    assert columns(log)["time"] == [1588687728923000, 1588615855070000]
    reviews = [
        {"rating": rating, "title": "x", "asin": "other", "parent_asin": item, "user_id": user,
         "timestamp": time, "images": []}
        for user, item, rating, time in (
            ("AGKH", "B00YQ6X8EO", 5.0, 1588687728923), ("AGKX", "B081TJ8YS3", 4.0, 1588615855070)
        )
    ]  # fmt: skip
    path = folder / "All_Beauty.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, reviews)).encode()))
    assert cp.data.read_dataset("amazon-2023", path) == log
    assert cp.read(path, clicked="-") == log  # its usual names are known too


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("kuairec", "small_matrix.csv", b"user_id,video_id\n1,2\n"),
        ("kuairand", "log_random_4_22_to_5_08_pure.csv", b"user_id,video_id\n1,2\n"),
        ("amazon-2023", "All_Beauty.csv", b"user_id,item,rating,timestamp\na,b,5,1\n"),
    ],
)
def test_a_column_that_is_not_there_is_refused(
    make: Make, refused: Any, name: str, file: str, content: bytes
) -> None:
    with refused("must have a column", file):
        cp.data.read_dataset(name, make(name, {file: content}))


@pytest.mark.parametrize("name", ["yahoo-r3", "kuairec", "kuairand", "amazon-2023"])
def test_what_has_no_address_says_where_to_get_it(name: str, tmp_path: Path, refused: Any) -> None:
    with refused(dataset(name).page, error=cp.ConfigError):
        download(dataset(name), tmp_path / "data")


def test_parts_are_whole_numbers_of_the_split(make: Make) -> None:
    split = cp.data.read_dataset("yahoo-r3", make("yahoo-r3"))
    assert isinstance(split, cp.Split)
    assert split.part.dtype == np.int8
    assert split.counts == {"train": 3, "validation": 0, "test": 2}


@pytest.mark.parametrize("name", ["kuairec", "kuairand"])
def test_the_folder_that_was_unpacked_may_be_named(name: str, make: Make, tmp_path: Path) -> None:
    folder = make(name)
    whole = tmp_path / "unpacked"
    whole.mkdir()
    folder.rename(whole / "data")
    found = cp.data.datasets.dataset_at(whole)
    assert found is not None
    assert found.name == name
    both = (cp.data.read_dataset(name, place) for place in (whole, whole / "data"))
    one, other = (each if isinstance(each, cp.Interactions) else each.interactions for each in both)
    assert one == other
    shutil.copytree(whole / "data", whole / "other")  # now it must be said which
    assert cp.data.datasets.dataset_at(whole) is None
