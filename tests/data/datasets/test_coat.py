from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from counterplay import Interactions, Split, read_dataset

Make = Callable[..., Path]
Read = Callable[[str, Path], Split]
Columns = Callable[[Interactions], dict[str, list[Any]]]
FeaturesOf = Callable[[Interactions, str], dict[Any, dict[str, Any]] | None]
Refused = Callable[..., AbstractContextManager[None]]

USER_FLAGS = "user_item_features/user_features.ascii"
USER_NAMES = "user_item_features/user_features_map.txt"
ITEM_FLAGS = "user_item_features/item_features.ascii"
ITEM_NAMES = "user_item_features/item_features_map.txt"


def test_rows_are_the_cells_that_are_not_zero(
    make: Make, read_split: Read, columns: Columns
) -> None:
    log = read_split("coat", make("coat")).interactions
    assert columns(log) == {
        "user": [0, 0, 0, 1, 1, 2, 2],
        "item": [0, 2, 1, 1, 0, 2, 2],
        "rating": [5.0, 1.0, 4.0, 2.0, 1.0, 2.0, 3.0],
    }
    assert log.name == "coat"


def test_train_is_self_selected_and_test_is_random(
    make: Make, read_split: Read, columns: Columns
) -> None:
    split = read_split("coat", make("coat"))
    assert split.part.tolist() == [0, 0, 2, 0, 2, 2, 0]
    assert split.counts == {"train": 4, "validation": 0, "test": 3}
    assert columns(split.train) == {
        "user": [0, 0, 1, 2],
        "item": [0, 2, 1, 2],
        "rating": [5.0, 1.0, 2.0, 3.0],
    }
    assert columns(split.test) == {
        "user": [0, 1, 2],
        "item": [1, 0, 2],
        "rating": [4.0, 1.0, 2.0],
    }


def test_flags_become_categories(make: Make, read_split: Read, features: FeaturesOf) -> None:
    log = read_split("coat", make("coat")).interactions
    assert features(log, "user") == {
        0: {"gender": "men", "age": "over 60"},
        1: {"gender": "women", "age": "20-30"},
        2: {"gender": "women", "age": None},
    }
    assert features(log, "item") == {
        0: {"color": "navy", "onfrontpage": "yes"},
        1: {"color": "other", "onfrontpage": None},
        2: {"color": "other", "onfrontpage": "yes"},
        3: {"color": "navy", "onfrontpage": None},
    }


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_a_map_may_end_in_a_new_line(
    make: Make, read_split: Read, layout: Callable[[str, str], bytes], end: bytes
) -> None:
    expected = read_split("coat", make("coat")).interactions
    changes = {USER_NAMES: layout("coat", USER_NAMES) + end}
    assert read_split("coat", make("coat", changes)).interactions == expected


def test_a_coat_that_nobody_rated_is_still_an_item(make: Make, read_split: Read) -> None:
    log = read_split("coat", make("coat")).interactions
    assert log.items.ids.to_list() == [0, 1, 2, 3]
    assert 3 not in log.item


def test_features_may_be_absent(make: Make, read_split: Read, features: FeaturesOf) -> None:
    absent = dict.fromkeys([USER_FLAGS, USER_NAMES, ITEM_FLAGS, ITEM_NAMES])
    split = read_split("coat", make("coat", absent))
    assert split.counts == {"train": 4, "validation": 0, "test": 3}
    assert features(split.interactions, "user") is None
    assert features(split.interactions, "item") is None


def test_items_are_the_matrix_columns_even_without_features(make: Make, read_split: Read) -> None:
    absent = dict.fromkeys([ITEM_FLAGS, ITEM_NAMES])
    log = read_split("coat", make("coat", absent)).interactions
    assert log.items.ids.to_list() == [0, 1, 2, 3]


def test_progress_is_told_the_number_of_rows(make: Make) -> None:
    calls: list[tuple[int, int | None]] = []
    read_dataset("coat", make("coat"), progress=lambda *call: calls.append(call))
    assert calls == [(7, 7)]


@pytest.mark.parametrize("file", ["train.ascii", "test.ascii"])
@pytest.mark.parametrize(
    "content",
    [
        None,
        b"1 x 0 0\n0 0 0 0\n",
        b"1 0 0 0\n1 0 0\n",
        b"1.5 0 0 0\n",
        b"99999999999999999999 0 0 0\n",
        b"\xff\xfe\n",
    ],
)
def test_a_broken_matrix_is_refused_by_its_name(
    make: Make, read_split: Read, refused: Refused, file: str, content: bytes | None
) -> None:
    folder = make("coat", {file: content})
    with refused(file):
        read_split("coat", folder)


@pytest.mark.parametrize("file", ["train.ascii", "test.ascii"])
def test_an_empty_matrix_is_refused_without_a_warning(
    make: Make, read_split: Read, refused: Refused, file: str
) -> None:
    folder = make("coat", {file: b""})
    with refused():
        read_split("coat", folder)


@pytest.mark.parametrize("test", [b"0 4 0\n1 0 0\n0 0 2\n", b"0 4 0 0\n1 0 0 0\n"])
def test_the_matrices_must_be_of_one_shape(
    make: Make, read_split: Read, refused: Refused, test: bytes
) -> None:
    folder = make("coat", {"test.ascii": test})
    with refused("one shape", "(3, 4)"):
        read_split("coat", folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({USER_FLAGS: b"1 0 0 1\n0 1 1 0\n"}, ["user features", "3 rows"]),
        ({ITEM_FLAGS: b"1 0\n0 1\n0 1\n1 0\n0 1\n"}, ["item features", "4 rows"]),
        ({USER_NAMES: b"gender:men\ngender:women\nage:20-30"}, ["user features", "3 names"]),
        ({ITEM_NAMES: b"color:a\ncolor:b\nfront:yes\nfront:no"}, ["item features", "4 names"]),
        ({ITEM_FLAGS: b"1 x 0\n"}, ["item_features.ascii"]),
        ({ITEM_NAMES: None}, ["item_features_map.txt"]),
        ({ITEM_NAMES: b"color:navy\nother\nonfrontpage:yes"}, ["item_features_map.txt", "other"]),
        ({ITEM_NAMES: b"color:\xff\ncolor:b\nfront:yes"}, ["item_features_map.txt"]),
    ],
)
def test_features_that_do_not_fit_are_refused(
    make: Make,
    read_split: Read,
    refused: Refused,
    changes: dict[str, bytes | None],
    words: list[str],
) -> None:
    folder = make("coat", changes)
    with refused(*words):
        read_split("coat", folder)


def test_the_real_one_has_its_published_counts(
    real_data: Callable[[str], Path], read_split: Read
) -> None:
    split = read_split("coat", real_data("coat"))
    log = split.interactions
    assert split.counts == {"train": 6_960, "validation": 0, "test": 4_640}
    assert (log.n_users, log.n_items) == (290, 300)
    assert log.user_features is not None
    assert log.item_features is not None
    assert log.user_features.categorical == ["gender", "age", "location", "fashioninterest"]
    assert log.item_features.categorical == ["gender", "jackettype", "color", "onfrontpage"]
    assert sum(log.user_features.frame.null_count().row(0)) == 0
    assert sum(log.item_features.frame.null_count().row(0)) == 0
