"""MovieLens-1M and -100K, and MovieTweetings, which follows their layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import polars as pl

from counterplay.data.datasets.layouts import Reading, read_features, read_separated

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.assembly import Features
    from counterplay.data.interactions import Interactions

_NUMBER = pl.col("id").cast(pl.Int64)
_SCHEMA = {"user": pl.Int32, "item": pl.Int32, "rating": pl.Float32, "time": pl.Int64}
_ROLES = {role: role for role in _SCHEMA}
_GENRES_100K = [
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime"),
    *("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery"),
    *("Romance", "Sci-Fi", "Thriller", "War", "Western"),
]


def read_ml_1m(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read MovieLens-1M: `ratings.dat`, and features from `users.dat` and `movies.dat`."""
    columns, wanted = ["id", "gender", "age", "occupation", "zip"], ["gender", "age", "occupation"]
    users = read_features(folder / "users.dat", columns, [_NUMBER, *wanted], "::")
    movies = _movies(folder, "latin-1", _NUMBER)
    return _read(folder, "ml-1m", "ratings.dat", "::", how, users, movies)


def read_movietweetings(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read MovieTweetings: `ratings.dat`, and genres and years from `movies.dat`.

    Item ids are IMDb numbers with leading zeros, so they stay text.
    """
    movies = _movies(folder, "utf-8", pl.col("id"))
    return _read(folder, "movietweetings", "ratings.dat", "::", how, None, movies, pl.String)


def read_ml_100k(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read MovieLens-100K: `u.data`, and features from `u.user` and `u.item`."""
    columns = ["id", "age", "gender", "occupation", "zip"]
    age = pl.col("age").cast(pl.Float64, strict=False)
    users = read_features(folder / "u.user", columns, [_NUMBER, age, "gender", "occupation"], "|")
    columns = ["id", "title", "released", "video", "url", *_GENRES_100K]
    genres = pl.concat_list(
        pl.when(pl.col(genre) == "1").then(pl.lit(genre)) for genre in _GENRES_100K
    ).list.drop_nulls()
    year = pl.col("released").str.extract(r"(\d{4})$").cast(pl.Float64)
    wanted = [_NUMBER, genres.alias("genres"), year.alias("year")]
    movies = read_features(folder / "u.item", columns, wanted, "|", "latin-1")
    return _read(folder, "ml-100k", "u.data", "\t", how, users, movies)


def _read(
    folder: Path,
    name: str,
    file: str,
    separator: str,
    how: Reading,
    user_features: Features | None,
    item_features: Features | None,
    item_type: type[pl.DataType] = pl.Int32,
) -> Interactions:
    return read_separated(
        folder / file,
        separator,
        _SCHEMA | {"item": item_type},
        _ROLES,
        how,
        header=False,
        time_unit="s",
        user_features=user_features,
        item_features=item_features,
        name=name,
        source=f"{name}: {file}",
    )


def _movies(folder: Path, encoding: str, number: pl.Expr) -> Features | None:
    genres = pl.col("genres").replace("", None).str.split("|").fill_null([])
    year = pl.col("title").str.extract(r"\((\d{4})\)\s*$").cast(pl.Float64).alias("year")
    columns, wanted = ["id", "title", "genres"], [number, genres, year]
    return read_features(folder / "movies.dat", columns, wanted, "::", encoding, n_optional=1)
