"""Goodreads reviews of the UCSD book graph, goodbooks-10k, and hetrec2011 LastFM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import polars as pl

from counterplay.data.assembly import Features, assemble
from counterplay.data.datasets.layouts import Reading, only_file, read_separated
from counterplay.data.refusals import readable
from counterplay.data.scans import scan_ndjson, scan_separated

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.interactions import Interactions


def read_goodreads(path: Path, **how: Unpack[Reading]) -> Interactions:
    """Read a review file, `goodreads_reviews_*.json.gz`, one JSON object a line, streamed.

    A rating of 0 means that the review came without one.
    """
    if path.is_dir():
        path = only_file(
            path, "goodreads_reviews_*.json*", "a Goodreads folder", "name the file itself"
        )
    roles = {"user": "user_id", "item": "book_id", "rating": "rating", "time": "date_updated"}
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(roles.values(), pl.String)
    schema["rating"] = pl.Float32
    with readable(path, "goodreads review"):
        return assemble(
            scan_ndjson(path, schema).batches(progress=how.get("progress")),
            roles,
            untyped=True,  # the ids are text in the file, book ids all integers
            order=how.get("order", "canonical"),
            name="goodreads",
            source=f"Goodreads: {path.name}",
        )


def read_goodbooks(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read goodbooks-10k: `ratings*.csv`, and language and year from `books.csv`.

    There are no times; `order="file"` takes the file's order for the order of events.
    """
    advice = "remove the others, or read one as a plain CSV file"
    path = only_file(folder, "ratings*.csv", "a goodbooks folder", advice)
    return read_separated(
        path,
        ",",
        {"user_id": pl.Int32, "book_id": pl.Int32, "rating": pl.Float32},
        {"user": "user_id", "item": "book_id", "rating": "rating"},
        how,
        item_features=_books(folder / "books.csv"),
        name="goodbooks",
        source=f"goodbooks-10k: {path.name}",
    )


def _books(path: Path) -> Features | None:
    if not path.exists():
        return None
    year = pl.col("original_publication_year").cast(pl.Float64, strict=False).alias("year")
    with readable(path, "goodbooks books"):
        rows = scan_separated(path, ",")
        books = rows.collect().select(
            pl.col("book_id").cast(pl.Int64), pl.col("language_code").alias("language"), year
        )
    return Features(books, "book_id", steps=rows.steps)


def read_lastfm(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read the tag events of hetrec2011 LastFM.

    A user tags one artist many times: 186,479 events are 71,064 distinct pairs. Five events have
    impossible years.
    """
    return read_separated(
        folder / "user_taggedartists-timestamps.dat",
        "\t",
        {"userID": pl.Int32, "artistID": pl.Int32, "tagID": pl.Int32, "timestamp": pl.Int64},
        {"user": "userID", "item": "artistID", "time": "timestamp"},
        how,
        time_unit="ms",
        name="lastfm",
        source="hetrec2011-lastfm-2k: tag events",
    )
