"""Numbers and flags of a log, checked and converted batch by batch.

Each builder takes the batches of one column in order and ends in one numpy array. What is
wrong is counted in `Findings`, so that the message can give the total.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from counterplay.data.findings import Step
from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.findings import Findings

Decimal = Literal[".", ","]
_CORRECT = "correct those rows, or leave the column out with '-'"
FLAGS = dict.fromkeys(("1", "1.0", "true", "t", "yes", "y"), True) | dict.fromkeys(
    ("0", "0.0", "false", "f", "no", "n"), False
)


@dataclass(slots=True)
class Column:
    """What all columns have in common."""

    name: str
    findings: Findings
    _batches: list[NDArray[Any]] = field(default_factory=list, init=False)

    def _all_good(self, must: str, bad: pl.Series, values: pl.Series, first_row: int) -> bool:
        self.findings.note(self.name, must, _CORRECT, bad, values, first_row)
        return not bad.any()

    def finish(self) -> NDArray[Any]:
        """Return the whole column; its batches are given up."""
        return joined(self._batches)


@dataclass(slots=True)
class NumberColumn(Column):
    """Ratings, propensities or positions: finite numbers within bounds."""

    dtype: type[np.generic]
    must: str
    bounds: tuple[float, float]
    open_below: bool = False
    whole: bool = False
    decimal: Decimal | None = None  # of texts with commas; None: found out
    _n_marked: int = field(default=0, init=False)  # texts that have marks
    _example: str = field(default="", init=False)

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        low, high = self.bounds
        integers = values.dtype.is_integer()
        numbers = values if integers else numbers_of(values, self.name)
        odd = self.decimal == "," or numbers.null_count() > values.null_count()
        if values.dtype == pl.String and odd:
            values = self._unmarked(values.str.strip_chars(), numbers)
            numbers = numbers_of(values, self.name)
        if not (self.open_below or numbers.has_nulls()) and (integers or not self.whole):
            batch = numbers.to_numpy()
            if len(batch) and low <= batch.min() and batch.max() <= high:
                self._batches.append(batch.astype(self.dtype, copy=False))
                return  # the usual case; NaN fails both comparisons
        numbers = numbers_of(values, self.name)
        good = numbers.is_finite() & (numbers <= high)
        good &= (numbers > low) if self.open_below else (numbers >= low)
        if self.whole:
            good &= numbers == numbers.floor()
        if self._all_good(self.must, ~good.fill_null(value=False), values, first_row):
            self._batches.append(numbers.to_numpy().astype(self.dtype, copy=False))

    @property
    def steps(self) -> list[Step]:
        """Say how numbers with commas, or with thousands apart, were read."""
        if not self._n_marked:
            return []
        marked = f"{self._n_marked:,} numbers such as {self._example!r} in column '{self.name}'"
        text = f"read {marked} with '{self.decimal}' as the decimal mark"
        return [Step("numbers", text, {"rows": self._n_marked})]

    def _unmarked(self, text: pl.Series, numbers: pl.Series) -> pl.Series:
        """Return texts as the parser knows numbers: with a point, and thousands not apart."""
        odd = text.filter(text.is_not_null() & numbers.is_null())
        fractions = any(bool((batch % 1 != 0).any()) for batch in self._batches)
        allowed: list[Decimal] = [
            mark for mark in (".", ",")
            if bool(text.drop_nulls().str.contains(_numbers_with(mark)).all())
            and not (mark == "," and self.decimal is None and fractions)
        ]  # fmt: skip
        if self.decimal is None and len(allowed) == 2:
            raise DataError(
                f"numbers must be written in one way; found {odd[0]!r} in column '{self.name}', "
                f"which is {_plain(odd, '.')[0]} or {_plain(odd, ',')[0]}; say which sign begins "
                "the decimals with decimal='.' or ',', on the command line with --decimal"
            )
        self.decimal = self.decimal or (allowed[0] if allowed else None)
        if self.decimal not in allowed:
            return text  # some are no numbers in any way
        marked = text.filter(text.str.contains(r"[,\s']").fill_null(value=False))
        self._n_marked += len(marked)
        self._example = self._example or (str(marked[0]) if len(marked) else "")
        return _plain(text, self.decimal)


def _numbers_with(decimal: Decimal) -> str:
    """Return the pattern of numbers with this decimal mark, thousands together or apart."""
    between = r"[ \u00a0\u202f'" + ("," if decimal == "." else ".") + "]"
    mark = f"[{decimal}]"
    return rf"^[+-]?((\d+|\d{{1,3}}({between}\d{{3}})+)({mark}\d*)?|{mark}\d+)([eE][+-]?\d+)?$"


def _plain(text: pl.Series, decimal: Decimal) -> pl.Series:
    apart = r"[\s'" + ("," if decimal == "." else ".") + "]"
    return text.str.replace_all(apart, "").str.replace(",", ".", literal=True)


@dataclass(slots=True)
class FlagColumn(Column):
    """Flags: true or false, 1 or 0, yes or no."""

    what: str = "exposure flags"

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        flags = values
        if values.dtype.is_numeric() or values.dtype in (pl.String, pl.Null):
            text = values.cast(pl.String, strict=False).str.to_lowercase().str.strip_chars()
            flags = text.replace_strict(FLAGS, default=None, return_dtype=pl.Boolean)
        elif values.dtype != pl.Boolean:
            raise DataError(
                f"{self.what} must be true or false; found column '{self.name}' of type "
                f"{values.dtype}; convert it, or leave it out with '-'"
            )
        must = f"{self.what} must be true or false (or 1 and 0, yes and no)"
        if self._all_good(must, flags.is_null(), values, first_row):
            self._batches.append(flags.to_numpy())


@dataclass(slots=True)
class ClickColumn(Column):
    """Clicks: flags, or counts of which those above 0 are clicks."""

    n_counts: int = field(default=0, init=False)  # rows with more than one click

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        must = "clicks must be true or false (or 1 and 0, yes and no), or counts of 0 or more"
        if values.dtype == pl.Boolean and not values.has_nulls():
            self._batches.append(values.to_numpy())
            return
        numbers = values
        if values.dtype == pl.String:
            text = values.str.to_lowercase().str.strip_chars()
            flags = text.replace_strict(FLAGS, default=None, return_dtype=pl.Boolean)
            numbers = flags.cast(pl.Float64).fill_null(text.cast(pl.Float64, strict=False))
        elif not values.dtype.is_numeric() and values.dtype not in (pl.Boolean, pl.Null):
            raise DataError(
                f"{must}; found column '{self.name}' of type {values.dtype}; convert it, or leave "
                "it out with '-'"
            )
        if not numbers.dtype.is_integer():
            numbers = numbers.cast(pl.Float64, strict=False)
        good = numbers >= 0
        if numbers.dtype.is_float():
            good &= numbers.is_finite() & (numbers == numbers.floor())
        if self._all_good(must, ~good.fill_null(value=False), values, first_row):
            self.n_counts += int((numbers > 1).sum())
            self._batches.append((numbers > 0).to_numpy())

    @property
    def steps(self) -> list[Step]:
        """Say how many rows had several clicks."""
        if not self.n_counts:
            return []
        text = f"{self.n_counts:,} rows have more than one click in column '{self.name}'"
        return [Step("clicks", f"{text}; each is one clicked row", {"rows": self.n_counts})]


def joined(batches: list[NDArray[Any]]) -> NDArray[Any]:
    """Return one array of all batches, which are freed on the way."""
    if len(batches) == 1:
        return batches.pop()
    kind = np.result_type(*batches) if batches else np.float64
    whole = np.empty(sum(map(len, batches)), dtype=kind)
    end = len(whole)
    while batches:
        batch = batches.pop()
        whole[end - len(batch) : end] = batch
        end -= len(batch)
    return whole


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
