"""MovieLens-1M and -100K, and MovieTweetings, which follows their layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from counterplay.data.assembly import Features, assemble
from counterplay.data.findings import shortened
from counterplay.data.formats import Progress, readable
from counterplay.data.scans import Scan, scan_separated
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from counterplay.data.canonical import Order
    from counterplay.data.interactions import Interactions

_NUMBER = pl.col("id").cast(pl.Int64)
_ROLES = {role: role for role in ("user", "item", "rating", "time")}
_GENRES_100K = [
    "unknown",
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
]


def read_ml_1m(
    folder: Path, progress: Progress | None = None, order: Order = "canonical"
) -> Interactions:
    """Read MovieLens-1M: `ratings.dat`, and features from `users.dat` and `movies.dat`."""
    columns = ["id", "gender", "age", "occupation", "zip"]
    users = _features(folder / "users.dat", columns, [_NUMBER, "gender", "age", "occupation"])
    movies = _movies(folder, "latin-1", _NUMBER)
    return _read(
        folder, "ml-1m", pl.Int32, progress, order, user_features=users, item_features=movies
    )


def read_movietweetings(
    folder: Path, progress: Progress | None = None, order: Order = "canonical"
) -> Interactions:
    """Read MovieTweetings: `ratings.dat`, and genres and years from `movies.dat`.

    Item ids are IMDb numbers with leading zeros, so they stay text.
    """
    movies = _movies(folder, "utf-8", pl.col("id"))
    return _read(folder, "movietweetings", pl.String, progress, order, item_features=movies)


def read_ml_100k(
    folder: Path, progress: Progress | None = None, order: Order = "canonical"
) -> Interactions:
    """Read MovieLens-100K: `u.data`, and features from `u.user` and `u.item`."""
    with readable(folder / "u.data", "u.data"):
        ratings = scan_separated(
            folder / "u.data",
            "\t",
            {"user": pl.Int32, "item": pl.Int32, "rating": pl.Float32, "time": pl.Int64},
            header=False,
        )
        return assemble(
            ratings.batches(progress=progress),
            _ROLES,
            order=order,
            time_unit="s",
            user_features=_users_100k(folder),
            item_features=_items_100k(folder),
            name="ml-100k",
            source="ml-100k: u.data",
        )


def _users_100k(folder: Path) -> Features | None:
    columns = ["id", "age", "gender", "occupation", "zip"]
    age = pl.col("age").cast(pl.Float64, strict=False)
    return _features(folder / "u.user", columns, [_NUMBER, age, "gender", "occupation"], "|")


def _items_100k(folder: Path) -> Features | None:
    columns = ["id", "title", "released", "video", "url", *_GENRES_100K]
    genres = pl.concat_list(
        pl.when(pl.col(genre) == "1").then(pl.lit(genre)) for genre in _GENRES_100K
    ).list.drop_nulls()
    year = pl.col("released").str.extract(r"(\d{4})$").cast(pl.Float64)
    features = [_NUMBER, genres.alias("genres"), year.alias("year")]
    return _features(folder / "u.item", columns, features, "|", "latin-1")


def _read(
    folder: Path,
    name: str,
    item_type: type[pl.Int32] | type[pl.String],
    progress: Progress | None,
    order: Order,
    *,
    user_features: Features | None = None,
    item_features: Features | None,
) -> Interactions:
    """Read `ratings.dat`, whose fields are separated by '::'.

    The parser takes one sign as a separator, so it sees an empty column between any two.
    """
    path = folder / "ratings.dat"
    types = {"user": pl.Int32, "item": item_type, "rating": pl.Float32, "time": pl.Int64}
    schema: dict[str, type[pl.DataType]] = {}
    for column, dtype in types.items():
        schema |= {column: dtype, f"after_{column}": pl.String}
    del schema["after_time"]
    with readable(path, "ratings.dat"):
        return assemble(
            _without_gaps(scan_separated(path, "::", schema, header=False), progress),
            _ROLES,
            order=order,
            time_unit="s",
            user_features=user_features,
            item_features=item_features,
            name=name,
            source=f"{name}: ratings.dat",
        )


def _without_gaps(rows: Scan, progress: Progress | None) -> Iterator[pl.DataFrame]:
    """Yield the ratings; what stands between two colons, where nothing may, is refused."""
    done = 0
    for batch in rows.batches(progress=progress):
        gaps = batch.select(pl.col(r"^after_.*$").is_not_null())
        filled = gaps.select(pl.any_horizontal(pl.all())).to_series().arg_true()
        if len(filled):
            raise DataError(
                f"fields of '{rows.path}' must be separated by '::'; found a single ':' in "
                f"{len(filled):,} rows, the first is row {done + filled[0] + 1:,}; fetch it again"
            )
        done += batch.height
        yield batch


def _movies(folder: Path, encoding: str, number: pl.Expr) -> Features | None:
    genres = pl.col("genres").replace("", None).str.split("|").fill_null([])
    year = pl.col("title").str.extract(r"\((\d{4})\)\s*$").cast(pl.Float64).alias("year")
    features = [number, genres, year]
    columns = ["id", "title", "genres"]
    return _features(folder / "movies.dat", columns, features, "::", encoding, n_optional=1)


def _features(
    path: Path,
    columns: list[str],
    features: Sequence[pl.Expr | str],
    separator: str = "::",
    encoding: str = "utf-8",
    n_optional: int = 0,
) -> Features | None:
    """Read a small table whose separator may be longer than one sign, where it is there.

    The last `n_optional` fields of a line may be absent.
    """
    if not path.exists():
        return None
    with readable(path, path.name):
        lines = pl.Series(path.read_text(encoding=encoding).rstrip("\r\n").split("\n"))
        n_required = len(columns) - n_optional
        n_fields = lines.str.count_matches(separator, literal=True) + 1
        ragged = ((n_fields > len(columns)) | (n_fields < n_required)).arg_true()
        if len(ragged):
            raise DataError(
                f"every line of '{path}' must have {len(columns)} fields; found {len(ragged):,} of "
                f"{len(lines):,} with more or fewer, the first at line {ragged[0] + 1:,}: "
                f"{shortened(lines[ragged[0]])}; fetch it again"
            )
        parts = lines.str.strip_chars_end("\r").str.split_exact(separator, len(columns) - 1)
        table = parts.struct.rename_fields(columns).struct.unnest()
        return Features(table.select(features), "id")
