"""Numbers as times: the unit that they are in, and microseconds since 1970."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TimeUnit = Literal["s", "ms", "us", "ns"]
_MICROSECONDS: dict[TimeUnit, float] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_LIMITS: dict[TimeUnit, float] = {"s": 1e11, "ms": 1e14, "us": 1e17}  # smaller numbers are in it
_NEAR = 1e8  # smaller ones may be in any: zeros for times that are not known
LATEST = float(1 << 61)  # beyond it, in microseconds, a difference of two times can overflow
_YEARS, _DAYS = (1900, 2100), (20_000, 60_000)  # numbers that are hardly seconds since 1970


def microseconds_of(
    raw: NDArray[Any], unit: TimeUnit | None, name: str
) -> tuple[NDArray[np.int64], TimeUnit]:
    """Return the numbers of a column as times, and their unit, if none is said the likely one."""
    said = unit is not None
    if unit is None:
        _refuse_years(raw, name)
        unit = _unit_of(raw)
    scale = _MICROSECONDS[unit]
    if max(abs(float(raw.min())), abs(float(raw.max()))) * scale > LATEST:
        far = np.flatnonzero(np.abs(raw.astype(np.float64)) * scale > LATEST)
        raise DataError(
            f"times must be numbers since 1970 in one unit; found {len(far):,} of "
            f"{len(raw):,} rows where column '{name}' is out of range, the first at row "
            f"{far[0] + 1:,} with {raw[far[0]]}; correct those rows, or name the unit with "
            "time_unit=…, on the command line with --time-unit"
        )
    if not said:
        _refuse_units(raw, unit, name)
    if raw.dtype.kind == "f":
        return np.round(raw * scale).astype(np.int64), unit
    if not raw.flags.writeable:
        raw = raw.astype(np.int64)
    whole = raw.astype(np.int64, copy=False)  # a copy of the input, which may be changed
    if scale >= 1:
        whole *= np.int64(scale)
    else:
        whole //= np.int64(1 / scale)
    return whole, unit


def _refuse_years(raw: NDArray[Any], name: str) -> None:
    """Refuse numbers that are years, or the days that a spreadsheet counts, and no seconds."""
    low, high = float(raw.min()), float(raw.max())
    years = low >= _YEARS[0] and high <= _YEARS[1]
    days = low >= _DAYS[0] and high <= _DAYS[1] and bool((raw % 1 != 0).any())
    if years or days:
        what, advice = (
            ("years", "with --date-format %Y") if years else ("days of a spreadsheet", "")
        )
        advice = f"say so {advice}" if advice else "export them as dates"
        raise DataError(
            f"times must be dates or numbers since 1970; found column '{name}' to hold {low:g} to "
            f"{high:g}, which may be {what}; {advice}, name the unit with --time-unit, or leave "
            "the column out with '-'"
        )


def _unit_of(raw: NDArray[Any]) -> TimeUnit:
    """Tell the unit by the median of all rows: its year is then between 1973 and 5138."""
    for unit, limit in _LIMITS.items():
        if 2 * np.count_nonzero((raw > -limit) & (raw < limit)) > len(raw):
            return unit
    return "ns"


def _refuse_units(raw: NDArray[Any], unit: TimeUnit, name: str) -> None:
    """Refuse rows in another unit than most; numbers near 0 may be in any."""
    limits, size = (_NEAR, *_LIMITS.values(), np.inf), np.abs(raw)
    low, high = limits[list(_MICROSECONDS).index(unit) :][:2]
    other = np.flatnonzero((size >= high) | ((size >= _NEAR) & (size < low)))
    if len(other):
        raise DataError(
            f"times must be numbers since 1970 in one unit; found most in {unit}, and "
            f"{len(other):,} of {len(raw):,} rows where column '{name}' seems to be in another, "
            f"the first at row {other[0] + 1:,} with {raw[other[0]]}; correct those rows, or name "
            "the unit with time_unit=…, on the command line with --time-unit"
        )
