"""Original ids and the dense indices that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_SMALL = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Distinct ids in ascending order; the index of an id is its place.

    Attributes:
        ids: The original ids, `Int64` or `String`, strictly ascending.

    Example:
        >>> fruit = Vocabulary.of(["pear", "apple", "pear"])
        >>> fruit.ids.to_list()
        ['apple', 'pear']
        >>> fruit.encode(["pear", "plum"])
        array([ 1, -1], dtype=int32)
    """

    ids: pl.Series

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
            known = pl.DataFrame({"id": self.ids}).with_row_index("index")
            found = pl.DataFrame({"id": wanted}).join(
                known, on="id", how="left", maintain_order="left"
            )
            return found["index"].cast(pl.Int32).fill_null(-1).to_numpy()
        own, values = self.ids.to_numpy(), wanted.fill_null(0).to_numpy()
        place = np.minimum(np.searchsorted(own, values), len(own) - 1)
        known = (own[place] == values) & wanted.is_not_null().to_numpy()
        return np.where(known, place, -1).astype(np.int32)

    def decode(self, index: NDArray[np.integer]) -> pl.Series:
        """Return the ids at the given indices, null for -1."""
        return self.ids.gather(pl.Series(index).cast(pl.Int64).replace(-1, None))


def _as_ids(values: ArrayLike | pl.Series) -> pl.Series:
    series = values if isinstance(values, pl.Series) else pl.Series(np.asarray(values))
    if series.dtype.is_integer():
        return series.cast(pl.Int64)
    return series.cast(pl.String) if series.dtype != pl.String else series


def _kind(ids: pl.Series) -> str:
    return "text" if ids.dtype == pl.String else "integers"


def encode_text(batches: list[pl.Series], *, untyped: bool) -> tuple[Vocabulary, NDArray[np.int32]]:
    """Return the vocabulary of categorical `batches` and the index of every row.

    From an `untyped` source such as CSV, ids that all read as plain integers become integers;
    a leading zero, a sign or a blank anywhere keeps them all as text, so that none is lost.
    """
    present = pl.concat(batches, rechunk=False).unique()
    codes, ids = present.to_physical().to_numpy(), present.cast(pl.String)
    if untyped:
        numbers = integers_of(ids)
        ids = ids if numbers.has_nulls() else numbers
    ascending = ids.arg_sort().to_numpy()
    index_of_code = np.zeros(int(codes.max()) + 1, dtype=np.int32)
    index_of_code[codes[ascending]] = np.arange(len(codes), dtype=np.int32)
    index = [index_of_code[batch.to_physical().to_numpy()] for batch in batches]
    return Vocabulary(ids.gather(ascending).alias("id")), np.concatenate(index)


def integers_of(texts: pl.Series) -> pl.Series:
    """Return texts as integers, null where they are not written as plain ones."""
    numbers = texts.cast(pl.Int64, strict=False)
    plain = (numbers.cast(pl.String) == texts).fill_null(value=False)
    return numbers.zip_with(plain, pl.Series([None], dtype=pl.Int64).new_from_index(0, len(texts)))


def encode_integers(batches: list[NDArray[np.int64]]) -> tuple[Vocabulary, NDArray[np.int32]]:
    """Return the vocabulary of integer `batches` and the index of every row."""
    low = min(int(batch.min()) for batch in batches)
    high = max(int(batch.max()) for batch in batches)
    n_rows = sum(len(batch) for batch in batches)
    if low >= 0 and high < 2 * n_rows + _SMALL:  # small enough to look up directly
        present = np.zeros(high + 1, dtype=np.bool_)
        for batch in batches:
            present[batch] = True
        index_of = np.cumsum(present, dtype=np.int32) - np.int32(1)
        index = [index_of[batch] for batch in batches]
        ids = np.flatnonzero(present)
    else:
        ids = np.unique(np.concatenate([np.unique(batch) for batch in batches]))
        index = [np.searchsorted(ids, batch).astype(np.int32) for batch in batches]
    return Vocabulary(pl.Series("id", ids, dtype=pl.Int64)), np.concatenate(index)
