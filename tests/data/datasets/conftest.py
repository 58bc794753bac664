"""Invented data in the official layout of every dataset, and where the real ones may be."""

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp

Files = dict[str, bytes]

GENRES_100K = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime"),
    *("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery"),
    *("Romance", "Sci-Fi", "Thriller", "War", "Western"),
)


def _lines(*lines: str, encoding: str = "utf-8", end: str = "\n") -> bytes:
    return "".join(f"{line}{end}" for line in lines).encode(encoding)


def _movie_100k(number: int, title: str, released: str, *genres: str) -> str:
    flags = [str(int(genre in genres)) for genre in GENRES_100K]
    return "|".join([str(number), title, released, "", f"http://example.org/{number}", *flags])


def _review(user: str, book: str, rating: int, updated: str) -> str:
    return json.dumps(
        {
            "user_id": user,
            "book_id": book,
            "review_id": f"review-{user}-{book}",
            "rating": rating,
            "review_text": 'She said "user_id": 9,\nand left, {really}.',
            "date_added": "Sat Jan 01 00:00:00 -0800 2000",
            "date_updated": updated,
            "read_at": "",
            "started_at": None,
            "n_votes": 3,
            "n_comments": 0,
        }
    )


def _impressions(*rows: tuple[str, int, int, int, float, str]) -> bytes:
    """Lines of time, item, position, click, propensity and user features, numbered as by pandas."""
    return _lines(
        ",timestamp,item_id,position,click,propensity_score,"
        "user_feature_0,user_feature_1,user_feature_2,user_feature_3,"
        "user-item_affinity_0,user-item_affinity_1,user-item_affinity_2",
        *(",".join(map(str, (n, *row, 0.0, 0.5, 1.0))) for n, row in enumerate(rows)),
    )


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    made: dict[str, Any] = {name: np.array(each) for name, each in arrays.items()}
    np.savez_compressed(file, **made)
    return file.getvalue()


_VIDEOS = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio"
_PLAYS = "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_rand"
LAYOUTS: dict[str, Files] = {
    "ml-1m": {
        "ratings.dat": _lines(
            "7::30::5::1000000300",
            "2::10::3::1000000200",
            "7::10::4::1000000100",
            "2::20::1::1000000150",
        ),
        "users.dat": _lines("2::M::25::4::01234", "7::F::56::16::98765-4321", "9::M::18::0::11111"),
        "movies.dat": _lines(
            "10::Été: la suite (1987)::Comedy|Drama",
            "20::Señal 2: El Niño (or: Signal) (1999)::Action",
            "30::Numéro 30 (Zahl) (2000)::Children's|Film-Noir|Sci-Fi",
            encoding="latin-1",
        ),
    },
    "ml-100k": {
        "u.data": _lines("3\t5\t4\t900000020", "1\t4\t2\t900000030", "3\t4\t5\t900000010"),
        "u.user": _lines("1|31|F|baker|01234", "3|47|M|none|T8H1N"),
        "u.item": _lines(
            _movie_100k(4, "Crème: a film (1994)", "14-Feb-1994", "Comedy", "Romance"),
            _movie_100k(5, "unknown", "", "unknown"),
            encoding="latin-1",
        ),
    },
    "movietweetings": {
        "ratings.dat": _lines(
            "1::0012345::10::1400000001", "2::12345::0::1400000002", "1::7654321::7::1400000000"
        ),
        "movies.dat": _lines(
            "0012345::Ōkami: 狼 (1931)::Drama|Short", "12345::Untitled::", "7654321::Sun (2014)"
        ),
    },
    "lastfm": {
        "user_taggedartists-timestamps.dat": _lines(
            "userID\tartistID\ttagID\ttimestamp",
            "5\t100\t13\t1300000000123",
            "4\t101\t13\t1290000000000",
            "5\t100\t14\t1300000000123",
            "5\t99\t14\t1200000000000",
            "4\t101\t15\t1295000000000",
            end="\r\n",
        ),
    },
    "goodreads": {
        "goodreads_reviews_invented.json.gz": gzip.compress(
            _lines(
                _review("f0e1", "205", 4, "Sun Jul 30 07:44:10 -0700 2017"),
                _review("00aa", "31", 0, "Thu Feb 29 23:59:59 +0000 2024"),
                _review("f0e1", "31", 5, "Sun Jul 30 07:44:09 -0700 2017"),
            ),
            mtime=0,
        ),
    },
    "goodbooks": {
        "ratings.csv": _lines("user_id,book_id,rating", "8,3,5", "6,1,4", "8,1,2"),
        "books.csv": _lines(
            "book_id,isbn,authors,original_publication_year,title,language_code",
            '1,0001,"Doe, Jane, Roe, Richard",1999.0,"Salt, ""Sea"", and Sand",eng',
            '3,0003,Anonymous,-420.0,"Old, older",',
            '4,0004,"Poe, Jo",,Unread,fre',
        ),
    },
    "coat": {
        "train.ascii": _lines("5 0 1 0", "0 2 0 0", "0 0 3 0"),
        "test.ascii": _lines("0 4 0 0", "1 0 0 0", "0 0 2 0"),
        "user_item_features/user_features.ascii": _lines("1 0 0 1", "0 1 1 0", "0 1 0 0"),
        "user_item_features/user_features_map.txt": (
            b"gender:men\ngender:women\nage:20-30\nage:over 60"
        ),
        "user_item_features/item_features.ascii": _lines("1 0 1", "0 1 0", "0 1 1", "1 0 0"),
        "user_item_features/item_features_map.txt": b"color:navy\ncolor:other\nonfrontpage:yes",
    },
    "open-bandit": {
        "all.csv": _impressions(
            ("2020-02-01 10:00:00.000001+00:00", 2, 3, 0, 0.25, "y,b,c,d"),
            ("2020-02-01 09:00:00.500000+00:00", 0, 1, 1, 0.125, "x,b,c,d"),
            ("2020-02-01 09:30:00+00:00", 0, 2, 0, 1.0, "y,b,c,d"),
        ),
        "item_context.csv": _lines(
            ",item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3",
            "0,0,-0.5,red,long,p",
            "1,1,0.25,blue,long,q",
            "2,2,1.75,red,short,q",
        ),
    },
    "mind": {
        "behaviors.tsv": _lines(
            "1\tU7\t11/15/2019 8:55:22 AM\tN9 N8\tN1-0 N2-1 N3-0",
            "2\tU3\t11/14/2019 12:00:00 PM\t\tN2-0",
            "3\tU7\t11/15/2019 10:05:01 PM\tN9 N8 N2\tN3-1 N1-1",
        ),
        "news.tsv": _lines(
            'N1\tsports\tsoccer\tA "title\tText\thttps://example.org/1\t[]\t[]',
            "N2\tnews\tworld\tAnother\t\thttps://example.org/2\t[]\t[]",
            "N4\tnews\tlocal\tUnseen\t\thttps://example.org/4\t[]\t[]",
        ),
    },
    "finn-slates": {
        "data.npz": _npz(
            userId=[9, 4],
            click=[[6, 1, 0], [5, 8, 1]],
            click_idx=[[2, 0, 0], [1, 3, 0]],
            slate=[
                [[1, 5, 6, 0], [1, 6, 0, 0], [0, 0, 0, 0]],
                [[1, 5, 0, 0], [1, 6, 7, 8], [1, 7, 0, 0]],
            ],
            slate_lengths=[[3, 2, 0], [2, 4, 2]],
            interaction_type=[[1, 2, 0], [2, 2, 1]],
        ),
        "itemattr.npz": _npz(category=[0, 0, 0, 0, 0, 3, 3, 4, 5, 9]),
    },
    **{
        name: {
            "ratings.csv": _lines(
                "userId,movieId,rating,timestamp",
                "7,20,0.5,1000000100",
                "7,10,4.5,1000000000",
                "3,20,5.0,1000000200",
                end="\r\n",
            ),
            "movies.csv": _lines(
                "movieId,title,genres",
                '10,"American President, The (1995)",Comedy|Drama',
                "20,Untitled,(no genres listed)",
            ),
            "tags.csv": _lines("userId,movieId,tag,timestamp", "7,20,odd,1000000100"),
        }
        for name in ("ml-latest-small", "ml-20m", "ml-32m")
    },
    "yahoo-r3": {
        "ydata-ymusic-rating-study-v1_0-train.txt": _lines("1\t14\t5", "1\t35\t1", "2\t14\t3"),
        "ydata-ymusic-rating-study-v1_0-test.txt": _lines("1\t49\t1", "2\t35\t4"),
    },
    "kuairec": {
        "big_matrix.csv": _lines(
            _VIDEOS,
            "0,3649,13838,10867,2020-07-05 00:08:23.438,20200705,1593878903.438,1.25",
            "5,9598,0,10984,2020-07-05 00:13:41.297,20200705,1593879221.297,0.0",
        ),
        "small_matrix.csv": _lines(_VIDEOS, "0,9598,4381,6067,,,,0.75", "5,3649,100,6100,,,,2.5"),
        "social_network.csv": _lines("user_id,friend_list", '3371,"[2975]"'),
    },
    "kuairand": {
        f"log_{part}_pure.csv": _lines(_PLAYS, *rows)
        for part, rows in {
            "random_4_22_to_5_08": ("3,8,20220422,400,1650600000000,0,0,1",),
            "standard_4_08_to_4_21": ("3,9,20220408,400,1649400000000,1,0,0",),
            "standard_4_22_to_5_08": ("4,8,20220423,400,1650700000000,1,1,0",),
        }.items()
    },
    "amazon-2023": {
        "All_Beauty.csv": _lines(
            "user_id,parent_asin,rating,timestamp",
            "AGKH,B00YQ6X8EO,5.0,1588687728923",
            "AGKX,B081TJ8YS3,4.0,1588615855070",
        ),
    },
}
_PLACES = {"open-bandit": "random/all"}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Write a dataset's layout; `changes` replaces files, or leaves them out by None."""

    def write(name: str, changes: Mapping[str, bytes | None] | None = None) -> Path:
        folder = tmp_path / _PLACES.get(name, name)
        for file, content in {**LAYOUTS[name], **(changes or {})}.items():
            if content is not None:
                path = folder / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    return write


@pytest.fixture
def columns() -> Callable[[cp.Interactions], dict[str, list[Any]]]:
    """Return all columns that a log has as plain lists, with the original ids."""

    def plain(log: cp.Interactions) -> dict[str, list[Any]]:
        return {name: column.tolist() for name, column in log.columns()} | {
            "user": log.users.decode(log.user).to_list(),
            "item": log.items.decode(log.item).to_list(),
        }

    return plain


@pytest.fixture
def features() -> Callable[[cp.Interactions, str], dict[Any, dict[str, Any]] | None]:
    """Return the features of every user or item as plain values by its id."""

    def plain(log: cp.Interactions, role: str) -> dict[Any, dict[str, Any]] | None:
        table = getattr(log, f"{role}_features")
        ids = getattr(log, f"{role}s").ids.to_list()
        return None if table is None else dict(zip(ids, table.frame.to_dicts(), strict=True))

    return plain


@pytest.fixture
def refused() -> Callable[..., AbstractContextManager[None]]:
    """Expect an error of one sentence that has each of the given words in it."""

    @contextmanager
    def check(*words: str, error: type[Exception] = cp.DataError) -> Iterator[None]:
        with pytest.raises(error) as caught:
            yield
        message = str(caught.value)
        assert "\n" not in message
        assert message.count("; ") >= 2, f"not in the form must; found; next: {message}"
        for word in words:
            assert word in message

    return check
