"""Rows of some users of a dataset directory: nothing else of its large files is kept.

A file is compared with its digest as a stream, once a process. Row groups are decoded one at a
time, and of each of them only the rows of the users who are wanted stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from counterplay.data.canonical import ranges
from counterplay.data.directory import REMEDY, SPLIT, UNCLICKED, describe
from counterplay.data.features import FeatureTable, OfAll
from counterplay.data.files import check_once
from counterplay.data.interactions import Interactions
from counterplay.data.shares import columns_of, rows_at
from counterplay.data.splits import TRAIN
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_ROWS, _USERS, _ITEMS = "interactions.parquet", "users.parquet", "items.parquet"
_COLUMNS = "user", "item"


@dataclass(frozen=True, slots=True, eq=False)
class UserRows:
    """The rows of some users, who are numbered anew; users and items have numbers for ids.

    Attributes:
        log: Users and items alone.
        part: The part of each row.
        unclicked: Their impressions without a click, where these were wanted.
        unclicked_part: The part of each of them.
    """

    log: Interactions
    part: NDArray[np.int8]
    unclicked: Interactions | None = None
    unclicked_part: NDArray[np.int8] | None = None

    @property
    def train(self) -> Interactions:
        """Rows that were learnt from."""
        return self.before(TRAIN + 1)

    def before(self, part: int) -> Interactions:
        """Return the rows before a part; before 3 are all."""
        return self.log.take(self.part < part)

    def undivided(self) -> UserRows:
        """Return the same rows, all in training."""
        unclicked = None if self.unclicked_part is None else np.zeros_like(self.unclicked_part)
        return replace(self, part=np.zeros_like(self.part), unclicked_part=unclicked)


class Checked:
    """A dataset directory that is as it was, with the fingerprints of its log and of its split."""

    def __init__(self, directory: str | Path, prints: tuple[str, str]) -> None:
        self.folder, self._about = Path(directory), describe(directory)
        split = self._about["split"] or {}
        if (self._about["fingerprint"], split.get("fingerprint")) != prints:
            raise DataError(
                f"the data must stay as they are while candidates are ranked; found '{directory}' "
                "changed; give the same command again"
            )
        self.n_users: int = self._about["counts"]["users"]
        self.n_items: int = self._about["counts"]["items"]

    def rows(self, users: NDArray[np.integer], *, unclicked: bool = False) -> UserRows:
        """Return the rows of `users`, who ascend; the first of them becomes user 0."""
        names = Vocabulary(pl.Series(users.astype(np.int64))), numbers(self.n_items)
        found = list(_rows_of(self._file(_ROWS), users, _COLUMNS))
        split = self._file(SPLIT)
        parts = [columns_of(rows_at(split, rows))["part"][own] for rows, own, _ in found]
        log = Interactions(*names, *_columns([each for *_, each in found], users))
        part = np.concatenate([np.empty(0, np.int8), *parts])
        if not unclicked or not (self.folder / UNCLICKED).exists():
            return UserRows(log, part)
        others = [each for *_, each in _rows_of(self._file(UNCLICKED), users, (*_COLUMNS, "part"))]
        shown = Interactions(*names, *_columns(others, users))
        shown_part = np.concatenate([np.empty(0, np.int8), *(each["part"] for each in others)])
        return UserRows(log, part, shown, shown_part)

    def nobody(self) -> Interactions:
        """Return a log without users: all items, with what is known of them."""
        of_users = pl.DataFrame(self._file(_USERS).schema_arrow.empty_table()).drop("id")
        items = self._file(_ITEMS)
        told = [name for name in items.schema_arrow.names if name != "id"]
        of_items = pl.DataFrame(pl.from_arrow(items.read(columns=told))) if told else None
        none = np.empty(0, dtype=np.int32)
        return Interactions(
            numbers(0),
            numbers(self.n_items),
            none,
            none,
            user_features=_of_nobody(of_users) if of_users.width else None,
            item_features=None if of_items is None else FeatureTable(of_items),
        )

    def _file(self, name: str) -> pq.ParquetFile:
        check_once(self.folder / name, self._about["files"], remedy=REMEDY)
        return pq.ParquetFile(self.folder / name)


def numbers(n: int) -> Vocabulary:
    """Return a vocabulary in which an id is its own index."""
    return Vocabulary(pl.Series(np.arange(n)))


def _rows_of(
    file: pq.ParquetFile, users: NDArray[np.integer], names: Sequence[str]
) -> Iterator[tuple[slice, NDArray[np.int64], dict[str, NDArray[Any]]]]:
    """Yield for each row group with rows of the users its place, theirs in it, and their columns.

    The first column is that of users, ascending.
    """
    place, before = file.schema_arrow.names.index("user"), 0
    for number in range(file.num_row_groups):
        about = file.metadata.row_group(number)
        rows = slice(before, before := before + about.num_rows)
        ends = about.column(place).statistics
        first, last = np.searchsorted(users, [ends.min, ends.max + 1])
        if first == last:
            continue
        columns = columns_of(file.read_row_group(number, columns=list(names)))
        begins, stops = (
            np.searchsorted(columns["user"], users[first:last], side) for side in ("left", "right")
        )
        own = ranges(begins, stops)
        if len(own):
            yield rows, own, {name: columns[name][own] for name in names}


def _columns(
    found: Sequence[dict[str, NDArray[Any]]], users: NDArray[np.integer]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return users, numbered anew, and items."""
    none = np.empty(0, dtype=np.int32)
    user, item = (np.concatenate([none, *(each[name] for each in found)]) for name in _COLUMNS)
    return np.searchsorted(users, user).astype(np.int32), item


def _of_nobody(frame: pl.DataFrame) -> FeatureTable:
    """Return features of no user, which can be asked for their scale."""
    table = FeatureTable(frame)
    kinds = {name: frame.schema[name] for name in (*table.categorical, *table.multivalued)}
    values = {
        name: Vocabulary(pl.Series([], dtype=getattr(kind, "inner", kind)))
        for name, kind in kinds.items()
    }
    n = len(table.numeric)
    return FeatureTable(frame, OfAll(values, np.zeros(n), np.ones(n)))
