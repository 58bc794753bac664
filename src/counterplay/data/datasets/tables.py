"""Datasets of plain tables: MovieLens as CSV, Amazon, Yahoo! R3, KuaiRec and KuaiRand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import polars as pl

from counterplay.data.assembly import Features, assemble
from counterplay.data.datasets.layouts import Reading, only_file, read_separated
from counterplay.data.formats import format_of
from counterplay.data.refusals import readable
from counterplay.data.scans import Several, scan_ndjson, scan_separated
from counterplay.data.splits import TEST, TRAIN, Split
from counterplay.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.interactions import Interactions

_YAHOO = "ydata-ymusic-rating-study-v1_0-{}.txt"
_RANDOM = "random"


def read_movielens(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read MovieLens as CSV, of any size: `ratings.csv`, and genres and years from `movies.csv`."""
    name = folder.resolve().name
    name = name if name.startswith("ml-") else "ml"
    return read_separated(
        folder / "ratings.csv",
        ",",
        {"userId": pl.Int32, "movieId": pl.Int32, "rating": pl.Float32, "timestamp": pl.Int64},
        {"user": "userId", "item": "movieId", "rating": "rating", "time": "timestamp"},
        how,
        time_unit="s",
        item_features=_movies(folder / "movies.csv"),
        name=name,
        source=f"MovieLens: {name}/ratings.csv",
    )


def _movies(path: Path) -> Features | None:
    if not path.exists():
        return None
    none = pl.col("genres") == "(no genres listed)"
    genres = pl.when(none).then(pl.lit("")).otherwise("genres").replace("", None)
    year = pl.col("title").str.extract(r"\((\d{4})\)\s*$").cast(pl.Float64).alias("year")
    with readable(path, "MovieLens movies"):
        rows = scan_separated(path, ",")
        movies = rows.collect().select(
            pl.col("movieId").cast(pl.Int64), genres.str.split("|").fill_null([]).alias("genres"),
            year,
        )  # fmt: skip
    return Features(movies, "movieId", steps=rows.steps)


def read_amazon(path: Path, **how: Unpack[Reading]) -> Interactions:
    """Read one category of Amazon reviews 2023: a CSV of ratings, or the reviews as JSON lines.

    An item is the parent product, whose variants share their reviews.
    """
    if path.is_dir():
        advice = "name the file itself"
        path = only_file(path, "*.[cj]s*", "a folder of Amazon reviews", advice)
    columns = {"user": "user_id", "item": "parent_asin", "rating": "rating", "time": "timestamp"}
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(columns.values(), pl.String)
    with readable(path, "Amazon reviews"):
        if format_of(path) == "ndjson":
            rows = scan_ndjson(path, schema | {"rating": pl.Float32, "timestamp": pl.Int64})
        else:
            rows = scan_separated(path, ",")
            _check_columns(path, rows.frame, columns)
        return assemble(
            rows.batches(list(schema), how.get("progress")),
            columns,
            time_unit="ms",
            order=how.get("order", "canonical"),
            steps=rows.steps,
            name="amazon-2023",
            source=f"Amazon reviews 2023: {path.name}",
        )


def read_yahoo_r3(folder: Path, **how: Unpack[Reading]) -> Split:
    """Read Yahoo! R3 with its own split: train is self-selected, test is uniformly random."""
    parts = {part: folder / _YAHOO.format(part) for part in ("train", "test")}
    types = dict.fromkeys(("user", "item", "rating"), pl.Int32)
    scans = []
    for part, path in parts.items():
        with readable(path, "Yahoo! R3"):
            rows = scan_separated(path, "\t", types, header=False)
            scans.append(replace(rows, frame=_marked(rows.frame, part == "test")))
    with readable(folder, "Yahoo! R3"):
        return _in_two_parts(
            scans, {role: role for role in types}, how, "self-selected against random",
            name="yahoo-r3", source="Yahoo! R3: train, test",
        )  # fmt: skip


def read_kuairec(folder: Path, **how: Unpack[Reading]) -> Split:
    """Read KuaiRec with its own split: train is the big matrix, test the complete small one.

    A rating is the share of a video that was watched. Some rows have no time, so none is taken.
    """
    columns = {"user": "user_id", "item": "video_id", "rating": "watch_ratio"}
    scans = []
    for name in ("big_matrix.csv", "small_matrix.csv"):
        path = folder / name
        with readable(path, "KuaiRec"):
            rows = scan_separated(path, ",")
            _check_columns(path, rows.frame, columns)
            marked = _marked(rows.frame.select(columns.values()), name == "small_matrix.csv")
            scans.append(replace(rows, frame=marked))
    with readable(folder, "KuaiRec"):
        return _in_two_parts(
            scans, columns, how, "observed against complete", untyped=True,
            name="kuairec", source="KuaiRec: big_matrix.csv, small_matrix.csv",
        )  # fmt: skip


def _marked(frame: pl.LazyFrame, is_test: bool) -> pl.LazyFrame:
    return frame.with_columns(pl.lit(is_test).alias(_RANDOM))


def _in_two_parts(
    scans: list[Any], columns: dict[str, str], how: Reading, kind: str, **about: Any
) -> Split:
    """Put training and test rows into one log; the mark goes along with each row."""
    rows = Several(tuple(scans)).batches([*columns.values(), _RANDOM], how.get("progress"))
    steps = [step for each in scans for step in each.steps]
    log = assemble(rows, columns | {_RANDOM: _RANDOM}, steps=steps, **about)
    part = np.where(np.asarray(log.random), TEST, TRAIN).astype(np.int8)
    return Split(replace(log, random=None), part, kind)


def read_kuairand(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read KuaiRand (Pure, 1K or 27K): all `log_*.csv`; videos drawn at random are marked.

    Rows are impressions, clicked or not; in the single-column pages, a click is a valid play.
    """
    columns = {
        "user": "user_id",
        "item": "video_id",
        "time": "time_ms",
        "random": "is_rand",
        "clicked": "is_click",
    }
    paths = sorted(folder.glob("log_*.csv")) if folder.is_dir() else []
    if not paths:
        raise DataError(
            f"a KuaiRand folder must hold log_*.csv; found none in '{folder}'; name its folder data"
        )
    scans = []
    for path in paths:
        with readable(path, "KuaiRand"):
            rows = scan_separated(path, ",")
            _check_columns(path, rows.frame, columns)
            scans.append(rows)
    with readable(folder, "KuaiRand"):
        return assemble(
            Several(tuple(scans)).batches(list(columns.values()), how.get("progress")),
            columns,
            untyped=True,
            time_unit="ms",
            order=how.get("order", "canonical"),
            steps=[step for each in scans for step in each.steps],
            name="kuairand",
            source=f"KuaiRand: {', '.join(path.name for path in paths)}",
        )


def _check_columns(path: Path, frame: pl.LazyFrame, columns: dict[str, str]) -> None:
    found = frame.collect_schema().names()
    missing = next((name for name in columns.values() if name not in found), None)
    if missing:
        raise DataError(
            f"'{path}' must have a column '{missing}'; found {', '.join(found[:12])}; fetch it "
            "again, or read it as a plain CSV file"
        )
