"""Sample items that a user has not interacted with, exactly and without a loop.

Give every item an integer mass (1 for uniform sampling) and line a user's unseen items up by it. A
draw is a point on that line; the item under it is found by adding back the mass of the seen items
before it, with one binary search. Most draws need not go that far: an item drawn from all items
stands if the user has not seen it, and only the others are drawn again, a few times from all items,
then from the user's line. The distribution is the same (docs/decisions/0003). A bitmap of pairs
settles most lookups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.canonical import offsets_of
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions

_CHUNK = 1 << 15  # draws at a time: their intermediate arrays stay in the processor's cache
_BITS_A_PAIR = 32
_WINDOW = 19  # a user's pairs are hashed into so many bits, as an exponent of 2: 64 KiB
_BITMAP_CHUNK = 1 << 22
_TRIES = 3  # from all items, before a draw goes to the user's line of unseen ones
_HASH = np.uint64(0x9E3779B97F4A7C15)
_MASS = 1 << 52  # at most, when sampling is not uniform: the resolution of the probabilities
_LEAST_MASS = 1000  # below it, rounding would distort the probabilities


class NegativeSampler:
    """Draws items that a user does not have in the log it was made from.

    An exponent of 0 draws uniformly; above 0 an item is drawn with probability proportional to
    (events + 1) ** exponent, to within a thousandth.

    Example:
        >>> from counterplay.data.readers import read
        >>> sampler = NegativeSampler(read({"user": [0, 0, 1], "item": [0, 1, 2]}))
        >>> sampler.draw(np.array([0]), 2, np.random.default_rng(0))
        array([[2, 2]], dtype=int32)
    """

    def __init__(self, log: Interactions, *, exponent: float = 0.0) -> None:
        if not (np.isfinite(exponent) and exponent >= 0):
            raise ConfigError(
                f"the exponent of popularity must be a number of 0 or more; found {exponent}; "
                "give 0 for uniform negatives"
            )
        self.n_items, self._ids = log.n_items, log.users.ids
        self._pairs = log.distinct_pairs  # ascending user · n_items + item
        users = (self._pairs // self.n_items).astype(np.int32)
        items = (self._pairs - users.astype(np.int64) * self.n_items).astype(np.int32)
        self._offsets = offsets_of(users, log.n_users)
        self._cumulative = _cumulative_mass(log, exponent)  # [n_items + 1]; None when uniform
        if self._cumulative is None:
            start, mass, self._total = items.astype(np.int64), None, self.n_items
        else:
            start, mass = self._cumulative[items], np.diff(self._cumulative)[items]
            self._total = int(self._cumulative[-1])
            self._guide, self._guide_shift = _guide(self._cumulative)
        # For each seen item: the seen mass before it in the user's own line, and where it would
        # stand if only unseen items were lined up. Both begin anew with every user.
        running = np.zeros(len(items) + 1, dtype=np.int64)
        np.cumsum(np.ones_like(start) if mass is None else mass, out=running[1:])
        self._seen_before = running
        begins = running[self._offsets[:-1]]
        unseen_start = start - (running[:-1] - begins[users])
        self._keys = users.astype(np.int64) * (self._total + 1) + unseen_start
        self._free = self._total - (running[self._offsets[1:]] - begins)  # unseen mass, [n_users]
        self._bits = _Bitmap(self._pairs, self._offsets, self.n_items)

    def n_unseen(self, users: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return how many items each of `users` does not have in the log."""
        return np.asarray(self.n_items - np.diff(self._offsets)[users])

    def draw(
        self, users: NDArray[np.integer], n: int, rng: np.random.Generator
    ) -> NDArray[np.int32]:
        """Return `n` items for each of `users`, with replacement, `[len(users), n]`."""
        if len(users) and int(users.min()) < 0:
            raise DataError(
                "negatives need users that the log knows; found the index "
                f"{int(users.min())}; leave unknown users out"
            )
        full = self._free[users] <= 0
        if full.any():
            first = self._ids[int(users[full][0])]
            raise DataError(
                "a user must leave at least one item unseen to have negatives; found "
                f"{len(np.unique(users[full])):,} users who have seen all {self.n_items:,} items, "
                f"the first with id {first!r}; leave them out, or add items"
            )
        wanted = np.repeat(users.astype(np.int64), n)
        drawn = np.empty(len(wanted), dtype=np.int32)
        for begin in range(0, len(wanted), _CHUNK):
            chunk = wanted[begin : begin + _CHUNK]
            drawn[begin : begin + _CHUNK] = self._draw_chunk(chunk, rng)
        return drawn.reshape(len(users), n)

    def _draw_chunk(self, users: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        items = self._draw_any(len(users), rng)
        again = self._where_seen(users, items)
        for _ in range(_TRIES - 1):
            items[again] = self._draw_any(len(again), rng)
            again = again[self._where_seen(users[again], items[again])]
        items[again] = self._draw_unseen(users[again], rng)
        return items

    def _draw_any(self, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
        kind = np.int64 if self._total > np.iinfo(np.int32).max else np.int32
        return self._item_at(rng.integers(self._total, size=n, dtype=kind))

    def _draw_unseen(self, users: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw from each user's line of unseen items."""
        point = rng.integers(self._free[users])
        keys = users * (self._total + 1) + point
        passed = np.searchsorted(self._keys, keys, side="right")
        seen_before = self._seen_before[passed] - self._seen_before[self._offsets[users]]
        return self._item_at(point + seen_before)

    def _item_at(self, point: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the item under a point on the line of all items."""
        if self._cumulative is None:
            return point.astype(np.int32, copy=False)
        item = np.asarray(self._guide[point >> self._guide_shift])  # right, or a few items short
        short = np.flatnonzero(self._cumulative[item + 1] <= point)
        item[short] = np.searchsorted(self._cumulative, point[short], side="right") - 1
        return item

    def _where_seen(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.intp]:
        """Return the places of pairs that are in the log."""
        pairs = users * self.n_items + items
        suspects = self._bits.where(users, pairs)
        if self._bits.exact:
            return suspects
        candidates = pairs[suspects]
        place = np.minimum(np.searchsorted(self._pairs, candidates), len(self._pairs) - 1)
        return np.asarray(suspects[self._pairs[place] == candidates])


class _Bitmap:
    """A bit for every pair, or where that would take more room, one for every hashed pair.

    A user's pairs are hashed into a window that moves on with the pairs of the users before: who
    asks about users in their order stays in the processor's cache.
    """

    def __init__(self, pairs: NDArray[np.int64], offsets: NDArray[np.int64], n_items: int) -> None:
        n_users = len(offsets) - 1
        self.exact = n_users * n_items <= max(1024, _BITS_A_PAIR * len(pairs))
        self._begins = offsets[:-1] * _BITS_A_PAIR
        n_bits = n_users * n_items if self.exact else _BITS_A_PAIR * len(pairs) + (1 << _WINDOW)
        self._bits = np.zeros(n_bits // 8 + 1, dtype=np.uint8)
        for begin in range(0, len(pairs), _BITMAP_CHUNK):
            chunk = pairs[begin : begin + _BITMAP_CHUNK]
            byte, bit = self._place(chunk // n_items, chunk)
            np.bitwise_or.at(self._bits, byte, np.uint8(1) << bit)

    def where(self, users: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the places of pairs, of these users, whose bit is set."""
        byte, bit = self._place(users, pairs)
        is_set = (self._bits.take(byte) >> bit) & np.uint8(1)
        return np.flatnonzero(is_set.view(np.bool_))  # far sooner than of whole numbers

    def _place(
        self, users: NDArray[np.int64], pairs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        bits = pairs
        if not self.exact:
            hashed = (pairs.view(np.uint64) * _HASH) >> np.uint64(64 - _WINDOW)
            bits = self._begins[users] + hashed.view(np.int64)
        return bits >> 3, bits.astype(np.uint8) & np.uint8(7)


def _cumulative_mass(log: Interactions, exponent: float) -> NDArray[np.int64] | None:
    """Return where each item's mass begins on the line of all items, `[n_items + 1]`."""
    if exponent == 0:
        return None
    events = log.item_events
    logarithm = exponent * np.log(events + 1.0)
    share = np.exp(logarithm - logarithm.max())
    n_users = log.n_users if log.share is None else log.share.n_users
    total = min(_MASS, 2**61 // max(n_users, 1))  # user · (total + 1) must fit into int64
    mass = np.round(share / share.sum() * total)
    if mass.min() < _LEAST_MASS:
        raise ConfigError(
            "the exponent of popularity must leave the rarest item a chance that can be told from "
            f"0; found {exponent:g} with items of {int(events.min()):,} to {int(events.max()):,} "
            "events; lower it"
        )
    return np.concatenate([[0], np.cumsum(mass.astype(np.int64))])


def _guide(cumulative: NDArray[np.int64]) -> tuple[NDArray[np.int32], np.int64]:
    """Cut the line of all items into equal stretches; return the item at which each begins."""
    shift = max(0, int(cumulative[-1]).bit_length() - (8 * len(cumulative)).bit_length())
    begins = np.arange(0, int(cumulative[-1]), 1 << shift)
    items = np.searchsorted(cumulative, begins, side="right") - 1
    return items.astype(np.int32), np.int64(shift)
