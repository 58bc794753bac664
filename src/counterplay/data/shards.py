"""Ranges of users, each by itself: its vocabulary, its order, its filters, its parts.

Filters ask how often an item occurs in the whole log. Each range counts its items, the counts are
added up, and a mask of items goes back to all ranges. What a range keeps depends on its rows and
on the masks alone, so nothing but the masks is handed from round to round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.canonical import canonical_order, offsets_of
from counterplay.data.filters import (
    Duplicates,
    count_repeats,
    count_tied,
    first_or_last,
    usual_users,
)
from counterplay.data.parts import (
    TRAIN,
    count_ties,
    last_two,
    pair_groups,
    time_parts,
)
from counterplay.data.vocabulary import Vocabulary
from counterplay.data.workplace import File, PlacedJob, Slice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.jobs import Result
    from counterplay.data.workplace import Workplace

Columns = dict[str, "NDArray[Any]"]


class OrderShard(PlacedJob):
    """Put the rows of a range together, in canonical order, without repetitions and low ratings."""

    shard: int
    slices: tuple[tuple[int, Slice], ...]  # of the pieces that have rows of it
    items: str  # digest
    duplicates: Duplicates
    threshold: float | None

    @property
    def label(self) -> str:
        """Its number."""
        return f"order/{self.shard:05}"

    def run(self, place: Workplace) -> Result:
        """Write the rows, the users, and how often each item occurs."""
        users, columns = self._gathered(place)
        items = place.vocabulary("items", self.items)
        order = canonical_order(columns, users, items)
        columns = _taken(columns, order)
        found: Result = {"rows": len(columns["user"]), "users": len(users), "tied": 0}
        pair = _pairs(columns, len(items))
        found["repeats"] = count_repeats(pair.copy())
        if found["repeats"] and self.duplicates in ("first", "last"):
            found["tied"] = count_tied(dict(columns))
            columns = _taken(columns, first_or_last(pair, self.duplicates))
        found["distinct"] = len(columns["user"])
        if self.threshold is not None:
            rating = columns["rating"]
            found["highest"] = float(rating.max())
            columns = _taken(columns, rating >= np.float32(self.threshold))
            del columns["rating"]
        number = f"{self.shard:05}"
        counts = np.bincount(columns["item"], minlength=len(items))
        found["kept"] = len(columns["user"])
        found["first_user"] = users.ids[0]
        found["files"] = {
            "rows": place.put(f"shard-{number}", columns),
            "users": place.put(f"shard-users-{number}", {"id": users.ids}),
        }
        name = f"shard-items-{number}"
        found["items"] = (name, place.put(name, _occurring(counts)))
        return found

    def _gathered(self, place: Workplace) -> tuple[Vocabulary, Columns]:
        """Return the rows of all pieces, in any order, and the users of the range."""
        ids, rows = [], []
        for piece, where in self.slices:
            mentioned, frame = place.take_slice(f"cut-{piece:05}", where)
            ids.append(mentioned["id"])
            rows.append({column.name: column.to_numpy() for column in frame})
        everyone = pl.concat(ids)
        users = Vocabulary.of(everyone)
        index = users.encode(everyone)
        begin = 0
        for some, columns in zip(ids, rows, strict=True):
            columns["user"] = index[begin : begin + len(some)][columns["user"]]
            begin += len(some)
        names = list(rows[0])
        return users, {name: np.concatenate([each.pop(name) for each in rows]) for name in names}


def _taken(columns: Columns, rows: NDArray[Any] | None) -> Columns:
    """Return some rows, or all in another order; None are all as they are."""
    return columns if rows is None else {name: each[rows] for name, each in columns.items()}


def _pairs(columns: Columns, n_items: int) -> NDArray[np.int64]:
    pairs: NDArray[np.int64] = columns["user"].astype(np.int64) * n_items + columns["item"]
    return pairs


def _occurring(*counts: NDArray[np.int64]) -> Columns:
    """Return the items that occur, and how often, as columns."""
    items = np.flatnonzero(sum(counts))
    return {"item": items} | {f"n{place}": each[items] for place, each in enumerate(counts)}


class Kept(PlacedJob):
    """A job on the rows of a range that filters keep.

    Items that the first mask allows are kept, then users within bounds on what is left; then the
    same for the second mask, of a k-core. None is no filter.
    """

    shard: int
    rows: str  # digest
    n_users: int
    n_items: int
    masks: tuple[File | None, File | None] = (None, None)
    users_above: int = 0
    users_below: int | None = None
    core: int = 0

    @property
    def number(self) -> str:
        """By which files are named."""
        return f"{self.shard:05}"

    def kept(self, place: Workplace) -> Columns:
        """Return the rows that the filters keep."""
        columns = place.columns(f"shard-{self.number}", self.rows)
        bounds = ((self.users_above, self.users_below), (self.core - 1, None))
        for mask, (above, below) in zip(self.masks, bounds, strict=True):
            if mask is not None:
                user, keep = columns["user"], place.columns(*mask)["kept"][columns["item"]]
                keep &= usual_users(user[keep], self.n_users, above, below)[user]
                columns = _taken(columns, keep)
        return columns


class CountShard(Kept):
    """Count how often each item occurs among the rows that filters keep."""

    @property
    def label(self) -> str:
        """Its number."""
        return f"count/{self.number}"

    def run(self, place: Workplace) -> Result:
        """Write the counts."""
        columns = self.kept(place)
        counts = np.bincount(columns["item"], minlength=self.n_items)
        name = f"count-{self.number}-{self.key[-10:]}"
        users = int(np.count_nonzero(np.bincount(columns["user"], minlength=self.n_users)))
        digest = place.put(name, _occurring(counts))
        return {"rows": len(columns["item"]), "users": users, "items": (name, digest)}


class MeasureShard(Kept):
    """Count the pairs of a range, or sort its times."""

    times: bool

    @property
    def label(self) -> str:
        """Its number."""
        return f"measure/{self.number}"

    def run(self, place: Workplace) -> Result:
        """Return how many rows and pairs there are; write the times if they are wanted."""
        columns = self.kept(place)
        if self.times:
            name = f"times-{self.number}"
            digest = place.put_array(name, np.sort(columns["time"]))
            return {"rows": len(columns["time"]), "times": (name, digest)}
        pairs = _pairs(columns, self.n_items)
        n_pairs = len(pairs) - count_repeats(pairs)
        return {"rows": len(pairs), "pairs": n_pairs}


class PartShard(Kept):
    """Give every row of a range its part, and users and items their numbers among those kept."""

    users: str  # digest
    mask: File | None = None  # of the items that are kept in the end
    split: str = "none"
    moments: tuple[int, int] = (0, 0)
    drawn: Slice | None = None  # parts of its pairs

    @property
    def label(self) -> str:
        """Its number."""
        return f"part/{self.number}"

    def run(self, place: Workplace) -> Result:
        """Write the rows and the users as they stay, and how often each item is in each part."""
        columns, n_items = self.kept(place), self.n_items
        ids = place.take(f"shard-users-{self.number}", self.users)["id"]
        found: Result = {"rows": len(columns["user"])}
        if self.mask is not None:  # else all stay: an item that nobody liked is still there
            present = np.bincount(columns["user"], minlength=self.n_users) > 0
            ids = ids.filter(pl.Series(present))
            columns["user"] = _renumbered(present)[columns["user"]]
            present = place.columns(*self.mask)["kept"]
            columns["item"] = _renumbered(present)[columns["item"]]
            n_items = int(present.sum())
        part = self._parts(place, columns, ids, n_items, found)
        if part is not None:
            item = columns["item"]
            counts = [np.bincount(item[part == each], minlength=n_items) for each in range(3)]
            trained = np.bincount(columns["user"][part == TRAIN], minlength=len(ids)) > 0
            cold = part[~trained[columns["user"]]]
            found["counts"] = [int((part == each).sum()) for each in range(3)]
            found["cold"] = [int((cold == each).sum()) for each in range(3)]
            columns["part"] = part
            name = f"part-items-{self.number}"
            found["items"] = (name, place.put(name, _occurring(*counts)))
        found["users"] = len(ids)
        found["files"] = {
            "rows": place.put(f"part-{self.number}", columns),
            "users": place.put(f"part-users-{self.number}", {"id": ids}),
        }
        return found

    def _parts(
        self, place: Workplace, columns: Columns, ids: pl.Series, n_items: int, found: Result
    ) -> NDArray[np.int8] | None:
        """Return the part of each row, None without a split; note what is to be known of it."""
        if self.split == "leave-last-two":
            offsets = offsets_of(columns["user"], len(ids))
            part, ends = last_two(offsets)
            if "time" in columns:
                found["ties"] = count_ties(columns["time"], ends)
            short = ids.filter(pl.Series(np.diff(offsets) < 3))
            found |= {"short": len(short), "named": short.head(5).to_list()}
            return part
        if self.split == "time":
            return time_parts(columns["time"], *self.moments)
        if self.split == "random" and self.drawn is not None:
            order, group = pair_groups(_pairs(columns, n_items))
            part = np.empty(len(group), dtype=np.int8)
            if len(group):
                drawn = place.take_slice("drawn", self.drawn)[0]["part"].to_numpy()
                part[slice(None) if order is None else order] = drawn[group]
            return part
        return None


def _renumbered(present: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the number of each that is present among those."""
    return np.cumsum(present, dtype=np.int32) - np.int32(1)
