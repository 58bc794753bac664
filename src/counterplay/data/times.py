"""Times of a log: dates and numbers as microseconds since 1970, checked batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.columns import Column, joined, numbers_of
from counterplay.data.findings import Step, shortened
from counterplay.data.time_units import LATEST, TimeUnit, microseconds_of
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_YEAR_100 = -59_011_459_200_000_000  # in microseconds: an earlier year was written in two digits
_NAMED_MONTHS = ("%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%b %d %Y")
_TIME_FORMATS = (
    "%+",  # 2017-07-30T07:44:10Z and its relatives
    "%Y-%m-%d %H:%M:%S%.f UTC",
    "%Y-%m-%d %H:%M:%S%.f%:z",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y%m%dT%H%M%SZ",
    "%Y%m%d%H%M%S",
    "%Y%m%d%H%M",
    "%a %b %d %H:%M:%S %z %Y",  # Sun Jul 30 07:44:10 -0700 2017
    "%a, %d %b %Y %H:%M:%S %z",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    *(f"{date} %H:%M" for date in _NAMED_MONTHS),
    *(f"{date} %H:%M:%S" for date in _NAMED_MONTHS),
)
_DATE_FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d"),
    *(*_NAMED_MONTHS, "%m %d, %Y"),
)
_FORMATS = (*_TIME_FORMATS, *_DATE_FORMATS)
_DATE_AS_NUMBER = (
    r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(([01]\d|2[0-3])[0-5]\d([0-5]\d)?)?$"
)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %H:%M:%S%.f")
_SHORT_FIRST = r"^(\d{1,2})([/.-])(\d{1,2})[/.-](\d{4}|\d{2})(\D|$)"  # 12/1/2010, 31.12.10 …
_MUST = "times must be dates, ISO 8601 text or numbers since 1970"


@dataclass(slots=True)
class TimeColumn(Column):
    """Times in microseconds since 1970, UTC.

    Numbers count seconds, milliseconds, microseconds or nanoseconds, told apart by their median
    unless `unit` says which. Text is in the `form` that is said, or in ISO 8601 or another common
    form; a time without zone is UTC. A date such as 12/1/2010 may begin with the day or with the
    month: all rows together must tell.
    """

    unit: TimeUnit | None = None
    form: str | None = None
    numeric: bool | None = field(default=None, init=False)
    _said: bool = field(default=False, init=False)
    _orders: _Orders | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._said = self.form is not None
        if self.form is not None:
            self.numeric, self.form = False, _checked(self.form)

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        dtype = values.dtype
        whole = dtype.is_integer()
        if dtype == pl.String or (whole and self._as_dates(values.head(1000).cast(pl.String))):
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
        must = f"times must be in the form {self.form}" if self._said else _MUST
        if self._all_good(must, bad, values, first_row):
            self._batches.append(times.to_numpy())

    @property
    def steps(self) -> list[Step]:
        """Say in which order day and month were taken, where both are numbers."""
        if self._orders is None:
            return []
        example = shortened(self._orders.example)
        text = f"took times such as {example} in column '{self.name}' in the form {self.form}"
        return [Step("times", text)]

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
        if self._said and self.form is not None:
            return _parse(text, self.form)
        if self.form is None:
            self._orders = _Orders.of(text.drop_nulls().head(1000))
        if self._orders is not None:
            times = self._orders.add(text)
            self.form = self._orders.form
            return times
        if self.form is None:
            self.form = _best(text, _FORMATS)
        times = _parse(text, self.form)
        for form in _FORMATS:  # rows in another form than most
            if times.null_count() > text.null_count():
                times = times.fill_null(_parse(text, form))
        return times

    def finish(self) -> NDArray[np.int64]:
        """Return the whole column."""
        if self._orders is not None:
            self._batches.clear()
            return self._orders.finish(self.name)
        raw = joined(self._batches)
        if not self.numeric:
            return raw.astype(np.int64, copy=False)
        whole, self.unit = microseconds_of(raw, self.unit, self.name)
        return whole


@dataclass(slots=True)
class _Orders:
    """Dates of numbers alone: every order of day, month and year that all rows so far allow."""

    dates: dict[str, list[NDArray[np.int64]]]  # the times in each order
    sign: str  # between the numbers
    example: str
    clock: str = ""

    @classmethod
    def of(cls, sample: pl.Series) -> _Orders | None:
        """Return the orders that most of some texts may be in; None if they are of another kind."""
        fitting = sample.filter(sample.str.contains(_SHORT_FIRST))
        if 2 * len(fitting) <= len(sample):
            return None
        found = fitting.str.extract_groups(_SHORT_FIRST).struct.unnest()
        sign, year = str(found["2"][0]), str(found["4"][0])
        orders = ["dm"] if sign == "." else ["md", "dm"]  # with points, the month is never first
        if len(year) == 2:
            orders = [*orders, "ymd"]
        y = "%Y" if len(year) == 4 else "%y"
        forms = (sign.join([f"%{part}" for part in order.removeprefix("y")]) for order in orders)
        full = (
            f"%y{sign}{form}" if order == "ymd" else f"{form}{sign}{y}"
            for order, form in zip(orders, forms, strict=True)
        )
        return cls({form: [] for form in full}, sign, str(fitting[0]))

    @property
    def form(self) -> str:
        """The first order that is left, with its clock."""
        return next(iter(self.dates)) + self.clock

    def add(self, text: pl.Series) -> pl.Series:
        """Take a batch; return its times in the order that fits best, null where none does."""
        if not any(self.dates.values()):
            sample = text.head(1000)
            self.clock = max(
                _CLOCKS, key=lambda clock: _n_read(sample, [date + clock for date in self.dates])
            )
        n_digits = 4 if "%Y" in next(iter(self.dates)) else 2
        sign = rf"\{self.sign}"
        fitting = text.str.contains(rf"^\d{{1,2}}{sign}\d{{1,2}}{sign}\d{{{n_digits}}}(\D|$)")
        shaped = text.set(~fitting.fill_null(value=False), None)
        times = {date: self._read(shaped, date) for date in self.dates}
        fewest = min(each.null_count() for each in times.values())
        for date, each in times.items():
            if each.null_count() > fewest:
                del self.dates[date]
            else:
                self.dates[date].append(each.fill_null(0).to_numpy())
        return times[next(iter(self.dates))]

    def _read(self, text: pl.Series, date: str) -> pl.Series:
        times = _parse(text, date + self.clock)
        for clock in _CLOCKS:  # rows in another form than most
            if times.null_count() > text.null_count():
                times = times.fill_null(_parse(text, date + clock))
        return times

    def finish(self, name: str) -> NDArray[np.int64]:
        """Return the times, if the rows allow one order or all orders say the same."""
        found = {date: joined(batches) for date, batches in self.dates.items()}
        first, *others = found.items()
        for date, times in others:
            differ = np.flatnonzero(times != first[1])
            if len(differ):
                place = int(differ[0])
                readings = (
                    f"{np.datetime64(int(each[place]), 'us').astype('datetime64[s]')} in the form "
                    f"'{form}{self.clock}'"
                    for form, each in (first, (date, times))
                )
                raise DataError(
                    f"the rows must tell the day from the month; found column '{name}' to allow "
                    f"both everywhere: row {place + 1:,} is {', or '.join(readings)}; say which "
                    f"with date_format=…, on the command line with --date-format "
                    f"'{first[0]}{self.clock}'"
                )
        return first[1]


def _checked(form: str) -> str:
    """Return a form in polars' words; refuse what is none."""
    own = form.replace(".%f", "%.f")
    try:
        pl.Series(["2000-01-01"]).str.to_datetime(own, strict=False)
        known = "%" in own
    except pl.exceptions.PolarsError:
        known = False
    if not known:
        raise ConfigError(
            f"a date format must be as in %d.%m.%Y %H:%M; found {form!r}; correct date_format, on "
            "the command line --date-format"
        )
    return own


def _n_read(text: pl.Series, forms: list[str]) -> int:
    return max(len(text) - _parse(text, form).null_count() for form in forms)


def _best(text: pl.Series, forms: tuple[str, ...]) -> str:
    """Return the form that most of the first texts are in."""
    sample = text.drop_nulls().head(1000)
    return max(forms, key=lambda form: _n_read(sample, [form]))


def _parse(text: pl.Series, form: str) -> pl.Series:
    if form == "%Y":
        text, form = text + "-01-01", "%Y-%m-%d"
    if any(sign in form for sign in ("%H", "%I", "%+", "%T", "%X", "%c", "%s")):
        times = _microseconds(text.str.to_datetime(form, time_unit="us", strict=False))
    else:
        times = _microseconds(text.str.to_date(form, strict=False))
    early = (times < _YEAR_100).fill_null(value=False)
    return times.set(early, None) if early.any() else times


def _microseconds(times: pl.Series) -> pl.Series:
    """Return dates or datetimes as microseconds, null where they are out of range."""
    raw = times.to_physical().cast(pl.Int64)
    if times.dtype == pl.Date:
        return raw * 86_400_000_000
    unit = getattr(times.dtype, "time_unit", "us")
    if unit == "ns":
        return raw // 1000
    factor = 1000 if unit == "ms" else 1
    inside = (raw.cast(pl.Float64).abs() * factor < LATEST).fill_null(value=False)
    return (raw * factor).set(~inside, None)
