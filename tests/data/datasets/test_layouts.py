"""Every dataset in its official layout: what is read of it, and what is refused."""

import gzip
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp

from .conftest import LAYOUTS

Make = Callable[..., Path]
Columns = Callable[[cp.Interactions], dict[str, list[Any]]]
FeaturesOf = Callable[[cp.Interactions, str], dict[Any, dict[str, Any]] | None]
Refused = Callable[..., AbstractContextManager[None]]
RealData = Callable[[str], Path]
Changes = Mapping[str, bytes | None]

REVIEWS = "goodreads_reviews_invented.json.gz"
TAGS, HEADER = "user_taggedartists-timestamps.dat", b"userID\tartistID\ttagID\ttimestamp\n"
USER_FLAGS, USER_NAMES, ITEM_FLAGS, ITEM_NAMES = (
    f"user_item_features/{role}_features{end}"
    for role in ("user", "item")
    for end in (".ascii", "_map.txt")
)
ONES, NOUGHTS = b"|".join([b"1"] * 19), b"|".join([b"0"] * 19)
BANDIT_ITEM = [f"item_feature_{place}" for place in range(4)]
BANDIT_USER = {"user_feature_1": "b", "user_feature_2": "c", "user_feature_3": "d"}


def log_of(name: str, path: Path, **how: Any) -> cp.Interactions:
    made = cp.data.read_dataset(name, path, **how)
    return made.interactions if isinstance(made, cp.Split) else made


def review(**changes: object) -> bytes:
    fields = {"user_id": "ab", "book_id": "1", "rating": 3}
    fields["date_updated"] = "Mon Jan 02 03:04:05 -0800 2017"
    return json.dumps(fields | changes).encode() + b"\n"


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # test names must not change with the clock


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (
            "ml-1m",
            {
                "user": [2, 2, 7, 7],
                "item": [20, 10, 10, 30],
                "rating": [1.0, 3.0, 4.0, 5.0],
                "time": [1000000150e6, 1000000200e6, 1000000100e6, 1000000300e6],
            },
        ),
        (
            "ml-100k",
            {
                "user": [1, 3, 3],
                "item": [4, 4, 5],
                "rating": [2.0, 5.0, 4.0],
                "time": [900000030e6, 900000010e6, 900000020e6],
            },
        ),
        (
            "movietweetings",
            {
                "user": [1, 1, 2],
                "item": ["7654321", "0012345", "12345"],
                "rating": [7.0, 10.0, 0.0],
                "time": [1400000000e6, 1400000001e6, 1400000002e6],
            },
        ),
        (
            "lastfm",  # times in milliseconds; repeated pairs stay
            {
                "user": [4, 4, 5, 5, 5],
                "item": [101, 101, 99, 100, 100],
                "time": [1290e12, 1295e12, 1200e12, 1300000000_123000, 1300000000_123000],
            },
        ),
        (
            "goodreads",  # text users, integer books, times in UTC
            {
                "user": ["00aa", "f0e1", "f0e1"],
                "item": [31, 31, 205],
                "rating": [0.0, 5.0, 4.0],
                "time": [1709251199e6, 1501425849e6, 1501425850e6],
            },
        ),
        (
            "coat",  # the cells that are not zero
            {
                "user": [0, 0, 0, 1, 1, 2, 2],
                "item": [0, 2, 1, 1, 0, 2, 2],
                "rating": [5.0, 1.0, 4.0, 2.0, 1.0, 2.0, 3.0],
            },
        ),
        (
            "open-bandit",
            {
                "user": ["x.b.c.d", "y.b.c.d", "y.b.c.d"],
                "item": [0, 0, 2],
                "time": [1580547600_500000, 1580549400_000000, 1580551200_000001],
                "propensity": [0.125, 1.0, 0.25],
                "position": [1, 2, 3],
                "clicked": [True, False, False],
            },
        ),
    ],
)
def test_rows_have_exact_values(
    make: Make, columns: Columns, dataset: str, expected: dict[str, list[Any]]
) -> None:
    log = log_of(dataset, make(dataset))
    assert columns(log) == expected
    assert log.name == {"open-bandit": "open-bandit-random-all"}.get(dataset, dataset)


@pytest.mark.parametrize(
    ("dataset", "role", "expected"),
    [
        (
            "ml-1m",
            "user",
            {
                2: {"gender": "M", "age": "25", "occupation": "4"},
                7: {"gender": "F", "age": "56", "occupation": "16"},
            },
        ),
        (
            "ml-1m",  # titles have colons and accents
            "item",
            {
                10: {"genres": ["Comedy", "Drama"], "year": 1987.0},
                20: {"genres": ["Action"], "year": 1999.0},
                30: {"genres": ["Children's", "Film-Noir", "Sci-Fi"], "year": 2000.0},
            },
        ),
        (
            "ml-100k",
            "user",
            {
                1: {"age": 31.0, "gender": "F", "occupation": "baker"},
                3: {"age": 47.0, "gender": "M", "occupation": "none"},
            },
        ),
        (
            "ml-100k",
            "item",
            {
                4: {"genres": ["Comedy", "Romance"], "year": 1994.0},
                5: {"genres": ["unknown"], "year": None},
            },
        ),
        ("movietweetings", "user", None),
        (
            "movietweetings",
            "item",
            {
                "0012345": {"genres": ["Drama", "Short"], "year": 1931.0},
                "12345": {"genres": [], "year": None},
                "7654321": {"genres": [], "year": 2014.0},
            },
        ),
        (
            "goodbooks",  # quoted commas
            "item",
            {1: {"language": "eng", "year": 1999.0}, 3: {"language": None, "year": -420.0}},
        ),
        (
            "coat",
            "user",
            {
                0: {"gender": "men", "age": "over 60"},
                1: {"gender": "women", "age": "20-30"},
                2: {"gender": "women", "age": None},
            },
        ),
        (
            "coat",  # nobody rated the last one
            "item",
            {
                0: {"color": "navy", "onfrontpage": "yes"},
                1: {"color": "other", "onfrontpage": None},
                2: {"color": "other", "onfrontpage": "yes"},
                3: {"color": "navy", "onfrontpage": None},
            },
        ),
        (
            "open-bandit",
            "user",
            {f"{it}.b.c.d": {"user_feature_0": it, **BANDIT_USER} for it in ("x", "y")},
        ),
        (
            "open-bandit",  # 1 was never shown
            "item",
            {
                0: dict(zip(BANDIT_ITEM, (-0.5, "red", "long", "p"), strict=True)),
                1: dict(zip(BANDIT_ITEM, (0.25, "blue", "long", "q"), strict=True)),
                2: dict(zip(BANDIT_ITEM, (1.75, "red", "short", "q"), strict=True)),
            },
        ),
    ],
)
def test_features_have_exact_values(
    make: Make, features: FeaturesOf, dataset: str, role: str, expected: object
) -> None:
    assert features(log_of(dataset, make(dataset)), role) == expected


@pytest.mark.parametrize(
    ("dataset", "kind", "counts"),
    [
        ("ml-1m", "features", {"user_feature_rows": 1}),  # a user outside the log
        ("goodbooks", "features", {"item_feature_rows": 1}),
        ("lastfm", "duplicates", {"repeats": 2, "rows": 0}),
        ("ml-100k", None, {}),
    ],
)
def test_steps_are_counted(
    make: Make, dataset: str, kind: str | None, counts: dict[str, int]
) -> None:
    steps = log_of(dataset, make(dataset)).steps
    assert [(step.kind, step.counts) for step in steps] == ([(kind, counts)] if kind else [])


@pytest.mark.parametrize(
    ("dataset", "absent", "role"),
    [
        ("ml-1m", ["users.dat"], "user"),
        ("ml-1m", ["movies.dat"], "item"),
        ("ml-100k", ["u.user"], "user"),
        ("ml-100k", ["u.item"], "item"),
        ("movietweetings", ["movies.dat"], "item"),
        ("goodbooks", ["books.csv"], "item"),
        ("coat", [USER_FLAGS, USER_NAMES], "user"),
        ("coat", [ITEM_FLAGS, ITEM_NAMES], "item"),
    ],
)
def test_features_may_be_absent(
    make: Make, features: FeaturesOf, dataset: str, absent: list[str], role: str
) -> None:
    folder = make(dataset, dict.fromkeys(absent))
    log = log_of(dataset, folder)
    other = {"user": "item", "item": "user"}[role]
    assert features(log, role) is None
    assert (features(log, other) is None) == (dataset in ("movietweetings", "goodbooks"))
    assert len(log) == {"ml-1m": 4, "coat": 7}.get(dataset, 3)
    if dataset == "coat":  # items are the columns of the matrix
        assert log.items.ids.to_list() == [0, 1, 2, 3]


RATINGS = LAYOUTS["ml-1m"]["ratings.dat"]
IMPRESSIONS = LAYOUTS["open-bandit"]["all.csv"]
CONTEXT = LAYOUTS["open-bandit"]["item_context.csv"]
GZIPPED = LAYOUTS["goodreads"][REVIEWS]
SHELF = b"user_id,book_id,rating\n"
MANY = b"".join(review(user_id=f"u{n * n:x}", book_id=str(n)) for n in range(20_000))
STORED = gzip.compress(review(rating=4) + review(user_id="cd"), compresslevel=0, mtime=0)
EVENT = HEADER + b"1\t1\t1\t1300000000000\n"
BROKEN: list[tuple[str, Changes, list[str]]] = [
    *(
        ("ml-1m", {"ratings.dat": RATINGS + line}, words)
        for line, words in (
            (b"x::10::3::1000000000\n", ["ratings.dat", "`x`"]),
            (b"3::ten::3::1000000000\n", ["ratings.dat", "`ten`"]),
            (b"3::10::good::1000000000\n", ["ratings.dat", "`good`"]),
            (b"3::10::3::noon\n", ["ratings.dat", "`noon`"]),
            (b"3::10::nan::1000000000\n", ["ratings must be finite", "row 5"]),
            (b"3::10::3", ["must have 4 fields", "line 5 with 3: '3::10::3'"]),
            (b"3::10", ["must have 4 fields", "line 5 with 2"]),
            (b"3::10::3::9::9\n", ["must have 4 fields", "line 5 with 5"]),
            (b"3:x:10::3::1000000000\n", ["separated by '::'", "row 5"]),
            (b"::10::3::1000000000\n", ["every row must have an id", "row 5"]),
        )
    ),
    ("ml-1m", {"ratings.dat": None}, ["ratings.dat"]),
    ("ml-1m", {"ratings.dat": b""}, ["must have rows", "ratings.dat"]),
    ("ml-1m", {"users.dat": b"two::M::25::4::01234\n"}, ["users.dat"]),
    ("ml-1m", {"movies.dat": b"ten::Title (1990)::Drama\n"}, ["movies.dat"]),
    ("ml-1m", {"movies.dat": b"10::A (1990)::Drama\n10::B (1991)::War\n"}, ["one row an id"]),
    ("ml-100k", {"u.data": None}, ["u.data"]),
    ("ml-100k", {"u.data": b"1\t4\t2\tnoon\n"}, ["u.data'"]),
    ("ml-100k", {"u.data": b"1\tfour\t2\t900000000\n"}, ["u.data'"]),
    ("ml-100k", {"u.user": b"one|31|F|baker|01234\n"}, ["u.user'"]),
    ("ml-100k", {"u.item": b"four|Title|01-Jan-1990|||" + NOUGHTS + b"\n"}, ["u.item'"]),
    ("movietweetings", {"ratings.dat": None}, ["ratings.dat"]),
    ("movietweetings", {"movies.dat": "12345::Été::".encode("latin-1")}, ["movies.dat"]),
    ("lastfm", {TAGS: None}, [TAGS]),
    ("lastfm", {TAGS: HEADER}, ["must have rows"]),
    ("lastfm", {TAGS: b""}, []),
    ("lastfm", {TAGS: EVENT.removeprefix(HEADER) * 2}, [TAGS]),
    ("lastfm", {TAGS: EVENT + b"2\tx\t1\t1300000000000\n"}, [TAGS, "`x`"]),
    ("lastfm", {TAGS: EVENT + b"2\t2\t1\tnoon\n"}, [TAGS, "`noon`"]),
    ("lastfm", {TAGS: EVENT + b"2\t2\n"}, ["must have 4 fields", "line 3 with 2"]),
    ("lastfm", {TAGS: EVENT + b"2\t2\t1\t9223372036854775807\n"}, ["out of range"]),
    *(
        ("goodreads", {REVIEWS: GZIPPED[:-n_missing]}, [REVIEWS, "ends too early"])
        for n_missing in (1, 4, 9, 40)
    ),
    ("goodreads", {REVIEWS: packed(MANY)[: len(packed(MANY)) // 2]}, [REVIEWS, "ends too early"]),
    ("goodreads", {REVIEWS: STORED.replace(b'"rating": 4', b'"rating": 5')}, ["checksum"]),
    ("goodreads", {REVIEWS: b"no gzip at all"}, [REVIEWS]),
    ("goodreads", {REVIEWS: b""}, ["must have rows"]),
    ("goodreads", {REVIEWS: packed(b"")}, ["must have rows"]),
    ("goodreads", {REVIEWS: packed(b"user_id,book_id\n1,2\n")}, [REVIEWS]),
    *(
        ("goodreads", {REVIEWS: packed(review() + line)}, words)
        for line, words in (
            (review(user_id="cd")[:30], [REVIEWS]),
            (review(rating="good"), [REVIEWS, "good"]),
            (review(date_updated="noon"), ["times", "row 2", "noon"]),
            (review(date_updated=None), ["times", "row 2"]),
            (review(user_id=None), ["an id", "'user_id'", "row 2"]),
            (review(rating=None), ["ratings", "row 2"]),
            (b"{}\n", ["an id", "row 2"]),
        )
    ),
    ("goodreads", {REVIEWS: None}, ["goodreads_reviews_*.json", "found 0"]),
    ("goodreads", {"goodreads_reviews_b.json": review()}, ["reviews_*.json", "found 2"]),
    ("goodbooks", {"ratings.csv": SHELF + b"6,1,four\n8,3,5\n"}, ["ratings.csv"]),
    ("goodbooks", {"ratings.csv": SHELF + b"6,first,4\n8,3,5\n"}, ["ratings.csv"]),
    ("goodbooks", {"ratings.csv": b"6,1,4\n8,3,5\n"}, ["ratings.csv"]),
    ("goodbooks", {"ratings.csv": SHELF}, ["ratings.csv"]),
    ("goodbooks", {"ratings.csv": None}, ["ratings*.csv", "found 0"]),
    ("goodbooks", {"ratings_2.csv": b"user_id\n"}, ["ratings*.csv", "found 2"]),
    (
        "goodbooks",
        {"books.csv": b"book_id,language_code,original_publication_year\none,eng,1999\n"},
        ["books.csv"],
    ),
    ("goodbooks", {"books.csv": b"number,language\n1,eng\n"}, ["books.csv"]),
    ("goodbooks", {"books.csv": b""}, ["books.csv"]),
    *(
        ("coat", {file: content}, [file])
        for file in ("train.ascii", "test.ascii")
        for content in (
            *(None, b"1 x 0 0\n0 0 0 0\n", b"1 0 0 0\n1 0 0\n", b"1.5 0 0 0\n", b"\xff\xfe\n"),
            b"99999999999999999999 0 0 0\n",
        )
    ),
    ("coat", {"train.ascii": b""}, []),
    ("coat", {"test.ascii": b""}, []),
    ("coat", {"test.ascii": b"0 4 0\n1 0 0\n0 0 2\n"}, ["one shape", "(3, 4)"]),
    ("coat", {"test.ascii": b"0 4 0 0\n1 0 0 0\n"}, ["one shape", "(3, 4)"]),
    ("coat", {USER_FLAGS: b"1 0 0 1\n0 1 1 0\n"}, ["user features", "3 rows"]),
    ("coat", {ITEM_FLAGS: b"1 0\n0 1\n0 1\n1 0\n0 1\n"}, ["item features", "4 rows"]),
    ("coat", {USER_NAMES: b"gender:men\ngender:women\nage:20-30"}, ["user features", "3 names"]),
    ("coat", {ITEM_NAMES: b"color:a\ncolor:b\nfront:y\nfront:n"}, ["item features", "4 names"]),
    ("coat", {ITEM_FLAGS: b"1 x 0\n"}, ["item_features.ascii"]),
    ("coat", {ITEM_NAMES: None}, ["item_features_map.txt"]),
    ("coat", {ITEM_NAMES: b"color:navy\nother\nfront:yes"}, ["item_features_map.txt", "other"]),
    ("coat", {ITEM_NAMES: b"color:\xff\ncolor:b\nfront:yes"}, ["item_features_map.txt"]),
    *(
        ("open-bandit", {"all.csv": IMPRESSIONS.replace(old, new)}, words)
        for old, new, words in (
            (b",2,3,0,0.25,", b",two,3,0,0.25,", ["all.csv", "two"]),
            (b",2,3,0,0.25,", b",,3,0,0.25,", ["an id", "row 1"]),
            (b",2,3,0,0.25,", b",2,first,0,0.25,", ["positions must be", "row 1", "'first'"]),
            (b",2,3,0,0.25,", b",2,1.5,0,0.25,", ["positions must be", "row 1", "'1.5'"]),
            (b",2,3,0,0.25,", b",2,-1,0,0.25,", ["positions must be", "row 1", "'-1'"]),
            (b",2,3,0,0.25,", b",2,3,perhaps,0.25,", ["row 1", "'perhaps'"]),
            (b",2,3,0,0.25,", b",2,3,0,0.0,", ["propensities must be", "row 1", "'0.0'"]),
            (b",2,3,0,0.25,", b",2,3,0,1.01,", ["propensities must be", "row 1", "'1.01'"]),
            (b",2,3,0,0.25,", b",2,3,0,nan,", ["propensities must be", "row 1", "'nan'"]),
            (b"2020-02-01 10:00:00.000001+00:00", b"noon", ["times must be", "row 1", "'noon'"]),
            (b"propensity_score", b"pscore", ["all.csv", "propensity_score"]),
            (b"user_feature_3", b"user_feature_x", ["all.csv", "user_feature_3"]),
        )
    ),
    *(
        ("open-bandit", {"item_context.csv": content}, ["item_context.csv'"])
        for content in (
            *(None, b"", b"item_id\n0\n", b",item_id,item_feature_0,item_feature_1\n0,0,0,0\n"),
            CONTEXT.replace(b"0,0,-0.5", b"0,zero,-0.5"),
            CONTEXT.replace(b"-0.5", b"low"),
        )
    ),
    ("open-bandit", {"all.csv": None}, ["one file", "found 0", "random/all"]),
    ("open-bandit", {"men.csv": b"a\n"}, ["one file", "found 2", "random/all"]),
]


@pytest.mark.parametrize("place", range(len(BROKEN)), ids=lambda n: f"{BROKEN[n][0]}-{n}")
def test_broken_files_are_refused(make: Make, refused: Refused, place: int) -> None:
    dataset, changes, words = BROKEN[place]
    for file, content in changes.items():
        assert content != LAYOUTS[dataset].get(file, b"-")
    folder = make(dataset, changes)
    with refused(*words):
        cp.data.read_dataset(dataset, folder)


def test_only_a_line_feed_ends_a_movie(make: Make, features: FeaturesOf) -> None:
    movies = b"10::Wait\x85 (1990)::Drama\n20::One\x1cTwo (1991)::War\n30::Z (1992)::Crime\n"
    table = features(log_of("ml-1m", make("ml-1m", {"movies.dat": movies})), "item")
    assert table is not None
    assert [each["year"] for each in table.values()] == [1990.0, 1991.0, 1992.0]
    assert [each["genres"] for each in table.values()] == [["Drama"], ["War"], ["Crime"]]


def test_carriage_returns_change_nothing(make: Make) -> None:
    expected = log_of("ml-1m", make("ml-1m"))
    windows = {file: it.replace(b"\n", b"\r\n") for file, it in LAYOUTS["ml-1m"].items()}
    assert log_of("ml-1m", make("ml-1m", windows)) == expected


def test_every_flag_has_its_genre(make: Make, features: FeaturesOf) -> None:
    items = b"4|All|01-Jan-1990|||" + ONES + b"\n5|None|01-Jan-1990|||" + NOUGHTS + b"\n"
    table = features(log_of("ml-100k", make("ml-100k", {"u.item": items})), "item")
    assert table is not None
    assert len(table[4]["genres"]) == len(set(table[4]["genres"])) == 19
    assert table[4]["genres"][::6] == ["unknown", "Crime", "Musical", "Western"]
    assert table[5]["genres"] == []


def test_ids_stay_text_where_none_has_a_leading_zero(make: Make) -> None:
    ratings = b"1::2000001::7::1400000000\n2::2000002::7::1400000000\n"
    folder = make("movietweetings", {"ratings.dat": ratings, "movies.dat": None})
    assert log_of("movietweetings", folder).items.ids.to_list() == ["2000001", "2000002"]


def test_times_are_milliseconds_however_small(make: Make) -> None:
    log = log_of("lastfm", make("lastfm", {TAGS: HEADER + b"1\t1\t1\t-1000\n2\t2\t1\t5\n"}))
    assert log.time is not None
    assert log.time.tolist() == [-1_000_000, 5_000]


def test_other_fields_of_a_review_are_ignored(make: Make) -> None:
    bare = packed(review() + review(user_id="00aa", extra={"user_id": [1, None]}, book_id="2"))
    log = log_of("goodreads", make("goodreads", {REVIEWS: bare}))
    assert [name for name, _ in log.columns()] == ["user", "item", "rating", "time"]
    assert log.user_features is None
    assert log.item_features is None


def test_the_review_file_may_be_named_and_may_be_unpacked(make: Make) -> None:
    folder = make("goodreads")
    expected = log_of("goodreads", folder)
    assert log_of("goodreads", folder / REVIEWS) == expected
    plain = folder.with_name(REVIEWS.removesuffix(".gz"))
    plain.write_bytes(gzip.decompress(GZIPPED))
    assert log_of("goodreads", plain) == expected


def test_ratings_keep_the_order_of_the_file_within_a_user_if_asked_for(
    make: Make, columns: Columns
) -> None:
    log = log_of("goodbooks", make("goodbooks"))
    rows = sorted(zip(*columns(log).values(), strict=True))
    assert rows == [(6, 1, 4.0), (8, 1, 2.0), (8, 3, 5.0)]
    assert log.time is None
    as_it_stands = log_of("goodbooks", make("goodbooks"), order="file")
    assert columns(as_it_stands)["item"] == [1, 3, 1]


def test_columns_go_by_their_names(make: Make) -> None:
    expected = log_of("goodbooks", make("goodbooks"))
    turned = b"book_id,user_id,rating\n3,8,5\n1,6,4\n1,8,2\n"
    assert log_of("goodbooks", make("goodbooks", {"ratings.csv": turned})) == expected


def test_train_is_self_selected_and_test_is_random(make: Make, columns: Columns) -> None:
    split = cp.data.read_dataset("coat", make("coat"))
    assert isinstance(split, cp.Split)
    assert split.part.tolist() == [0, 0, 2, 0, 2, 2, 0]
    assert split.counts == {"train": 4, "validation": 0, "test": 3}
    assert columns(split.train)["rating"] == [5.0, 1.0, 2.0, 3.0]
    assert columns(split.test) == {"user": [0, 1, 2], "item": [1, 0, 2], "rating": [4.0, 1.0, 2.0]}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_a_map_may_end_in_a_new_line(make: Make, end: bytes) -> None:
    expected = log_of("coat", make("coat"))
    changes = {USER_NAMES: LAYOUTS["coat"][USER_NAMES] + end}
    assert log_of("coat", make("coat", changes)) == expected


@pytest.mark.parametrize(("start", "path"), [(".", "."), ("..", "all")])
def test_the_name_is_the_same_from_a_relative_path(
    make: Make, monkeypatch: pytest.MonkeyPatch, start: str, path: str
) -> None:
    monkeypatch.chdir(make("open-bandit") / start)
    log = log_of("open-bandit", Path(path))
    assert (log.name, log.source) == ("open-bandit-random-all", "Open Bandit: random/all")
    assert log.position is not None
    assert log.position.dtype == np.int16


@pytest.mark.parametrize(
    ("dataset", "folder", "counts", "missing"),
    [
        ("ml-1m", "ml-1m", (1_000_209, 6_040, 3_706), {"user": 0, "item": 0}),
        ("ml-100k", "ml-100k", (100_000, 943, 1_682), {"user": 0, "item": 1}),
        ("movietweetings", "movietweetings-100k", (100_000, 16_554, 10_506), {}),
        ("goodbooks", "goodbooks-10k-subset", (298_176, 2_672, 9_990), {}),
        ("coat", "coat", (11_600, 290, 300), {"user": 0, "item": 0}),
        ("lastfm", "lastfm-2k", (186_479, 1_892, 12_523), {}),
    ],
)
def test_the_real_ones_have_their_published_counts(
    real_data: RealData,
    dataset: str,
    folder: str,
    counts: tuple[int, int, int],
    missing: dict[str, int],
) -> None:
    made = cp.data.read_dataset(dataset, real_data(folder))
    log = made.interactions if isinstance(made, cp.Split) else made
    assert (len(log), log.n_users, log.n_items) == counts
    for role, n_missing in missing.items():
        assert sum(getattr(log, f"{role}_features").frame.null_count().row(0)) == n_missing
    if dataset == "movietweetings":
        assert set(log.items.ids.str.len_chars()) == {7}
    if isinstance(made, cp.Split):
        assert made.counts == {"train": 6_960, "validation": 0, "test": 4_640}
    if dataset == "goodbooks":
        assert log.item_features is not None
        assert log.item_features.frame["year"].null_count() == 21
    if dataset == "lastfm":
        assert len(np.unique(log.pair)) == 71_064
        assert cp.data.profile(log).n_implausible_times == 5
        usual = cp.data.filter_by_events(log, items_above=20, users_above=20, users_below=1000)
        assert (len(usual), usual.n_users, usual.n_items) == (103_576, 772, 2_061)
        assert len(np.unique(usual.pair)) == 36_691


@pytest.mark.parametrize("policy", ["random", "bts"])
@pytest.mark.parametrize(("campaign", "n_items"), [("all", 80), ("men", 34), ("women", 46)])
def test_the_real_bandit_logs_have_their_published_counts(
    real_data: RealData, policy: str, campaign: str, n_items: int
) -> None:
    log = log_of("open-bandit", real_data("obd") / policy / campaign)
    assert (len(log), log.n_items) == (10_000, n_items)
    assert log.name == f"open-bandit-{policy}-{campaign}"
    assert log.clicked is not None
    assert log.propensity is not None
    assert log.position is not None
    assert 20 < log.clicked.sum() < 80
    assert set(log.position.tolist()) == {1, 2, 3}
    if policy == "random":
        assert log.propensity == pytest.approx(1 / n_items, abs=1e-6)
    else:
        assert len(np.unique(log.propensity)) > n_items
