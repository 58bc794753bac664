"""Jobs that look at all ranges of users at once: counts of items, moments, and a draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.parts import Fractions, drawn_parts, time_places
from counterplay.data.workplace import File, PlacedJob
from counterplay.errors import ConfigError
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.jobs import Result
    from counterplay.data.workplace import Workplace

MOST_PAIRS = 1 << 28  # of one draw: 8 bytes each are 2 GiB


class TallyItems(PlacedJob):
    """Add up how often each item occurs, and allow those with more than `above` rows."""

    counts: tuple[File, ...]
    n_items: int
    above: int

    @property
    def label(self) -> str:
        """Its rule."""
        return f"tally/{self.above}"

    def run(self, place: Workplace) -> Result:
        """Write the mask; return how many items occur, how many stay, and how many are too rare."""
        counts = np.zeros(self.n_items, dtype=np.int64)
        for file in self.counts:
            found = place.columns(*file)
            counts[found["item"]] += found["n0"]
        allowed = counts > self.above
        name, present = f"mask-{self.key[-10:]}", int(np.count_nonzero(counts))
        rare = present - int(np.count_nonzero(allowed))
        return {"items": present, "rare": rare, "mask": (name, place.put(name, {"kept": allowed}))}


class CountCold(PlacedJob):
    """Count the held-out rows whose item has no training row."""

    counts: tuple[File, ...]
    n_items: int

    @property
    def label(self) -> str:
        """There is one."""
        return "cold"

    def run(self, place: Workplace) -> Result:
        """Return the number of rows of each part."""
        trained = np.zeros(self.n_items, dtype=np.bool_)
        for file in self.counts:
            found = place.columns(*file)
            trained[found["item"][found["n0"] > 0]] = True
        cold = np.zeros(3, dtype=np.int64)
        for file in self.counts:
            found = place.columns(*file)
            untrained = ~trained[found["item"]]
            cold += [int(found[f"n{part}"][untrained].sum()) for part in range(3)]
        return {"cold": cold.tolist()}


class SelectMoments(PlacedJob):
    """Find the moments at which validation and test begin, so that each has its share of rows."""

    times: tuple[File, ...]
    fractions: Fractions

    @property
    def label(self) -> str:
        """There is one."""
        return "moments"

    def run(self, place: Workplace) -> Result:
        """Return the two moments."""
        times = [place.map_array(*file) for file in self.times]
        n_rows = sum(map(len, times))
        return {"moments": [nth(times, n) for n in time_places(n_rows, self.fractions)]}


def nth(ascending: Sequence[NDArray[np.int64]], n: int) -> int:
    """Return the n-th smallest number of ascending arrays; after the last, one more than that.

    Example:
        >>> [nth([np.array([1, 5]), np.array([2, 2])], n) for n in range(5)]
        [1, 2, 2, 5, 6]
    """
    some = [each for each in ascending if len(each)]
    low, high = min(int(each[0]) for each in some), max(int(each[-1]) for each in some) + 1
    while low < high:
        middle = (low + high) // 2
        if sum(int(np.searchsorted(each, middle, side="right")) for each in some) > n:
            high = middle
        else:
            low = middle + 1
    return low


class DrawParts(PlacedJob):
    """Draw the part of every pair, as one machine does: by one permutation of all of them."""

    pairs: tuple[int, ...]  # of each range
    fractions: Fractions
    seed: int

    @property
    def label(self) -> str:
        """There is one."""
        return "draw"

    def run(self, place: Workplace) -> Result:
        """Write the parts, a slice a range."""
        n_pairs = sum(self.pairs)
        if n_pairs > MOST_PAIRS:
            raise ConfigError(
                f"a split at random draws one permutation of all pairs in memory, of at most "
                f"{MOST_PAIRS:,}; found {n_pairs:,} pairs; split by time or leave-last-two"
            )
        parts = drawn_parts(n_pairs, Streams(self.seed).numpy("split"), self.fractions)
        ends = np.cumsum(self.pairs)
        each = (parts[end - n : end] for n, end in zip(self.pairs, ends, strict=True))
        return {
            "slices": place.put_slices("drawn", ((pl.DataFrame({"part": some}),) for some in each))
        }
