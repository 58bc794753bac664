"""Original ids and the dense indices that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, and its bits are in no pattern
_SMALL = 1 << 22
_AT_ONCE = 1 << 16  # text ids whose bytes are mixed at a time


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Distinct ids in ascending order; the index of an id is its place.

    Example:
        >>> fruit = Vocabulary.of(["pear", "apple", "pear"])
        >>> fruit.ids.to_list()
        ['apple', 'pear']
        >>> fruit.encode(["pear", "plum"])
        array([ 1, -1], dtype=int32)
    """

    ids: pl.Series  #: The original ids, `Int64` or `String`, strictly ascending.

    @classmethod
    def of(cls, ids: ArrayLike | pl.Series) -> Vocabulary:
        """Return the vocabulary of all ids that occur in `ids`."""
        return cls(_as_ids(ids).unique().sort())

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_text(self) -> bool:
        """Whether the ids are strings, not integers."""
        return self.ids.dtype == pl.String

    def encode(self, ids: ArrayLike | pl.Series) -> NDArray[np.int32]:
        """Return the index of each id, -1 for those that are unknown."""
        wanted = _as_ids(ids)
        if len(wanted) == 0:
            return np.empty(0, dtype=np.int32)
        if wanted.dtype != self.ids.dtype:
            raise DataError(
                f"ids must be of the vocabulary's type, {_kind(self.ids)}; found {_kind(wanted)}, "
                f"the first is {wanted[0]!r}; convert them before looking them up"
            )
        if self.is_text:
            known = self.ids.to_frame("id").with_row_index("index")
            found = wanted.to_frame("id").join(known, on="id", how="left", maintain_order="left")
            return found["index"].cast(pl.Int32).fill_null(-1).to_numpy()
        own, values = self.ids.to_numpy(), wanted.fill_null(0).to_numpy()
        place = np.minimum(np.searchsorted(own, values), len(own) - 1)
        known = (own[place] == values) & wanted.is_not_null().to_numpy()
        return np.where(known, place, -1).astype(np.int32)

    def digests(self) -> NDArray[np.uint64]:
        """Return a number for each id that depends on what it says alone, `[n]`.

        Integers are mixed as they are, texts as `Σ (byte + 1) · M^place + length` modulo 2⁶⁴.
        """
        if not self.is_text:
            return mixed(self.ids.to_numpy().astype(np.uint64))
        parts = [_sums(part["id"]) for part in self.ids.to_frame("id").iter_slices(_AT_ONCE)]
        return mixed(np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64))

    def decode(self, index: NDArray[np.integer]) -> pl.Series:
        """Return the ids at the given indices, null for -1."""
        return self.ids.gather(pl.Series(index).cast(pl.Int64).replace(-1, None))


def _as_ids(values: ArrayLike | pl.Series) -> pl.Series:
    series = values if isinstance(values, pl.Series) else pl.Series(np.asarray(values))
    if series.dtype.is_integer():
        return series.cast(pl.Int64)
    return series.cast(pl.String) if series.dtype != pl.String else series


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers whose bits all depend on all bits of the given ones, one to one."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _sums(texts: pl.Series) -> NDArray[np.uint64]:
    """Return `Σ (byte + 1) · M^place + length` of each text."""
    lengths = texts.str.len_bytes().to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    data = np.frombuffer(texts.str.join("").item().encode(), dtype=np.uint8)
    place = np.arange(len(data)) - np.repeat(ends - lengths, lengths)
    factors = np.full(int(lengths.max(initial=0)) + 1, MULTIPLIER)
    factors[0] = 1
    terms = (data + np.uint64(1)) * np.multiply.accumulate(factors)[place]
    sums = np.append(np.uint64(0), np.add.accumulate(terms))
    found: NDArray[np.uint64] = sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64)
    return found


def _kind(ids: pl.Series) -> str:
    return "text" if ids.dtype == pl.String else "integers"


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Text ids of all rows, in categorical batches, and the distinct ones among them."""

    batches: list[pl.Series]
    codes: NDArray[np.uint32]  # of each distinct id
    ids: pl.Series  # what it says

    @classmethod
    def of(cls, batches: list[pl.Series]) -> Texts:
        """Find the distinct ids of categorical `batches`."""
        present = pl.concat(batches, rechunk=False).unique()
        return cls(batches, present.to_physical().to_numpy(), present.cast(pl.String))

    def rows(self, which: pl.Series) -> tuple[int, int, str]:
        """Return how many rows have one of these distinct ids, the first of them, and its id."""
        chosen = np.zeros(int(self.codes.max()) + 1, dtype=np.bool_)
        chosen[self.codes] = which.to_numpy()
        hits = [np.flatnonzero(chosen[batch.to_physical().to_numpy()]) for batch in self.batches]
        place = next(place for place, hit in enumerate(hits) if len(hit))
        row = sum(map(len, self.batches[:place])) + int(hits[place][0]) + 1
        first: str = self.batches[place].gather([int(hits[place][0])]).cast(pl.String)[0]
        return sum(map(len, hits)), row, first

    def encode(self, ids: pl.Series) -> tuple[Vocabulary, NDArray[np.int32]]:
        """Return the vocabulary and the index of every row; those whose `ids` agree are one."""
        order = ids.arg_sort().to_numpy()
        ascending = ids.gather(order)
        is_new = (ascending != ascending.shift(1)).fill_null(value=True)
        index_of_code = np.zeros(int(self.codes.max()) + 1, dtype=np.int32)
        index_of_code[self.codes[order]] = np.cumsum(is_new.to_numpy()) - 1
        index = [index_of_code[batch.to_physical().to_numpy()] for batch in self.batches]
        return Vocabulary(ascending.filter(is_new).alias("id")), np.concatenate(index)


def integers_of(texts: pl.Series) -> pl.Series:
    """Return texts as integers, null where they are not written as plain ones."""
    numbers = texts.cast(pl.Int64, strict=False)
    plain = (numbers.cast(pl.String) == texts).fill_null(value=False)
    return numbers.zip_with(plain, pl.Series([None], dtype=pl.Int64).new_from_index(0, len(texts)))


def encode_integers(batches: list[NDArray[np.int64]]) -> tuple[Vocabulary, NDArray[np.int32]]:
    """Return the vocabulary of integer `batches`, which are given up, and the index of each row."""
    low = min(int(batch.min()) for batch in batches)
    high = max(int(batch.max()) for batch in batches)
    n_rows = sum(len(batch) for batch in batches)
    if low >= 0 and high < 2 * n_rows + _SMALL:  # small enough to look up directly
        present = np.zeros(high + 1, dtype=np.bool_)
        for batch in batches:
            present[batch] = True
        index_of = np.cumsum(present, dtype=np.int32) - np.int32(1)
        ids = np.flatnonzero(present)
    else:
        index_of = None
        ids = np.unique(np.concatenate([np.unique(batch) for batch in batches]))
    index, end = np.empty(n_rows, dtype=np.int32), n_rows
    while batches:
        batch = batches.pop()  # which is freed
        found = np.searchsorted(ids, batch) if index_of is None else index_of[batch]
        index[end - len(batch) : end] = found
        end -= len(batch)
    return Vocabulary(pl.Series("id", ids, dtype=pl.Int64)), index
