"""Numbers, flags and times of a log, checked and converted batch by batch.

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

TimeUnit = Literal["s", "ms", "us", "ns"]
_CORRECT = "correct those rows, or leave the column out with '-'"
FLAGS = dict.fromkeys(("1", "1.0", "true", "t", "yes", "y"), True) | dict.fromkeys(
    ("0", "0.0", "false", "f", "no", "n"), False
)
_MICROSECONDS: dict[TimeUnit, float] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_LATEST = float(1 << 61)  # beyond it, in microseconds, a difference of two times can overflow
_TIME_FORMATS = (
    "%+",  # 2017-07-30T07:44:10Z and its relatives
    "%Y-%m-%d %H:%M:%S%.f UTC",
    "%Y-%m-%d %H:%M:%S%.f%:z",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y%m%dT%H%M%SZ",
    "%a %b %d %H:%M:%S %z %Y",  # Sun Jul 30 07:44:10 -0700 2017
    "%Y/%m/%d %H:%M:%S",
)
_DATE_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d")
_FORMATS = (*_TIME_FORMATS, *_DATE_FORMATS)
_DATE_AS_NUMBER = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"


@dataclass(slots=True)
class _Column:
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
class NumberColumn(_Column):
    """Ratings, propensities or positions: finite numbers within bounds."""

    dtype: type[np.generic]
    must: str
    bounds: tuple[float, float]
    open_below: bool = False
    whole: bool = False

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        low, high = self.bounds
        integers = values.dtype.is_integer()
        numbers = values if integers else numbers_of(values, self.name)
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


@dataclass(slots=True)
class FlagColumn(_Column):
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
class ClickColumn(_Column):
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


@dataclass(slots=True)
class TimeColumn(_Column):
    """Times in microseconds since 1970, UTC.

    Numbers count seconds, milliseconds, microseconds or nanoseconds, told apart by their median
    unless `unit` says which. Text is ISO 8601 or one of a few common forms; a time without zone
    is UTC.
    """

    unit: TimeUnit | None = None
    form: str | None = field(default=None, init=False)
    numeric: bool | None = field(default=None, init=False)

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        dtype = values.dtype
        if dtype == pl.String:
            times = self._from_text(values)
        elif dtype.is_integer() and self._as_dates(values.head(1000).cast(pl.String)):
            times = self._from_text(values.cast(pl.String))
        elif dtype.is_numeric():
            times = values if dtype.is_float() else values.cast(pl.Int64, strict=False)
            self.numeric = True
        elif dtype == pl.Date or isinstance(dtype, pl.Datetime):
            times, self.numeric = _microseconds(values), False
        else:
            raise DataError(
                f"times must be numbers, dates or text; found column '{self.name}' of type "
                f"{dtype}; convert it, or leave it out with '-'"
            )
        bad = times.is_null()
        if times.dtype.is_float():
            bad |= ~times.is_finite().fill_null(value=False)
        must = "times must be dates, ISO 8601 text or numbers since 1970"
        if self._all_good(must, bad, values, first_row):
            self._batches.append(times.to_numpy())

    def _as_dates(self, text: pl.Series) -> bool:
        """Tell whether numbers are dates such as 20170730; the first batch decides."""
        if self.numeric is None:
            sample = text.drop_nulls().head(1000).str.strip_chars()
            dates = sample.str.contains(_DATE_AS_NUMBER).all()
            n_numbers = int(sample.cast(pl.Float64, strict=False).is_not_null().sum())
            looks_like_dates = bool(dates) and self.unit is None and len(sample) > 0
            self.numeric = not looks_like_dates and 2 * n_numbers >= max(1, len(sample))
        return not self.numeric

    def _from_text(self, values: pl.Series) -> pl.Series:
        if not self._as_dates(values):
            return numbers_of(values, self.name, whole=True)
        text = values.str.strip_chars()
        if self.form is None:
            sample = text.drop_nulls().head(1000)
            self.form = max(
                _FORMATS, key=lambda form: len(sample) - _parse(sample, form).null_count()
            )
        times = _parse(text, self.form)
        for form in _FORMATS:  # rows in another form than most
            if times.null_count() > text.null_count():
                times = times.fill_null(_parse(text, form))
        return times

    def finish(self) -> NDArray[np.int64]:
        """Return the whole column."""
        raw = joined(self._batches)
        if not self.numeric:
            return raw.astype(np.int64, copy=False)
        self.unit = self.unit or _unit_of(raw)
        scale = _MICROSECONDS[self.unit]
        if max(abs(float(raw.min())), abs(float(raw.max()))) * scale > _LATEST:
            far = np.flatnonzero(np.abs(raw.astype(np.float64)) * scale > _LATEST)
            raise DataError(
                f"times must be numbers since 1970 in one unit; found {len(far):,} of "
                f"{len(raw):,} rows where column '{self.name}' is out of range, the first at row "
                f"{far[0] + 1:,} with {raw[far[0]]}; correct those rows, or name the unit"
            )
        if raw.dtype.kind == "f":
            return np.round(raw * scale).astype(np.int64)
        if not raw.flags.writeable:
            raw = raw.astype(np.int64)
        whole = raw.astype(np.int64, copy=False)  # a copy of the input, which may be changed
        if scale >= 1:
            whole *= np.int64(scale)
        else:
            whole //= np.int64(1 / scale)
        return whole


def _unit_of(raw: NDArray[Any]) -> TimeUnit:
    """Tell the unit by the median of all rows: its year is then between 1973 and 5138."""
    limits: tuple[tuple[float, TimeUnit], ...] = ((1e11, "s"), (1e14, "ms"), (1e17, "us"))
    for limit, unit in limits:
        if 2 * np.count_nonzero((raw > -limit) & (raw < limit)) > len(raw):
            return unit
    return "ns"


def _parse(text: pl.Series, form: str) -> pl.Series:
    if form in _DATE_FORMATS:
        return _microseconds(text.str.to_date(form, strict=False))
    return _microseconds(text.str.to_datetime(form, time_unit="us", strict=False))


def _microseconds(times: pl.Series) -> pl.Series:
    """Return dates or datetimes as microseconds, null where they are out of range."""
    raw = times.to_physical().cast(pl.Int64)
    if times.dtype == pl.Date:
        return raw * 86_400_000_000
    unit = getattr(times.dtype, "time_unit", "us")
    if unit == "ns":
        return raw // 1000
    factor = 1000 if unit == "ms" else 1
    inside = (raw.cast(pl.Float64).abs() * factor < _LATEST).fill_null(value=False)
    return (raw * factor).set(~inside, None)
