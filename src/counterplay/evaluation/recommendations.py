"""The k best unseen items of many users, streamed to Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from counterplay.data.publishing import new_file
from counterplay.errors import ConfigError
from counterplay.evaluation.ranks import MEMORY, hide, with_all_scores

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.formats import Progress
    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.scoring import Scores

Lists = tuple["NDArray[np.int32]", "NDArray[np.floating]"]


def top_k(
    scores: Scores,
    users: NDArray[np.integer],
    seen: Interactions,
    k: int,
    *,
    memory: int = MEMORY,
) -> Lists:
    """Return the `k` best unseen items of each of `users` and their scores, both `[B, k]`.

    The best comes first; equal scores stand in the order of the items. Where fewer than `k` items
    are unseen or scored, the rest is −1 with the score −inf.
    """
    parts = list(_parts(scores, users, seen, k, memory))
    if not parts:
        return np.empty((0, k), dtype=np.int32), np.empty((0, k), dtype=np.float32)
    items, found = zip(*parts, strict=True)
    return np.concatenate(items), np.concatenate(found)


def write_top_k(
    path: Path,
    scores: Scores,
    users: NDArray[np.integer],
    seen: Interactions,
    k: int,
    *,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> None:
    """Write the lists as they come: columns user, item (original ids), rank and score.

    `progress` is called with the number of users done so far, and of all.
    """
    writer: pq.ParquetWriter | None = None
    begin = 0
    with new_file(path) as beside:
        for items, found in _parts(scores, users, seen, k, memory):
            table = _rows(users[begin : begin + len(items)], items, found, seen).to_arrow()
            begin += len(items)
            writer = writer or pq.ParquetWriter(beside, table.schema, compression="zstd")
            writer.write_table(table)
            if progress:
                progress(begin, len(users))
        if writer is None:
            none = np.empty((0, k))
            _rows(users, none.astype(np.int32), none, seen).write_parquet(beside)
        else:
            writer.close()


def _rows(
    users: NDArray[np.integer],
    items: NDArray[np.int32],
    found: NDArray[np.floating],
    seen: Interactions,
) -> pl.DataFrame:
    row, place = np.nonzero(items >= 0)
    return pl.DataFrame(
        {
            "user": seen.users.decode(users[row]),
            "item": seen.items.decode(items[row, place]),
            "rank": (place + 1).astype(np.int32),
            "score": found[row, place],
        }
    )


def _parts(
    scores: Scores, users: NDArray[np.integer], seen: Interactions, k: int, memory: int
) -> Iterator[Lists]:
    if k < 1:
        raise ConfigError(f"k must be 1 or more; found {k}; raise it")

    def best(part: slice, found: NDArray[np.floating]) -> Lists:
        hide(found, users[part], seen)
        found[np.isnan(found)] = -np.inf
        return _best(found, k)

    for _, lists in with_all_scores(best, scores, users, seen.n_items, memory):
        yield lists


def _best(found: NDArray[np.floating], k: int) -> Lists:
    """Return the k largest of each row in order; the lower index first among equals."""
    n = found.shape[1]
    kept = min(k, n)
    if kept < n:
        least = np.partition(found, n - kept, axis=1)[:, n - kept, None]
        # All above the k-th value are in; of those equal to it, the first ones fill up.
        above, equal = found > least, found == least
        room = kept - np.count_nonzero(above, axis=1)[:, None]
        chosen = above | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= room))
        items = np.nonzero(chosen)[1].reshape(len(found), kept)
    else:
        items = np.broadcast_to(np.arange(n), found.shape)
    values = np.take_along_axis(found, items, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    lists = np.full((len(found), k), -1, dtype=np.int32)
    best = np.full((len(found), k), -np.inf, dtype=found.dtype)
    best[:, :kept] = np.take_along_axis(values, order, axis=1)
    lists[:, :kept] = np.take_along_axis(items, order, axis=1)
    lists[best == -np.inf] = -1
    return lists, best
