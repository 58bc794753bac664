"""Numbers and flags of a log, checked and converted batch by batch.

Each builder takes the batches of one column in order and ends in one numpy array. What is
wrong is counted in `Findings`, so that the message can give the total.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.findings import Findings


@dataclass(slots=True)
class NumberColumn:
    """Ratings, propensities or positions: finite numbers within bounds."""

    name: str
    findings: Findings
    dtype: type[np.generic]
    must: str
    advice: str
    bounds: tuple[float, float] = (-np.inf, np.inf)
    open_below: bool = False
    whole: bool = False
    _batches: list[NDArray[Any]] = field(default_factory=list)

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        numbers = numbers_of(values, self.name)
        low, high = self.bounds
        if not (self.whole or self.open_below or numbers.has_nulls()):
            batch = numbers.to_numpy()
            if low <= batch.min(initial=np.inf) and batch.max(initial=-np.inf) <= high:
                self._batches.append(batch.astype(self.dtype, copy=False))
                return  # the usual case; NaN fails both comparisons
        good = numbers.is_finite() & (numbers <= high)
        good &= (numbers > low) if self.open_below else (numbers >= low)
        if self.whole:
            good &= numbers == numbers.floor()
        bad = ~good.fill_null(value=False)
        self.findings.note(self.name, self.must, self.advice, bad, values, first_row)
        if not bad.any():
            self._batches.append(numbers.to_numpy().astype(self.dtype, copy=False))

    def finish(self) -> NDArray[Any]:
        """Return the whole column."""
        return np.concatenate(self._batches)


@dataclass(slots=True)
class FlagColumn:
    """Exposure flags: true or false, 1 or 0, yes or no."""

    name: str
    findings: Findings
    _batches: list[NDArray[np.bool_]] = field(default_factory=list)

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        if values.dtype == pl.Boolean:
            flags = values
        elif not (values.dtype.is_numeric() or values.dtype in (pl.String, pl.Null)):
            raise DataError(
                f"exposure flags must be true or false; found column '{self.name}' of type "
                f"{values.dtype}; convert it, or leave it out with '-'"
            )
        else:
            text = values.cast(pl.String, strict=False).str.to_lowercase().str.strip_chars()
            yes = text.is_in(["1", "1.0", "true", "t", "yes", "y"])
            no = text.is_in(["0", "0.0", "false", "f", "no", "n"])
            flags = pl.Series([None], dtype=pl.Boolean).new_from_index(0, len(text))
            flags = flags.zip_with(~yes.fill_null(value=False), yes)
            flags = flags.zip_with(~no.fill_null(value=False), ~no)
        self.findings.note(
            self.name,
            "exposure flags must be true or false (or 1 and 0, yes and no)",
            "correct those rows, or leave the column out with '-'",
            flags.is_null(),
            values,
            first_row,
        )
        if not flags.has_nulls():
            self._batches.append(flags.to_numpy())

    def finish(self) -> NDArray[np.bool_]:
        """Return the whole column."""
        return np.concatenate(self._batches)


def numbers_of(values: pl.Series, name: str, *, whole: bool = False) -> pl.Series:
    """Return `values` as numbers, null where they are none."""
    if values.dtype == pl.String:
        text = values.str.strip_chars()
        numbers = text.cast(pl.Float64, strict=False)
        if whole:
            exact = text.cast(pl.Int64, strict=False)
            return exact if exact.null_count() == numbers.null_count() else numbers
        return numbers
    if values.dtype.is_float():
        return values
    if values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null):
        return values.cast(pl.Float64, strict=False)
    raise DataError(
        f"column '{name}' must hold numbers; found type {values.dtype}; convert it, or leave "
        "it out with '-'"
    )


def raise_mixed(name: str, values: list[object], first_row: int) -> None:
    """Raise a DataError for ids of several types."""
    kinds = [type(value).__name__ for value in values]
    strays = [place for place, kind in enumerate(kinds) if kind != kinds[0]]
    where = (
        f"{len(strays):,} of {len(values):,} rows that are not {kinds[0]}, the first at row "
        f"{first_row + strays[0]:,} with {values[strays[0]]!r}"
        if strays
        else f"{len(values):,} objects of type {kinds[0]}"
    )
    raise DataError(
        f"ids must be all integers or all text; found {where} in column '{name}'; convert the "
        "column to one type"
    )
