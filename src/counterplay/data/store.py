"""Dataset directories: what a prepared log looks like on disk.

    interactions.parquet   user, item (dense indices) and the optional columns, in canonical order
    users.parquet          id and features, one row a user; the row's number is the index
    items.parquet          the same for items
    split.parquet          part of each row: 0 train, 1 validation, 2 test (where there is a split)
    dataset.json           name, counts, source, filter, split, fingerprint, digests of the files

The numeric columns are written plainly, each in one page, so that any Parquet reader can read
them and this one can map them: loading copies no row (docs/decisions/0002). Every load compares
the files with their digests before it parses them, and what was read with the fingerprint.
"""

from __future__ import annotations

import inspect
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from counterplay.data.features import FeatureTable
from counterplay.data.files import check_digest, digests_of, read_json, sealed
from counterplay.data.formats import first_line
from counterplay.data.interactions import COLUMNS, Interactions, Step
from counterplay.data.publishing import Replaceable, new_directory
from counterplay.data.splits import Split
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FORMAT = 2
_ROWS_A_GROUP = 1 << 27  # a page is at most 2 GiB, an int64 column of this length half of that
_TYPES: dict[str, pa.DataType] = {
    "user": pa.int32(),
    "item": pa.int32(),
    "rating": pa.float32(),
    "time": pa.timestamp("us", tz="UTC"),
    "exposed": pa.bool_(),
    "propensity": pa.float64(),
    "position": pa.int16(),
    "part": pa.int8(),
}
_MAPPABLE = {"user": np.int32, "item": np.int32, "rating": np.float32, "propensity": np.float64}
_MAPPABLE |= {"time": np.int64}
DESCRIPTION = "dataset.json"
_TABLES = ("interactions.parquet", "users.parquet", "items.parquet")
_REMEDY = "prepare it again"
FILES = Replaceable({DESCRIPTION, *_TABLES}, {DESCRIPTION, *_TABLES, "split.parquet"})


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
            frame.write_parquet(folder / f"{plural}.parquet")
        if isinstance(log, Split):
            _write_columns(folder / "split.parquet", {"part": log.part})
        description = _description(log, interactions) | {"files": digests_of(folder)}
        (folder / DESCRIPTION).write_bytes(sealed(description))


def load(directory: str | Path) -> Interactions:
    """Load the interactions of a dataset directory, memory-mapped, as they were written."""
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
    path = folder / "split.parquet"
    check_digest(path, description["files"], remedy=_REMEDY)
    try:
        part = dict(_read_columns(path, ("part",)))["part"]
        split = Split(interactions, part, stored["kind"])
        announced = stored["fingerprint"]
    except (OSError, pa.ArrowException, KeyError, TypeError) as error:
        raise _damaged(folder, f"a split that cannot be read ({first_line(error)})") from None
    if split.fingerprint != announced:
        raise _damaged(folder, "a split that does not match its fingerprint")
    return split


def _load(folder: Path) -> tuple[Interactions, dict[str, Any]]:
    """Return the interactions of a dataset directory, and what `dataset.json` says."""
    description = describe(folder)
    for name in _TABLES:
        check_digest(folder / name, description["files"], remedy=_REMEDY)
    try:
        columns = dict(_read_columns(folder / "interactions.parquet", COLUMNS))
        users, user_features = _read_ids(folder / "users.parquet")
        items, item_features = _read_ids(folder / "items.parquet")
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise _damaged(folder, first_line(error)) from None
    if "user" not in columns or "item" not in columns:
        raise _damaged(folder, "no columns user and item in interactions.parquet")
    counts = {"users": len(users), "items": len(items), "interactions": len(columns["user"])}
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
    path = folder / DESCRIPTION
    if not path.exists():
        raise DataError(
            f"a dataset directory must hold a readable dataset.json; found none in '{folder}'; "
            "make one with counterplay prepare"
        )
    description = read_json(path, "of a dataset directory", remedy=_REMEDY, format=FORMAT)
    keys = {"name", "counts", "source", "filter", "split", "fingerprint", "files"}
    if keys - description.keys() or not isinstance(description["files"], dict):
        raise _damaged(folder, "a dataset.json without all of its entries")
    return description


def _description(log: Interactions | Split, interactions: Interactions) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "name": interactions.name,
        "counts": {
            "users": interactions.n_users,
            "items": interactions.n_items,
            "interactions": len(interactions),
        },
        "source": interactions.source,
        "filter": [asdict(step) for step in interactions.steps],
        "split": _described(log) if isinstance(log, Split) else None,
        "fingerprint": interactions.fingerprint,
    }


def _described(split: Split) -> dict[str, Any]:
    return {
        "kind": split.kind,
        "counts": split.counts,
        "cold": split.cold_counts,
        "fingerprint": split.fingerprint,
    }


def _write_columns(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    """Write columns plainly, one page each."""
    arrays = {name: pa.array(column).view(_TYPES[name]) for name, column in columns.items()}
    schema = pa.schema([pa.field(name, _TYPES[name], nullable=False) for name in arrays])
    layout: dict[str, Any] = {
        "compression": "none",
        "use_dictionary": False,
        "write_statistics": False,
        "data_page_size": 2**31 - 1,
        "row_group_size": _ROWS_A_GROUP,
    }
    if "max_rows_per_page" in inspect.signature(pq.write_table).parameters:
        layout["max_rows_per_page"] = _ROWS_A_GROUP
    pq.write_table(pa.table(list(arrays.values()), schema=schema), path, **layout)


def _read_columns(path: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the columns of a file, mapped where their layout allows it, else decoded."""
    metadata, schema = pq.read_metadata(path), pq.read_schema(path)
    for name in (name for name in wanted if name in schema.names):
        column = None
        if name in _MAPPABLE and schema.field(name).type == _TYPES[name]:
            column = _mapped(path, metadata, schema.names.index(name), np.dtype(_MAPPABLE[name]))
        yield name, _decoded(path, name) if column is None else column


def _decoded(path: Path, name: str) -> NDArray[Any]:
    values = pq.read_table(path, columns=[name], memory_map=True)[name].cast(_TYPES[name])
    if values.null_count:
        raise pa.ArrowInvalid(f"{values.null_count} nulls in column '{name}'")
    if name == "time":
        values = values.cast(pa.int64())
    return np.array(values.to_numpy())


def _mapped(path: Path, metadata: Any, place: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Map one column, if it is a single plain page of `dtype`."""
    if metadata.num_row_groups != 1:
        return None
    chunk, n_rows = metadata.row_group(0).column(place), metadata.num_rows
    n_bytes = n_rows * dtype.itemsize
    if (
        chunk.compression != "UNCOMPRESSED"
        or not set(chunk.encodings) <= {"PLAIN", "RLE"}
        or metadata.schema.column(place).max_definition_level != 0
        or _first_page_bytes(path, chunk.data_page_offset) != n_bytes
    ):
        return None
    offset = chunk.data_page_offset + chunk.total_compressed_size - n_bytes
    return np.asarray(np.memmap(path, dtype, mode="r", offset=offset, shape=(n_rows,)))


def _first_page_bytes(path: Path, offset: int) -> int | None:
    """Return the size of the page at `offset`, from its Thrift header; None if it is not plain.

    The header opens with three int32 fields (0x15): page type (0 is a data page), size before
    and size after compression, each as a zigzag varint.
    """
    with path.open("rb") as file:
        file.seek(offset)
        header = iter(file.read(32))
    numbers = []
    for _ in range(3):
        if next(header, None) != 0x15:
            return None
        number = shift = 0
        for byte in header:
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        numbers.append((number >> 1) ^ -(number & 1))
    page_type, before, after = numbers
    return before if page_type == 0 and before == after else None


def _read_ids(path: Path) -> tuple[Vocabulary, FeatureTable | None]:
    frame = pl.read_parquet(path, glob=False)
    features = frame.drop("id")
    return Vocabulary(frame["id"]), FeatureTable(features) if features.width else None


def _damaged(folder: Path, found: str) -> DataError:
    return DataError(
        f"a dataset directory must be as it was written; found in '{folder}' {found}; prepare it "
        "again"
    )
