import gzip
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from counterplay import Interactions, read_dataset

Make = Callable[..., Path]
Read = Callable[[str, Path], Interactions]
Columns = Callable[[Interactions], dict[str, list[Any]]]
FeaturesOf = Callable[[Interactions, str], dict[Any, dict[str, Any]] | None]
Refused = Callable[..., AbstractContextManager[None]]
RealData = Callable[[str], Path]

REVIEWS = "goodreads_reviews_invented.json.gz"


def review(**changes: object) -> bytes:
    fields = {
        "user_id": "ab",
        "book_id": "1",
        "rating": 3,
        "date_updated": "Mon Jan 02 03:04:05 -0800 2017",
    }
    return json.dumps(fields | changes).encode() + b"\n"


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # test names must not change with the clock


class TestGoodreads:
    def test_reviews_have_text_users_integer_books_and_times_in_utc(
        self, make: Make, read_log: Read, columns: Columns
    ) -> None:
        log = read_log("goodreads", make("goodreads"))
        assert columns(log) == {
            "user": ["00aa", "f0e1", "f0e1"],
            "item": [31, 31, 205],
            "rating": [0.0, 5.0, 4.0],
            "time": [1709251199_000000, 1501425849_000000, 1501425850_000000],
        }
        assert log.users.ids.to_list() == ["00aa", "f0e1"]
        assert log.items.ids.to_list() == [31, 205]
        assert log.name == "goodreads"

    def test_other_fields_are_ignored(self, make: Make, read_log: Read) -> None:
        bare = gzip.compress(
            review(user_id="f0e1", book_id="205", rating=4)
            + review(user_id="00aa", book_id="31", extra={"user_id": [1, None]}, rating=0)
        )
        log = read_log("goodreads", make("goodreads", {REVIEWS: bare}))
        assert [name for name, _ in log.columns()] == ["user", "item", "rating", "time"]
        assert log.user_features is None
        assert log.item_features is None

    def test_the_file_itself_may_be_named(self, make: Make, read_log: Read) -> None:
        folder = make("goodreads")
        assert read_log("goodreads", folder / REVIEWS) == read_log("goodreads", folder)

    def test_an_unpacked_file_reads_the_same(
        self, make: Make, read_log: Read, layout: Callable[[str, str], bytes]
    ) -> None:
        folder = make("goodreads")
        plain = folder.with_name("goodreads_reviews_invented.json")
        plain.write_bytes(gzip.decompress(layout("goodreads", REVIEWS)))
        assert read_log("goodreads", plain) == read_log("goodreads", folder)

    def test_progress_ends_at_the_number_of_rows(self, make: Make) -> None:
        calls: list[tuple[int, int | None]] = []
        read_dataset("goodreads", make("goodreads"), progress=lambda *call: calls.append(call))
        assert calls[-1] == (3, 3)

    @pytest.mark.parametrize("n_missing", [1, 4, 9, 40])
    def test_a_truncated_file_is_refused(
        self,
        make: Make,
        read_log: Read,
        refused: Refused,
        layout: Callable[[str, str], bytes],
        n_missing: int,
    ) -> None:
        folder = make("goodreads", {REVIEWS: layout("goodreads", REVIEWS)[:-n_missing]})
        with refused(REVIEWS, "ends too early"):
            read_log("goodreads", folder)

    def test_a_file_that_fails_its_own_checksum_is_refused(
        self, make: Make, read_log: Read, refused: Refused
    ) -> None:
        stored = gzip.compress(review(rating=4) + review(user_id="cd"), compresslevel=0)
        assert stored.count(b'"rating": 4') == 1
        folder = make("goodreads", {REVIEWS: stored.replace(b'"rating": 4', b'"rating": 5')})
        with refused(REVIEWS, "checksum"):
            read_log("goodreads", folder)

    def test_a_long_file_cut_in_the_middle_is_refused(
        self, make: Make, read_log: Read, refused: Refused
    ) -> None:
        many = b"".join(review(user_id=f"u{n * n:x}", book_id=str(n)) for n in range(20_000))
        whole = packed(many)
        folder = make("goodreads", {REVIEWS: whole[: len(whole) // 2]})
        with refused(REVIEWS, "ends too early"):
            read_log("goodreads", folder)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"no gzip at all", [REVIEWS]),
            (b"", ["must have rows"]),
            (packed(b""), ["must have rows"]),
            (packed(b"user_id,book_id\n1,2\n"), [REVIEWS]),
            (packed(review() + review(user_id="cd")[:30]), [REVIEWS]),
            (packed(review() + review(rating="good")), [REVIEWS, "good"]),
            (packed(review() + review(date_updated="noon")), ["times", "row 2", "noon"]),
            (packed(review() + review(date_updated=None)), ["times", "row 2"]),
            (packed(review() + review(user_id=None)), ["an id", "'user_id'", "row 2"]),
            (packed(review() + review(rating=None)), ["ratings", "row 2"]),
            (packed(review() + b"{}\n"), ["an id", "row 2"]),
        ],
    )
    def test_a_broken_file_is_refused(
        self, make: Make, read_log: Read, refused: Refused, content: bytes, words: list[str]
    ) -> None:
        folder = make("goodreads", {REVIEWS: content})
        with refused(*words):
            read_log("goodreads", folder)

    @pytest.mark.parametrize(
        ("changes", "found"),
        [({REVIEWS: None}, "found 0"), ({"goodreads_reviews_b.json": review()}, "found 2")],
    )
    def test_a_folder_must_hold_one_review_file(
        self,
        make: Make,
        read_log: Read,
        refused: Refused,
        changes: dict[str, bytes | None],
        found: str,
    ) -> None:
        folder = make("goodreads", changes)
        with refused("goodreads_reviews_*.json", found):
            read_log("goodreads", folder)


class TestGoodbooks:
    def test_ratings_keep_the_order_of_the_file_within_a_user_if_asked_for(
        self, make: Make, read_log: Read, columns: Columns
    ) -> None:
        log = read_log("goodbooks", make("goodbooks"))
        assert sorted(zip(*columns(log).values(), strict=True)) == [
            (6, 1, 4.0),
            (8, 1, 2.0),
            (8, 3, 5.0),
        ]
        as_it_stands = read_dataset("goodbooks", make("goodbooks"), order="file")
        assert isinstance(as_it_stands, Interactions)
        assert columns(as_it_stands)["item"] == [1, 3, 1]
        assert log.time is None
        assert log.name == "goodbooks"

    def test_quoted_commas_do_not_disturb_languages_and_years(
        self, make: Make, read_log: Read, features: FeaturesOf
    ) -> None:
        log = read_log("goodbooks", make("goodbooks"))
        assert features(log, "item") == {
            1: {"language": "eng", "year": 1999.0},
            3: {"language": None, "year": -420.0},
        }
        assert [step.counts for step in log.steps] == [{"item_feature_rows": 1}]

    def test_columns_go_by_their_names(self, make: Make, read_log: Read) -> None:
        turned = b"book_id,user_id,rating\n3,8,5\n1,6,4\n1,8,2\n"
        log = read_log("goodbooks", make("goodbooks", {"ratings.csv": turned}))
        assert log == read_log("goodbooks", make("goodbooks"))

    def test_books_may_be_absent(self, make: Make, read_log: Read, features: FeaturesOf) -> None:
        log = read_log("goodbooks", make("goodbooks", {"books.csv": None}))
        assert len(log) == 3
        assert features(log, "item") is None

    @pytest.mark.parametrize(
        ("file", "content"),
        [
            ("ratings.csv", b"user_id,book_id,rating\n6,1,four\n8,3,5\n"),
            ("ratings.csv", b"user_id,book_id,rating\n6,first,4\n8,3,5\n"),
            ("ratings.csv", b"6,1,4\n8,3,5\n"),
            ("ratings.csv", b"user_id,book_id,rating\n"),
            ("books.csv", b"book_id,language_code,original_publication_year\none,eng,1999\n"),
            ("books.csv", b"number,language\n1,eng\n"),
            ("books.csv", b""),
        ],
    )
    def test_a_broken_file_is_refused_by_its_name(
        self, make: Make, read_log: Read, refused: Refused, file: str, content: bytes
    ) -> None:
        folder = make("goodbooks", {file: content})
        with refused(file):
            read_log("goodbooks", folder)

    @pytest.mark.parametrize(
        ("changes", "found"),
        [({"ratings.csv": None}, "found 0"), ({"ratings_2.csv": b"user_id\n"}, "found 2")],
    )
    def test_a_folder_must_hold_one_ratings_file(
        self,
        make: Make,
        read_log: Read,
        refused: Refused,
        changes: dict[str, bytes | None],
        found: str,
    ) -> None:
        folder = make("goodbooks", changes)
        with refused("ratings*.csv", found):
            read_log("goodbooks", folder)

    def test_the_real_one_has_its_published_counts(
        self, real_data: RealData, read_log: Read
    ) -> None:
        log = read_log("goodbooks", real_data("goodbooks-10k-subset"))
        assert (len(log), log.n_users, log.n_items) == (298_176, 2_672, 9_990)
        assert log.item_features is not None
        assert len(log.item_features) == 9_990
        assert log.item_features.frame["year"].null_count() == 21
