"""The k best unseen items of many users, in memory or streamed to a file.

A list that is shown has an order, so equal scores stand in that of the items, or in one that is
given. What a list is worth on average over all orders of ties is `relevance_by_place`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.writing import write_tables
from counterplay.errors import ConfigError
from counterplay.metrics.blocks import BLOCK, Elsewhere, block_scores, blocks_of
from counterplay.metrics.ranks import MEMORY, checked, hide, in_parts, with_all_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.formats import Progress
    from counterplay.data.interactions import Interactions
    from counterplay.metrics.arrays import Doubles, Flags, Floats, Integers
    from counterplay.metrics.scoring import Scores

Lists = tuple["NDArray[np.int32]", "Floats"]


def top_k(
    scores: Scores,
    users: Integers,
    seen: Interactions,
    k: int,
    *,
    ties: Callable[[Integers], Floats] | None = None,
    memory: int = MEMORY,
) -> Lists:
    """Return the `k` best unseen items of each of `users` and their scores, both `[B, k]`.

    The best comes first. Where fewer than `k` items are unseen or scored, the rest is −1 with the
    score −inf. Equal scores stand in the order of the items, or of `ties`: numbers of all items for
    some users, `[B] → [B, n_items]`, of which the larger comes first. `memory` is in bytes.
    """
    parts = list(_parts(scores, users, seen, k, memory, ties))
    none = np.empty((0, max(k, 0)), dtype=np.int32)
    items, found = zip(*(parts or [(none, none.astype(np.float32))]), strict=True)
    return np.concatenate(items), np.concatenate(found)


def relevance_by_place(
    scores: Scores,
    relevance: Scores,
    users: Integers,
    seen: Interactions,
    k: int,
    *,
    memory: int = MEMORY,
    progress: Callable[[int], None] = lambda _: None,
) -> Doubles:
    """Return the mean relevance of what the first `k` places of each user's list hold, `[B, k]`.

    The mean is over all orders of equal scores: each place of a tie holds the mean relevance of
    all that ties, on the list or not. It is 0 where a list has ended. `progress` is called with the
    number of users so far.
    """
    means = np.zeros((len(users), k))

    def fill(part: slice, found: Floats) -> None:
        whose = users[part]
        items, best = _best(_candidates(found, whose, seen), k)
        means[part] = np.where(items < 0, 0, relevance.of(whose, np.maximum(items, 0)))
        tied, cut = _ties(found, best)
        rows = np.flatnonzero(tied)
        means[part][rows] = _mean_of_runs(means[part][rows], best[rows])
        rows = np.flatnonzero(cut)
        if len(rows):
            last = best[rows, -1:]
            equal = found[rows] == last
            total = np.where(equal, relevance.of_all(whose[rows]), 0).sum(1)
            mean = (total / np.count_nonzero(equal, axis=1))[:, None]
            means[part][rows] = np.where(best[rows] == last, mean, means[part][rows])

    for part, _ in with_all_scores(fill, scores, users, seen.n_items, memory):
        progress(part.stop)
    return means


def write_top_k(
    path: Path,
    scores: Scores,
    users: Integers,
    seen: Interactions,
    k: int,
    *,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> None:
    """Write the lists as they come: CSV, NDJSON or Parquet, as the name's ending says."""
    write_tables(path, listed(scores, users, seen, k, memory=memory, progress=progress))


def listed(
    scores: Scores,
    users: Integers,
    seen: Interactions,
    k: int,
    *,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield the lists as they come, one table or more: user, item (original ids), rank and score.

    `progress` is called with the number of users done so far, and of all.
    """
    begin = 0
    for items, found in _parts(scores, users, seen, k, memory, None):
        yield _rows(users[begin : begin + len(items)], items, found, seen)
        begin += len(items)
        if progress:
            progress(begin, len(users))
    if not begin:
        none = np.empty((0, k), dtype=np.int32)
        yield _rows(users, none, none.astype(np.float32), seen)


def _rows(
    users: Integers, items: NDArray[np.int32], found: Floats, seen: Interactions
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
    scores: Scores,
    users: Integers,
    seen: Interactions,
    k: int,
    memory: int,
    ties: Callable[[Integers], Floats] | None,
) -> Iterator[Lists]:
    if k < 1:
        raise ConfigError(f"k must be 1 or more; found {k}; raise it")
    if ties is None:
        yield from lists_of(scores, users, seen, k, memory=memory)
        return

    def best(part: slice, found: Floats) -> Lists:
        items, values = _best(_candidates(found, users[part], seen), k)
        tied, cut = _ties(found, values)
        rows = np.flatnonzero(tied | cut)
        if len(rows):
            items[rows], values[rows] = _best(found[rows], k, ties(users[part][rows]))
        return items, values

    for _, lists in with_all_scores(best, scores, users, seen.n_items, memory):
        yield lists


def lists_of(
    scores: Scores,
    users: Integers,
    seen: Interactions,
    k: int,
    *,
    memory: int = MEMORY,
    at_once: int | None = None,
    block: int = BLOCK,
) -> Iterator[Lists]:
    """Yield the `k` best unseen items of `users` and their scores, some users at a time.

    A model is asked for `at_once` users and a `block` of items; the best of blocks are merged.
    """
    if isinstance(scores, Elsewhere):
        yield from scores.lists(users, seen, k, memory)
        return

    def best(part: slice, asked: Integers) -> Lists:
        whose, lists = users[part], None
        for some in blocks_of(seen.n_items, block):
            found = checked(block_scores(scores, asked, some, seen.n_items)[: len(whose)])
            items, values = _best(_candidates(found, whose, seen, some.start), k)
            items[items >= 0] += some.start
            lists = (items, values) if lists is None else _merged(lists, (items, values), k)
        assert lists is not None  # there is a block, if only an empty one
        return lists

    for _, lists in in_parts(best, users, min(block, seen.n_items), memory, at_once):
        yield lists


def _merged(first: Lists, second: Lists, k: int) -> Lists:
    """Return the k best of two lists; of equal scores the first list has the lower items."""
    items, values = (np.concatenate(both, axis=1) for both in zip(first, second, strict=True))
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(items, order, axis=1), np.take_along_axis(values, order, axis=1)


def _candidates(found: Floats, users: Integers, seen: Interactions, first: int = 0) -> Floats:
    """Put what the users have seen behind everything."""
    hide(found, users, seen, first)
    found[np.isnan(found)] = -np.inf
    return found


def _ties(found: Floats, best: Floats) -> tuple[Flags, Flags]:
    """Tell whose list holds equal scores, and whose ends amid some, `[B]` each."""
    last = best[:, -1:]
    within = ((best[:, 1:] == best[:, :-1]) & (best[:, 1:] > -np.inf)).any(axis=1)
    n_equal, n_kept = (np.count_nonzero(each == last, axis=1) for each in (found, best))
    return within, (n_equal > n_kept) & (last[:, 0] > -np.inf)


def _mean_of_runs(values: Doubles, scores: Floats) -> Doubles:
    """Return each value's mean over the run of equal scores that it is in, row by row."""
    begins = np.ones(scores.shape, dtype=np.bool_)
    begins[:, 1:] = scores[:, 1:] != scores[:, :-1]
    run = np.cumsum(begins).reshape(scores.shape) - 1
    sums, counts = np.bincount(run.ravel(), values.ravel()), np.bincount(run.ravel())
    means: Doubles = (sums / counts)[run]
    return means


def _best(found: Floats, k: int, numbers: Floats | None = None) -> Lists:
    """Return the k largest of each row in order; among equals those of the larger number.

    Without numbers the lower index comes first.
    """
    n = found.shape[1]
    kept = min(k, n)
    if kept < n:
        least = np.partition(found, n - kept, axis=1)[:, n - kept, None]
        # All above the k-th value are in; of those equal to it, the first ones fill up.
        above, equal = found > least, found == least
        if numbers is None:
            room = kept - np.count_nonzero(above, axis=1)[:, None]
            chosen = above | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= room))
            items = np.nonzero(chosen)[1].reshape(len(found), kept)
        else:
            wanted = np.where(above, np.inf, np.where(equal, numbers, -np.inf))
            items = np.argpartition(wanted, n - kept, axis=1)[:, n - kept :]
    else:
        items = np.broadcast_to(np.arange(n), found.shape)
    values = np.take_along_axis(found, items, axis=1)
    order = (
        np.argsort(-values, axis=1, kind="stable")
        if numbers is None
        else np.lexsort((-np.take_along_axis(numbers, items, axis=1), -values), axis=1)
    )
    lists = np.full((len(found), k), -1, dtype=np.int32)
    best = np.full((len(found), k), -np.inf, dtype=found.dtype)
    best[:, :kept] = np.take_along_axis(values, order, axis=1)
    lists[:, :kept] = np.take_along_axis(items, order, axis=1)
    lists[best == -np.inf] = -1
    return lists, best
