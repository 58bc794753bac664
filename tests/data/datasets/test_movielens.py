from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from counterplay import Interactions

Make = Callable[..., Path]
Read = Callable[[str, Path], Interactions]
Columns = Callable[[Interactions], dict[str, list[Any]]]
FeaturesOf = Callable[[Interactions, str], dict[Any, dict[str, Any]] | None]
Refused = Callable[..., AbstractContextManager[None]]
RealData = Callable[[str], Path]


class TestML1M:
    def test_rows_stand_by_user_and_time_with_exact_values(
        self, make: Make, read_log: Read, columns: Columns
    ) -> None:
        log = read_log("ml-1m", make("ml-1m"))
        assert columns(log) == {
            "user": [2, 2, 7, 7],
            "item": [20, 10, 10, 30],
            "rating": [1.0, 3.0, 4.0, 5.0],
            "time": [1000000150_000000, 1000000200_000000, 1000000100_000000, 1000000300_000000],
        }
        assert log.users.ids.to_list() == [2, 7]
        assert log.items.ids.to_list() == [10, 20, 30]
        assert log.name == "ml-1m"

    def test_users_have_gender_and_codes_as_categories(
        self, make: Make, read_log: Read, features: FeaturesOf
    ) -> None:
        log = read_log("ml-1m", make("ml-1m"))
        assert features(log, "user") == {
            2: {"gender": "M", "age": "25", "occupation": "4"},
            7: {"gender": "F", "age": "56", "occupation": "16"},
        }

    def test_titles_with_colons_and_accents_do_not_disturb_genres_and_years(
        self, make: Make, read_log: Read, features: FeaturesOf
    ) -> None:
        log = read_log("ml-1m", make("ml-1m"))
        assert features(log, "item") == {
            10: {"genres": ["Comedy", "Drama"], "year": 1987.0},
            20: {"genres": ["Action"], "year": 1999.0},
            30: {"genres": ["Children's", "Film-Noir", "Sci-Fi"], "year": 2000.0},
        }

    def test_a_user_outside_the_log_is_left_out_and_counted(
        self, make: Make, read_log: Read
    ) -> None:
        (step,) = read_log("ml-1m", make("ml-1m")).steps
        assert (step.kind, step.counts) == ("features", {"user_feature_rows": 1})

    def test_only_a_line_feed_ends_a_movie(
        self, make: Make, read_log: Read, features: FeaturesOf
    ) -> None:
        movies = b"10::Wait\x85 (1990)::Drama\n20::One\x1cTwo (1991)::War\n30::Z (1992)::Crime\n"
        log = read_log("ml-1m", make("ml-1m", {"movies.dat": movies}))
        assert features(log, "item") == {
            10: {"genres": ["Drama"], "year": 1990.0},
            20: {"genres": ["War"], "year": 1991.0},
            30: {"genres": ["Crime"], "year": 1992.0},
        }

    @pytest.mark.parametrize(
        ("absent", "role", "other"),
        [("users.dat", "user", "item"), ("movies.dat", "item", "user")],
    )
    def test_a_feature_file_may_be_absent(
        self,
        make: Make,
        read_log: Read,
        features: FeaturesOf,
        absent: str,
        role: str,
        other: str,
    ) -> None:
        log = read_log("ml-1m", make("ml-1m", {absent: None}))
        assert len(log) == 4
        assert features(log, role) is None
        assert features(log, other) is not None

    def test_carriage_returns_change_nothing(
        self, make: Make, read_log: Read, layout: Callable[[str, str], bytes]
    ) -> None:
        expected = read_log("ml-1m", make("ml-1m"))
        files = ("ratings.dat", "users.dat", "movies.dat")
        windows = {file: layout("ml-1m", file).replace(b"\n", b"\r\n") for file in files}
        assert read_log("ml-1m", make("ml-1m", windows)) == expected

    @pytest.mark.parametrize(
        ("line", "words"),
        [
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
        ],
    )
    def test_a_broken_line_is_refused(
        self,
        make: Make,
        read_log: Read,
        refused: Refused,
        layout: Callable[[str, str], bytes],
        line: bytes,
        words: list[str],
    ) -> None:
        folder = make("ml-1m", {"ratings.dat": layout("ml-1m", "ratings.dat") + line})
        with refused(*words):
            read_log("ml-1m", folder)

    @pytest.mark.parametrize(
        ("file", "content"),
        [("users.dat", b"two::M::25::4::01234\n"), ("movies.dat", b"ten::Title (1990)::Drama\n")],
    )
    def test_a_broken_feature_file_is_refused_by_its_name(
        self, make: Make, read_log: Read, refused: Refused, file: str, content: bytes
    ) -> None:
        folder = make("ml-1m", {file: content})
        with refused(file):
            read_log("ml-1m", folder)

    def test_a_repeated_movie_is_refused(
        self, make: Make, read_log: Read, refused: Refused
    ) -> None:
        folder = make("ml-1m", {"movies.dat": b"10::A (1990)::Drama\n10::B (1991)::War\n"})
        with refused("one row an id"):
            read_log("ml-1m", folder)

    def test_ratings_must_be_there(self, make: Make, read_log: Read, refused: Refused) -> None:
        folder = make("ml-1m", {"ratings.dat": None})
        with refused("ratings.dat"):
            read_log("ml-1m", folder)

    def test_ratings_must_not_be_empty(self, make: Make, read_log: Read, refused: Refused) -> None:
        folder = make("ml-1m", {"ratings.dat": b""})
        with refused("must have rows", "ratings.dat"):
            read_log("ml-1m", folder)

    def test_the_real_one_has_its_published_counts(
        self, real_data: RealData, read_log: Read
    ) -> None:
        log = read_log("ml-1m", real_data("ml-1m"))
        assert (len(log), log.n_users, log.n_items) == (1_000_209, 6_040, 3_706)
        assert log.rating is not None
        assert log.user_features is not None
        assert log.item_features is not None
        assert set(log.rating.tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0}
        assert sum(log.user_features.frame.null_count().row(0)) == 0
        assert sum(log.item_features.frame.null_count().row(0)) == 0


class TestML100K:
    def test_rows_stand_by_user_and_time_with_exact_values(
        self, make: Make, read_log: Read, columns: Columns
    ) -> None:
        log = read_log("ml-100k", make("ml-100k"))
        assert columns(log) == {
            "user": [1, 3, 3],
            "item": [4, 4, 5],
            "rating": [2.0, 5.0, 4.0],
            "time": [900000030_000000, 900000010_000000, 900000020_000000],
        }
        assert log.name == "ml-100k"
        assert log.steps == ()

    def test_users_have_age_gender_and_occupation(
        self, make: Make, read_log: Read, features: FeaturesOf
    ) -> None:
        assert features(read_log("ml-100k", make("ml-100k")), "user") == {
            1: {"age": 31.0, "gender": "F", "occupation": "baker"},
            3: {"age": 47.0, "gender": "M", "occupation": "none"},
        }

    def test_flags_become_genres_and_release_dates_years(
        self, make: Make, read_log: Read, features: FeaturesOf
    ) -> None:
        assert features(read_log("ml-100k", make("ml-100k")), "item") == {
            4: {"genres": ["Comedy", "Romance"], "year": 1994.0},
            5: {"genres": ["unknown"], "year": None},
        }

    def test_every_flag_has_its_genre(
        self, make: Make, read_log: Read, features: FeaturesOf
    ) -> None:
        items = b"4|All|01-Jan-1990|||" + b"|".join([b"1"] * 19) + b"\n"
        items += b"5|None|01-Jan-1990|||" + b"|".join([b"0"] * 19) + b"\n"
        log = read_log("ml-100k", make("ml-100k", {"u.item": items}))
        table = features(log, "item")
        assert table is not None
        assert len(table[4]["genres"]) == len(set(table[4]["genres"])) == 19
        assert table[4]["genres"][::6] == ["unknown", "Crime", "Musical", "Western"]
        assert table[5]["genres"] == []

    @pytest.mark.parametrize(("absent", "role"), [("u.user", "user"), ("u.item", "item")])
    def test_a_feature_file_may_be_absent(
        self, make: Make, read_log: Read, features: FeaturesOf, absent: str, role: str
    ) -> None:
        log = read_log("ml-100k", make("ml-100k", {absent: None}))
        assert len(log) == 3
        assert features(log, role) is None

    @pytest.mark.parametrize(
        ("file", "content"),
        [
            ("u.data", b"1\t4\t2\tnoon\n"),
            ("u.data", b"1\tfour\t2\t900000000\n"),
            ("u.user", b"one|31|F|baker|01234\n"),
            ("u.item", b"four|Title|01-Jan-1990|||" + b"|".join([b"0"] * 19) + b"\n"),
        ],
    )
    def test_a_broken_file_is_refused_by_its_name(
        self, make: Make, read_log: Read, refused: Refused, file: str, content: bytes
    ) -> None:
        folder = make("ml-100k", {file: content})
        with refused(f"{file}'"):
            read_log("ml-100k", folder)

    def test_ratings_must_be_there(self, make: Make, read_log: Read, refused: Refused) -> None:
        folder = make("ml-100k", {"u.data": None})
        with refused("u.data"):
            read_log("ml-100k", folder)

    def test_the_real_one_has_its_published_counts(
        self, real_data: RealData, read_log: Read
    ) -> None:
        log = read_log("ml-100k", real_data("ml-100k"))
        assert (len(log), log.n_users, log.n_items) == (100_000, 943, 1_682)
        assert log.user_features is not None
        assert log.item_features is not None
        assert sum(log.user_features.frame.null_count().row(0)) == 0
        assert log.item_features.frame["genres"].list.len().min() == 1
        assert log.item_features.frame["year"].null_count() == 1


class TestMovieTweetings:
    def test_ids_with_leading_zeros_stay_text(
        self, make: Make, read_log: Read, columns: Columns
    ) -> None:
        log = read_log("movietweetings", make("movietweetings"))
        assert columns(log) == {
            "user": [1, 1, 2],
            "item": ["7654321", "0012345", "12345"],
            "rating": [7.0, 10.0, 0.0],
            "time": [1400000000_000000, 1400000001_000000, 1400000002_000000],
        }
        assert log.items.ids.to_list() == ["0012345", "12345", "7654321"]
        assert log.name == "movietweetings"

    def test_ids_stay_text_where_none_has_a_leading_zero(self, make: Make, read_log: Read) -> None:
        ratings = b"1::2000001::7::1400000000\n2::2000002::7::1400000000\n"
        changes = {"ratings.dat": ratings, "movies.dat": None}
        log = read_log("movietweetings", make("movietweetings", changes))
        assert log.items.ids.to_list() == ["2000001", "2000002"]

    def test_movies_have_genres_and_years_where_the_file_says_so(
        self, make: Make, read_log: Read, features: FeaturesOf
    ) -> None:
        log = read_log("movietweetings", make("movietweetings"))
        assert features(log, "item") == {
            "0012345": {"genres": ["Drama", "Short"], "year": 1931.0},
            "12345": {"genres": [], "year": None},
            "7654321": {"genres": [], "year": 2014.0},
        }
        assert features(log, "user") is None

    def test_movies_may_be_absent(self, make: Make, read_log: Read, features: FeaturesOf) -> None:
        log = read_log("movietweetings", make("movietweetings", {"movies.dat": None}))
        assert len(log) == 3
        assert features(log, "item") is None

    def test_movies_must_be_utf_8(self, make: Make, read_log: Read, refused: Refused) -> None:
        folder = make("movietweetings", {"movies.dat": "12345::Été::".encode("latin-1")})
        with refused("movies.dat"):
            read_log("movietweetings", folder)

    def test_ratings_must_be_there(self, make: Make, read_log: Read, refused: Refused) -> None:
        folder = make("movietweetings", {"ratings.dat": None})
        with refused("ratings.dat"):
            read_log("movietweetings", folder)

    def test_the_real_one_has_its_published_counts(
        self, real_data: RealData, read_log: Read
    ) -> None:
        log = read_log("movietweetings", real_data("movietweetings-100k"))
        assert (len(log), log.n_users, log.n_items) == (100_000, 16_554, 10_506)
        assert log.rating is not None
        assert (log.rating.min(), log.rating.max()) == (0.0, 10.0)
        assert set(log.items.ids.str.len_chars()) == {7}
