from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.directory import load_split
from reproduction.datasets import (
    Place,
    check_data,
    is_world,
    make,
    source_of,
    world_of,
)


def test_data_are_found_by_what_is_in_their_folders(public: Path, tmp_path: Path) -> None:
    place = Place(public, tmp_path)
    assert place.found("ml-1m") == public / "movies"
    assert place.found("lastfm") == public / "music"
    assert place.found("goodbooks") == public / "books"
    assert place.found("goodreads") is None
    assert Place(public / "movies", tmp_path).found("ml-1m") == public / "movies"


def test_open_bandit_is_the_folder_of_its_policies(tmp_path: Path) -> None:
    folder = tmp_path / "bandit" / "random" / "all"
    folder.mkdir(parents=True)
    (folder / "item_context.csv").write_text(",item_id\n")
    assert Place(tmp_path, tmp_path).found("open-bandit") == tmp_path / "bandit"


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cp.DataError, match="--data must be a folder"):
        check_data(tmp_path / "absent")


def test_names_say_what_data_are_made_of() -> None:
    assert world_of("ml-1m", 3) == "ml-1m-world-3"
    assert is_world("ml-1m-world-3")
    assert not is_world("ml-1m")
    assert [source_of(name) for name in ("ml-1m-world-3", "lastfm-distinct", "ml-1m")] == [
        "ml-1m",
        "lastfm",
        "ml-1m",
    ]


def test_synthetic_worlds_need_no_data(tmp_path: Path) -> None:
    place = Place(tmp_path / "data", tmp_path / "out")
    place.data.mkdir()
    assert place.has("synthetic")
    assert not place.has("ml-1m")
    make("synthetic-world-3", place)
    log = load_split(place.log("synthetic-world-3"))
    assert log.kind == "rounds"
    assert 0 < len(log.validation) < len(log.test) < len(log.train)


def test_distinct_data_have_the_same_users_and_no_pair_twice(public: Path, tmp_path: Path) -> None:
    place = Place(public, tmp_path)
    for name in ("lastfm", "lastfm-distinct"):
        make(name, place)
    plain, distinct = (load_split(place.log(name)) for name in ("lastfm", "lastfm-distinct"))
    assert plain.interactions.users.ids.equals(distinct.interactions.users.ids)
    pairs = [split.interactions.pair for split in (plain, distinct)]
    assert len(np.unique(pairs[0])) < len(pairs[0])
    assert len(np.unique(pairs[1])) == len(pairs[1]) == len(np.unique(pairs[0]))
    assert {plain.kind, distinct.kind} == {"leave-last-two"}


def test_books_without_times_are_split_at_random(public: Path, tmp_path: Path) -> None:
    place = Place(public, tmp_path)
    make("goodbooks", place)
    assert load_split(place.log("goodbooks")).kind == "random"


def test_what_is_there_is_not_made_again(public: Path, tmp_path: Path) -> None:
    place = Place(public, tmp_path)
    place.prepared("ml-1m").mkdir(parents=True)
    make("ml-1m", place)
    assert list(place.prepared("ml-1m").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("goodreads", cp.DataError, "counterplay download goodreads"),
        ("netflix", cp.ConfigError, "found 'netflix'"),
    ],
)
def test_what_cannot_be_made_is_told(
    name: str, error: type[Exception], words: str, public: Path, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        make(name, Place(public, tmp_path))
    assert list(tmp_path.iterdir()) == []
