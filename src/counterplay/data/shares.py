"""One worker's part of a dataset directory: of the large files it reads its own users' rows.

A shard is a range of users. Shard s of S begins with the user of row `n · s / S`, so shards have
about as many rows each, and where they begin depends on the log alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from counterplay.data.directory import REMEDY, SPLIT, TABLES, TYPES, UNCLICKED, describe
from counterplay.data.features import FeatureTable, OfAll
from counterplay.data.files import check_digest
from counterplay.data.interactions import Interactions
from counterplay.data.roles import COLUMNS, IMPRESSION_COLUMNS
from counterplay.data.splits import Split
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import DataError
from counterplay.groups import Share, check_shards

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.groups import Group


def load_share(
    directory: str | Path, group: Group, n_shards: int, *, owned_above: float = float("inf")
) -> Split:
    """Load what a worker has of a dataset directory with a split.

    The split's parts are those of its users' rows. Random rows stay out: nothing learns from them.
    Where there are more items than `owned_above`, several workers own their vectors.
    """
    check_shards(n_shards, group.size)
    folder = Path(directory)
    description = describe(folder)
    if description["split"] is None:
        raise DataError(
            f"a stored split is needed; found none in '{folder}'; prepare it again with a split"
        )

    def check() -> None:
        for name in sorted({*TABLES, SPLIT, UNCLICKED} & description["files"].keys()):
            check_digest(folder / name, description["files"], remedy=REMEDY)

    group.first(check)  # for all: they read the same files
    rows = pq.ParquetFile(folder / "interactions.parquet")
    n_users = description["counts"]["users"]
    cuts = _cuts(rows, n_users, n_shards)
    each = n_shards // group.size
    mine = cuts[group.rank * each : (group.rank + 1) * each + 1]
    first, last = mine[0], mine[-1]
    share = Share(
        group, n_shards, group.rank * each, tuple(cut - first for cut in mine), first, n_users,
        description["fingerprint"],
        owns_items=group.size > 1 and description["counts"]["items"] > owned_above,
    )  # fmt: skip
    found, place = _rows_of(rows, first, last)
    (part,) = columns_of(rows_at(pq.ParquetFile(folder / SPLIT), place)).values()
    users = pq.ParquetFile(folder / "users.parquet")
    ids = pl.DataFrame(pl.from_arrow(rows_at(users, slice(first, last), ["id"])))["id"]
    items = pl.read_parquet(folder / "items.parquet", glob=False)
    names = [name for name in users.schema_arrow.names if name != "id"]
    told = pl.DataFrame(pl.from_arrow(rows_at(users, slice(first, last), names)))
    log = Interactions(
        Vocabulary(ids),
        Vocabulary(items["id"]),
        **_shifted(found, first),
        user_features=features_of(told, group) if names else None,
        item_features=FeatureTable(items.drop("id")) if items.width > 1 else None,
        name=description["name"],
        source=description["source"],
        share=share,
    )
    beside: dict[str, Any] = {}
    if (folder / UNCLICKED).exists():
        other, _ = _rows_of(pq.ParquetFile(folder / UNCLICKED), first, last)
        beside["unclicked_part"] = columns_of(other)["part"]
        beside["unclicked"] = Interactions(
            log.users, log.items, **_shifted(other.drop_columns(["part"]), first), share=share
        )
    return Split(log, part, description["split"]["kind"], **beside)


def features_of(frame: pl.DataFrame, group: Group) -> FeatureTable:
    """Return the features of a worker's users, in the values and on the scale of all users."""
    table = FeatureTable(frame)
    kinds = {name: frame.schema[name] for name in (*table.categorical, *table.multivalued)}
    here = {
        name: frame[name].explode() if name in table.multivalued else frame[name] for name in kinds
    }
    distinct = {name: each.drop_nulls().unique().to_list() for name, each in here.items()}
    said = np.frombuffer((json.dumps(distinct) + "\n").encode(), dtype=np.uint8)
    lines = [json.loads(line) for line in group.gathered(said).tobytes().splitlines()]
    values = {
        name: Vocabulary.of(
            pl.Series(
                [each for line in lines for each in line[name]], dtype=getattr(kind, "inner", kind)
            )
        )
        for name, kind in kinds.items()
    }
    numbers = table.numbers().astype(np.float64)
    known = np.isfinite(numbers)
    n, total = group.total(np.stack([known.sum(0), np.where(known, numbers, 0).sum(0)]))
    n_known = np.maximum(n, 1)
    squares = group.total((np.where(known, numbers - total / n_known, 0) ** 2).sum(0))
    deviation = np.sqrt(squares / n_known)
    return FeatureTable(
        frame, OfAll(values, total / n_known, np.where(deviation > 0, deviation, 1))
    )


def _cuts(rows: pq.ParquetFile, n_users: int, n_shards: int) -> list[int]:
    """Return the first user of each shard, and the number of users, `[n_shards + 1]`."""
    n = rows.metadata.num_rows
    wanted = [n * shard // n_shards for shard in range(1, n_shards)]
    ends = np.cumsum([rows.metadata.row_group(g).num_rows for g in range(rows.num_row_groups)])
    cuts = [0]
    held, users = -1, np.empty(0)
    for row in wanted:
        group = int(np.searchsorted(ends, row, side="right"))
        if group != held:
            held = group
            users = rows.read_row_group(group, columns=["user"]).column("user").to_numpy()
        cuts.append(int(users[row - (ends[group - 1] if group else 0)]))
    return [*cuts, n_users]


def _rows_of(file: pq.ParquetFile, first: int, last: int) -> tuple[Any, slice]:
    """Return the rows of the users from `first` up to `last`, who ascend, and their places."""
    place = file.schema_arrow.names.index("user")
    groups, before = [], 0
    for number in range(file.num_row_groups):
        about = file.metadata.row_group(number)
        ends = about.column(place).statistics
        if ends.max < first:
            before += about.num_rows
        elif ends.min < last:
            groups.append(number)
    table = file.read_row_groups(groups)
    user = table.column("user").to_numpy()
    begin, end = np.searchsorted(user, [first, last])
    return table.slice(begin, end - begin), slice(before + int(begin), before + int(end))


def rows_at(file: pq.ParquetFile, rows: slice, columns: list[str] | None = None) -> Any:
    """Return some rows of a file by their places."""
    groups, first, before = [], 0, 0
    for number in range(file.num_row_groups):
        n = file.metadata.row_group(number).num_rows
        if before + n <= rows.start:
            first += n
        elif before < rows.stop:
            groups.append(number)
        before += n
    return file.read_row_groups(groups, columns=columns).slice(
        rows.start - first, rows.stop - rows.start
    )


def columns_of(table: Any) -> dict[str, Any]:
    """Return the columns of a table as arrays."""
    frame = pl.DataFrame(pl.from_arrow(table))
    return {
        name: frame[name].cast(TYPES[name]).to_physical().to_numpy()
        for name in frame.columns
        if name in TYPES
    }


def _shifted(table: Any, first: int) -> dict[str, Any]:
    """Return the columns of a log, with users counted from the worker's first."""
    wanted = [name for name in (*COLUMNS, *IMPRESSION_COLUMNS) if name in table.column_names]
    columns = columns_of(table.select(wanted))
    user: NDArray[np.int32] = columns["user"] - np.int32(first)
    return columns | {"user": user}
