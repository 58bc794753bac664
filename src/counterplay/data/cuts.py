"""From pieces of files to ranges of users: all items, where ranges are cut, and the cutting."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.pieces import N_SAMPLED
from counterplay.data.workplace import PlacedJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from counterplay.data.jobs import Result
    from counterplay.data.workplace import Workplace


class MergePieces(PlacedJob):
    """Find all items, and the users at whom ranges of about as many rows begin."""

    pieces: tuple[tuple[int, int, str, str], ...]  # number, rows, digests of items and sample
    shards: int
    user_text: bool
    item_text: bool

    @property
    def label(self) -> str:
        """There is one."""
        return "merge"

    def run(self, place: Workplace) -> Result:
        """Write the items and the cuts, both ascending."""
        items = pl.Series("id", [], dtype=pl.String if self.item_text else pl.Int64)
        samples, weights = [], []
        for number, n_rows, digest, sampled in self.pieces:
            ids = place.take(f"items-{number:05}", digest)["id"]
            items = pl.concat([items, in_kind(ids, self.item_text)]).unique()
            ids = place.take(f"sample-{number:05}", sampled)["id"]
            samples.append(in_kind(ids, self.user_text))
            weights.append(np.full(N_SAMPLED, n_rows / N_SAMPLED))
        items = items.sort()
        users = pl.DataFrame({"id": pl.concat(samples), "rows": np.concatenate(weights)})
        cuts = cuts_of(users, self.shards)
        return {
            "items": len(items),
            "first_item": items[0],
            "shards": len(cuts) + 1,
            "files": {
                "items": place.put("items", {"id": items}),
                "cuts": place.put("cuts", {"id": cuts}),
            },
        }


def cuts_of(sample: pl.DataFrame, shards: int) -> pl.Series:
    """Return the ids at which the second and later ranges begin, none of them empty.

    Example:
        >>> users = pl.DataFrame({"id": [7, 1, 5, 5], "rows": [2.0, 1.0, 100.0, 200.0]})
        >>> cuts_of(users, 8).to_list()
        [5, 7]
    """
    found = sample.group_by("id").agg(pl.col("rows").sum()).sort("id")
    ends = found["rows"].cum_sum().to_numpy()
    begins = ends - found["rows"].to_numpy()  # rows before each id
    wanted = np.arange(1, shards) * ends[-1] / shards
    after = np.minimum(np.searchsorted(begins, wanted), len(begins) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(wanted - begins[before] < begins[after] - wanted, before, after)
    return found["id"].gather(np.unique(nearest[nearest > 0]))


def in_kind(ids: pl.Series, text: bool) -> pl.Series:
    """Return ids as text where other files without types have some that are no numbers."""
    return ids.cast(pl.String) if text else ids


class CutPiece(PlacedJob):
    """Cut the rows of a piece into ranges of users, with the items' numbers in the whole log."""

    piece: int
    rows: str  # digests, here and below
    users: str
    items: str
    all_items: str
    cuts: str
    user_text: bool
    item_text: bool
    from_zero: bool  # whether 1 is added to positions

    @property
    def label(self) -> str:
        """Its number."""
        return f"cut/{self.piece:05}"

    def run(self, place: Workplace) -> Result:
        """Write a slice a range: the users that the piece has in it, and their rows."""
        number = f"{self.piece:05}"
        columns = place.columns(f"rows-{number}", self.rows)
        users = place.take(f"users-{number}", self.users)["id"]
        items = in_kind(place.take(f"items-{number}", self.items)["id"], self.item_text)
        columns["item"] = place.vocabulary("items", self.all_items).encode(items)[columns["item"]]
        if self.user_text and users.dtype != pl.String:
            users = in_kind(users, self.user_text)
            order = users.arg_sort().to_numpy()
            users, new_index = users.gather(order), np.empty(len(order), dtype=np.int32)
            new_index[order] = np.arange(len(order), dtype=np.int32)
            columns["user"] = new_index[columns["user"]]
        if self.from_zero:
            columns["position"] = columns["position"] + np.int16(1)
        cuts = place.take("cuts", self.cuts)["id"]
        bounds = [0, *(bisect_left(users, cut) for cut in cuts), len(users)]
        range_of = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))[
            columns["user"]
        ]
        counts = np.bincount(range_of, minlength=len(bounds) - 1)
        order = np.argsort(range_of, kind="stable")
        for name in columns:
            columns[name] = columns[name][order]
        slices = place.put_slices(f"cut-{number}", _slices(columns, users, bounds, counts))
        return {"rows": counts.tolist(), "slices": slices}


def _slices(
    columns: dict[str, NDArray[np.generic]],
    users: pl.Series,
    bounds: list[int],
    counts: NDArray[np.int64],
) -> Iterator[tuple[pl.DataFrame, ...]]:
    """Yield the users and the rows of each range, if any; users count from 0 in each."""
    ends = np.cumsum(counts)
    for place, end in enumerate(ends):
        if not counts[place]:
            yield ()
            continue
        rows = slice(int(end - counts[place]), int(end))
        some = {name: column[rows] for name, column in columns.items()}
        some["user"] = some["user"] - np.int32(bounds[place])  # type: ignore[operator]
        yield users[bounds[place] : bounds[place + 1]].to_frame("id"), pl.DataFrame(some)
