from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay import Interactions, filter_by_events, profile, read_dataset

Make = Callable[..., Path]
Read = Callable[[str, Path], Interactions]
Refused = Callable[..., AbstractContextManager[None]]
RealData = Callable[[str], Path]

FILE = "user_taggedartists-timestamps.dat"
HEADER = b"userID\tartistID\ttagID\ttimestamp\n"


def test_events_have_times_in_milliseconds_and_repeated_pairs_stay(
    make: Make, read_log: Read, columns: Callable[[Interactions], dict[str, list[Any]]]
) -> None:
    log = read_log("lastfm", make("lastfm"))
    assert columns(log) == {
        "user": [4, 4, 5, 5, 5],
        "item": [101, 101, 99, 100, 100],
        "time": [
            1290000000_000000,
            1295000000_000000,
            1200000000_000000,
            1300000000_123000,
            1300000000_123000,
        ],
    }
    assert not log.is_explicit
    assert log.name == "lastfm"


def test_repeated_pairs_are_counted(make: Make, read_log: Read) -> None:
    (step,) = read_log("lastfm", make("lastfm")).steps
    assert (step.kind, step.counts) == ("duplicates", {"repeats": 2, "rows": 0})


def test_times_are_milliseconds_however_small(make: Make, read_log: Read) -> None:
    events = HEADER + b"1\t1\t1\t-1000\n2\t2\t1\t5\n"
    log = read_log("lastfm", make("lastfm", {FILE: events}))
    assert log.time is not None
    assert log.time.tolist() == [-1_000_000, 5_000]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEADER, ["must have rows"]),
        (b"", []),
        (b"1\t1\t1\t1300000000000\n2\t2\t1\t1300000000000\n", [FILE]),
        (HEADER + b"1\t1\t1\t1300000000000\n2\tx\t1\t1300000000000\n", [FILE, "`x`"]),
        (HEADER + b"1\t1\t1\t1300000000000\n2\t2\t1\tnoon\n", [FILE, "`noon`"]),
        (HEADER + b"1\t1\t1\t1300000000000\n2\t2\n", ["must have 4 fields", "line 3 with 2"]),
        (HEADER + b"1\t1\t1\t9223372036854775807\n2\t2\t1\t1300000000000\n", ["out of range"]),
    ],
)
def test_a_broken_file_is_refused(
    make: Make, read_log: Read, refused: Refused, content: bytes, words: list[str]
) -> None:
    folder = make("lastfm", {FILE: content})
    with refused(*words):
        read_log("lastfm", folder)


def test_events_must_be_there(make: Make, read_log: Read, refused: Refused) -> None:
    folder = make("lastfm", {FILE: None})
    with refused(FILE):
        read_log("lastfm", folder)


@pytest.fixture(scope="module")
def real_log(real_data: RealData) -> Interactions:
    log = read_dataset("lastfm", real_data("lastfm-2k"))
    assert isinstance(log, Interactions)
    return log


def test_the_real_one_has_its_published_counts(real_log: Interactions) -> None:
    assert (len(real_log), real_log.n_users, real_log.n_items) == (186_479, 1_892, 12_523)
    assert len(np.unique(real_log.pair)) == 71_064


def test_the_real_one_has_five_impossible_times(real_log: Interactions) -> None:
    assert profile(real_log).n_implausible_times == 5


def test_the_papers_filter_leaves_the_published_counts(real_log: Interactions) -> None:
    log = filter_by_events(real_log, items_above=20, users_above=20, users_below=1000)
    assert (len(log), log.n_users, log.n_items) == (103_576, 772, 2_061)
    assert len(np.unique(log.pair)) == 36_691
