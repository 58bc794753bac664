"""Dataset directories: what a prepared log looks like on disk.

    interactions.parquet   user, item (dense indices) and the optional columns, in canonical order
    users.parquet          id and features, one row a user; the row's number is the index
    items.parquet          the same for items
    split.parquet          part of each row: 0 train, 1 validation, 2 test (where there is a split)
    random.parquet         user, item and clicked of the random rows (where there are any)
    unclicked.parquet      the other impressions without a click, and their parts (likewise)
    dataset.json           name, counts, source, filter, split, fingerprint, digests of the files

Columns are decoded into memory, one after another (docs/decisions/0002). Every load compares the
files with their digests before it parses them, and what was read with the fingerprint.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow.parquet as pq

from counterplay.data.canonical import slices
from counterplay.data.features import FeatureTable
from counterplay.data.files import check_digest, digests_of, read_json, sealed
from counterplay.data.interactions import Interactions, Step
from counterplay.data.publishing import Replaceable, new_directory
from counterplay.data.refusals import first_line
from counterplay.data.roles import COLUMNS, IMPRESSION_COLUMNS
from counterplay.data.splits import Split
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import DataError
from counterplay.places import check_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

FORMAT = 2
ROW_GROUP = 1 << 17  # rows; fixed, so that a file written in pieces is the same
TYPES = {
    "user": pl.Int32(),
    "item": pl.Int32(),
    "rating": pl.Float32(),
    "time": pl.Datetime("us", "UTC"),
    "exposed": pl.Boolean(),
    "propensity": pl.Float64(),
    "position": pl.Int16(),
    "random": pl.Boolean(),
    "clicked": pl.Boolean(),
    "part": pl.Int8(),
}
DESCRIPTION = "dataset.json"
TABLES = ("interactions.parquet", "users.parquet", "items.parquet")
SPLIT, _RANDOM, UNCLICKED = "split.parquet", "random.parquet", "unclicked.parquet"
REMEDY = "prepare it again"
FILES = Replaceable({DESCRIPTION, *TABLES}, {DESCRIPTION, *TABLES, SPLIT, _RANDOM, UNCLICKED})


def save(log: Interactions | Split, directory: str | Path, *, overwrite: bool = False) -> None:
    """Write a dataset directory, all of it or nothing."""
    interactions = log.interactions if isinstance(log, Split) else log
    with new_directory(Path(directory), replacing=FILES if overwrite else None) as folder:
        _write_columns(folder / "interactions.parquet", dict(interactions.columns()))
        for plural, vocabulary, table in (
            ("users", interactions.users, interactions.user_features),
            ("items", interactions.items, interactions.item_features),
        ):
            ids = pl.DataFrame({"id": vocabulary.ids})
            frame = pl.concat([ids, table.frame], how="horizontal") if table else ids
            frame.write_parquet(folder / f"{plural}.parquet", row_group_size=ROW_GROUP)
        split = None
        if isinstance(log, Split):
            _write_columns(folder / SPLIT, {"part": log.part})
            if log.random is not None:
                _write_columns(folder / _RANDOM, dict(log.random.columns()))
            if log.unclicked is not None and log.unclicked_part is not None:
                columns = dict(log.unclicked.columns()) | {"part": log.unclicked_part}
                _write_many(folder / UNCLICKED, columns)
            split = {"kind": log.kind, "counts": log.counts, "cold": log.cold_counts}
            split["fingerprint"] = log.fingerprint
        counts = _counts(interactions.users, interactions.items, interactions.user)
        named = (interactions.name, interactions.source, interactions.steps)
        write_description(folder, *named, counts, split, interactions.fingerprint)


def write_description(
    folder: Path,
    name: str,
    source: str,
    steps: Sequence[Step],
    counts: Mapping[str, int],
    split: Mapping[str, Any] | None,
    fingerprint: str,
    **more: Any,
) -> None:
    """Write `dataset.json` beside the tables that it describes."""
    description = {
        "format": FORMAT,
        "name": name,
        "counts": counts,
        "source": source,
        "filter": [asdict(step) for step in steps],
        "split": split,
        "fingerprint": fingerprint,
        "files": digests_of(folder),
    }
    (folder / DESCRIPTION).write_bytes(sealed(description | more))


def _counts(users: Vocabulary, items: Vocabulary, rows: NDArray[Any]) -> dict[str, int]:
    return {"users": len(users), "items": len(items), "interactions": len(rows)}


def load(directory: str | Path) -> Interactions:
    """Load the interactions of a dataset directory, as they were written."""
    return _load(Path(directory))[0]


def load_split(directory: str | Path) -> Split:
    """Load a dataset directory with the split that was stored in it."""
    folder = Path(directory)
    interactions, description = _load(folder)
    stored = description["split"]
    if stored is None:
        raise DataError(
            f"a stored split is needed; found none in '{folder}'; prepare it again with a split, "
            "or load it and split it"
        )
    there = [name for name in (SPLIT, _RANDOM, UNCLICKED) if name in description["files"]]
    for name in {SPLIT, *there}:
        check_digest(folder / name, description["files"], remedy=REMEDY)
    try:
        beside: dict[str, Any] = {"random": None, "unclicked": None}
        part, parts = _read_columns(folder / SPLIT, ("part",))["part"], None
        for name in there[1:]:
            columns: dict[str, Any] = _read_columns(folder / name, tuple(TYPES))
            parts = columns.pop("part", parts)
            rows = Interactions(interactions.users, interactions.items, **columns)
            beside[name.removesuffix(".parquet")] = rows
        split = Split(interactions, part, stored["kind"], **beside, unclicked_part=parts)
        announced = stored["fingerprint"]
    except (OSError, pl.exceptions.PolarsError, KeyError, TypeError) as error:
        raise _damaged(folder, f"a split that cannot be read ({first_line(error)})") from None
    if split.fingerprint != announced:
        raise _damaged(folder, "a split that does not match its fingerprint")
    return split


def _load(folder: Path) -> tuple[Interactions, dict[str, Any]]:
    """Return the interactions of a dataset directory, and what `dataset.json` says."""
    description = describe(folder)
    for name in TABLES:
        check_digest(folder / name, description["files"], remedy=REMEDY)
    try:
        columns = _read_columns(folder / "interactions.parquet", (*COLUMNS, *IMPRESSION_COLUMNS))
        users, user_features = _read_ids(folder / "users.parquet")
        items, item_features = _read_ids(folder / "items.parquet")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _damaged(folder, first_line(error)) from None
    if "user" not in columns or "item" not in columns:
        raise _damaged(folder, "no columns user and item in interactions.parquet")
    counts = _counts(users, items, columns["user"])
    if counts != description["counts"]:
        raise _damaged(folder, f"counts of {counts} where it announces {description['counts']}")
    try:
        steps = tuple(Step(**step) for step in description["filter"])
    except TypeError:
        raise _damaged(folder, "a filter in dataset.json that is not one") from None
    interactions = Interactions(
        users,
        items,
        **columns,
        user_features=user_features,
        item_features=item_features,
        name=description["name"],
        source=description["source"],
        steps=steps,
    )
    if interactions.fingerprint != description["fingerprint"]:
        raise _damaged(folder, "contents that do not match its fingerprint")
    return interactions, description


def describe(directory: str | Path) -> dict[str, Any]:
    """Return what `dataset.json` says, if it is as it was written."""
    folder = Path(directory)
    check_dataset(folder)
    path = folder / DESCRIPTION
    description = read_json(path, "of a dataset directory", remedy=REMEDY, format=FORMAT)
    keys = {"name", "counts", "source", "filter", "split", "fingerprint", "files"}
    if keys - description.keys() or not isinstance(description["files"], dict):
        raise _damaged(folder, "a dataset.json without all of its entries")
    return description


def _write_columns(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    frame_of(columns).write_parquet(path, row_group_size=ROW_GROUP)


def frame_of(columns: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
    """Return columns of a log in the types in which they are stored."""
    return pl.DataFrame(
        {name: pl.Series(column).cast(TYPES[name]) for name, column in columns.items()}
    )


def _write_many(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    """Write columns that may be very long, some rows at a time, so that none is held twice."""
    types = pl.DataFrame(schema={name: TYPES[name] for name in columns}).to_arrow().schema
    with pq.ParquetWriter(path, types, compression="lz4", use_dictionary=False) as writer:
        for part in slices(len(columns["user"])):
            series = {
                name: pl.Series(each[part]).cast(TYPES[name]) for name, each in columns.items()
            }
            writer.write_table(pl.DataFrame(series).to_arrow().cast(types), ROW_GROUP)


def _read_columns(path: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Return those of the wanted columns that a file has; one is decoded at a time."""
    table = pl.scan_parquet(path, glob=False)
    columns = {}
    for name in (name for name in wanted if name in table.collect_schema()):
        column = table.select(pl.col(name).cast(TYPES[name])).collect()[name]
        if column.null_count():
            raise _damaged(path.parent, f"{column.null_count()} nulls in column '{name}'")
        columns[name] = column.to_physical().to_numpy()
    return columns


def _read_ids(path: Path) -> tuple[Vocabulary, FeatureTable | None]:
    frame = pl.read_parquet(path, glob=False)
    features = frame.drop("id")
    return Vocabulary(frame["id"]), FeatureTable(features) if features.width else None


def _damaged(folder: Path, found: str) -> DataError:
    return DataError(
        f"a dataset directory must be as it was written; found in '{folder}' {found}; prepare it "
        "again"
    )
