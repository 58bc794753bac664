"""Goodreads reviews of the UCSD book graph, and goodbooks-10k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from counterplay.data.assembly import Features, assemble
from counterplay.data.formats import Progress, readable
from counterplay.data.scans import scan_ndjson, scan_separated
from counterplay.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.canonical import Order
    from counterplay.data.interactions import Interactions


def read_goodreads(
    path: Path, progress: Progress | None = None, order: Order = "canonical"
) -> Interactions:
    """Read a review file, `goodreads_reviews_*.json.gz`, one JSON object a line, streamed.

    A rating of 0 means that the review came without one.
    """
    if path.is_dir():
        found = sorted(path.glob("goodreads_reviews_*.json*"))
        if len(found) != 1:
            raise DataError(
                "a Goodreads folder must hold one file goodreads_reviews_*.json.gz; found "
                f"{len(found)} in '{path}'; name the file itself"
            )
        path = found[0]
    with readable(path, "goodreads review"):
        reviews = scan_ndjson(
            path,
            {
                "user_id": pl.String,
                "book_id": pl.String,
                "rating": pl.Float32,
                "date_updated": pl.String,
            },
        )
        return assemble(
            reviews.batches(progress=progress),
            {"user": "user_id", "item": "book_id", "rating": "rating", "time": "date_updated"},
            untyped=True,  # the ids are text in the file, book ids all integers
            order=order,
            name="goodreads",
            source=f"Goodreads: {path.name}",
        )


def read_goodbooks(
    folder: Path, progress: Progress | None = None, order: Order = "canonical"
) -> Interactions:
    """Read goodbooks-10k: `ratings*.csv`, and language and year from `books.csv`.

    There are no times; `order="file"` takes the file's order for the order of events.
    """
    found = sorted(folder.glob("ratings*.csv"))
    if len(found) != 1:
        raise DataError(
            f"a goodbooks folder must hold one file ratings*.csv; found {len(found)} in "
            f"'{folder}'; remove the others, or read one as a plain CSV file"
        )
    path = found[0]
    with readable(path, "goodbooks ratings"):
        ratings = scan_separated(
            path, ",", {"user_id": pl.Int32, "book_id": pl.Int32, "rating": pl.Float32}
        )
        return assemble(
            ratings.batches(progress=progress),
            {"user": "user_id", "item": "book_id", "rating": "rating"},
            order=order,
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
