"""How numbers and names are written, the same on every part of the page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from counterplay.metrics.formulas import METRICS
from counterplay.metrics.measures import SMALLER_IS_BETTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from counterplay.evaluation.records import Key

NONE = "–"
_SLIGHT = 1.01  # a factor Γ that nobody would notice
_OTHERS = {name: name.upper() for name in ("ctr", "mse", "mae", "rmse")}
_UNITS = {"mse": "in ratings, squared", "mae": "in ratings", "rmse": "in ratings"}


def number(value: float | None, sign: str = "") -> str:
    """Return four decimals, as on the command line.

    Example:
        >>> number(0.12345), number(0.5, "+"), number(None)
        ('0.1235', '+0.5000', '–')
    """
    known = value is not None and math.isfinite(value)
    return f"{value:{sign},.4f}".replace("-", "−") if known else NONE


def chance(p: float | None) -> str:
    """Return a p-value; what four decimals cannot show is not 0.

    Example:
        >>> chance(0.0214), chance(3e-9)
        ('0.0214', '< 0.0001')
    """
    return "< 0.0001" if p is not None and p < 0.00005 else number(p)


def interval(low: float | None, high: float | None, sign: str = "") -> str:
    """Return the two ends.

    Example:
        >>> interval(0.1, 0.2), interval(None, None)
        ('0.1000 to 0.2000', '–')
    """
    if low is None or high is None:
        return NONE
    return f"{number(low, sign)} to {number(high, sign)}"


class _Interval(Protocol):
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def ends(found: _Interval, sign: str = "") -> str:
    """Return the two ends of what has them."""
    return interval(found.low, found.high, sign)


def count(value: float | None) -> str:
    """Return a whole number with separators.

    Example:
        >>> count(12345.6)
        '12,346'
    """
    return NONE if value is None or not math.isfinite(value) else f"{value:,.0f}"


def share(value: float | None) -> str:
    """Return a share in per cent, with a decimal where it matters.

    Example:
        >>> share(0.5), share(0.0213), share(0.00012)
        ('50%', '2.1%', '0.012%')
    """
    if value is None or not math.isfinite(value):
        return NONE
    percent = 100 * value
    if abs(percent) >= 10 or percent == 0:
        return f"{percent:.0f}%"
    return f"{percent:.1f}%" if abs(percent) >= 1 else f"{percent:.2g}%"


def factor(value: float) -> str:
    """Return a factor Γ, rounded down: what is said to hold must hold.

    Example:
        >>> factor(1.289), factor(1.0345), factor(12.3)
        ('1.2×', '1.03×', '12.3×')
    """
    steps = 10 if value >= 1.1 else 100
    return f"{math.floor(value * steps) / steps:,}×"


def turning(flip: float | None) -> str:
    """Say how wrong exposure must be for an order to turn.

    Example:
        >>> turning(1.43)
        'if exposure odds are off by more than 1.4×'
    """
    if flip is None:
        return "at no error in the exposure odds"
    if flip < _SLIGHT:
        return "with the slightest error in the exposure odds"
    return f"if exposure odds are off by more than {factor(flip)}"


def short(value: float | None) -> str:
    """Return a number of any size in four figures.

    Example:
        >>> short(0.000123456), short(1234567.0), short(12.5)
        ('0.0001235', '1,234,567', '12.5')
    """
    if value is None or not math.isfinite(value):
        return NONE
    if abs(value) >= 1e15 or 0 < abs(value) < 1e-4:
        return f"{value:.4g}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1e4 else f"{value:,.4g}"


def plain(value: Any) -> str:
    """Return any plain value of a record as text."""
    match value:
        case None:
            return NONE
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case float():
            return f"{value:g}"
        case list() | tuple():
            return ", ".join(plain(each) for each in value) or NONE
        case _:
            return str(value)


def metric(name: str, k: int | None) -> str:
    """Return a metric with its cutoff.

    Example:
        >>> metric("hit", 10), metric("mse", 0), metric("novelty", 5)
        ('Hit@10', 'MSE', 'novelty@5')
    """
    shown = METRICS[name].title if name in METRICS else _OTHERS.get(name, name)
    return f"{shown}@{k}" if k else shown


def measured(name: str, k: int | None) -> str:
    """Return a metric with its unit, for an axis.

    Example:
        >>> measured("hit", 10), measured("rmse", 0)
        ('Hit@10 (from 0 to 1)', 'RMSE (in ratings)')
    """
    return f"{metric(name, k)} ({_UNITS.get(name, 'from 0 to 1')})"


def protocol(name: str) -> str:
    """Say how test rows were judged.

    Example:
        >>> protocol("full"), protocol("sampled-100")
        ('ranked among all items that are not in training', 'ranked among 100 sampled items')
    """
    if name.startswith("sampled-"):
        return f"ranked among {name.removeprefix('sampled-')} sampled items"
    return {
        "full": "ranked among all items that are not in training",
        "ratings": "by their ratings",
    }.get(name, name)


def listed(names: Iterable[str]) -> str:
    """Join names as a sentence does.

    Example:
        >>> listed(["a", "b", "c"])
        'a, b and c'
    """
    *first, last = list(names)
    return f"{', '.join(first)} and {last}" if first else last


def best_of(values: dict[str, float], key: Key) -> str | None:
    """Return whose value is the best, the first of equals; None where there is no choice.

    Example:
        >>> best_of({"a": 0.1, "b": 0.2}, ("hit", 10)), best_of({"a": 1.0, "b": 2.0}, ("mse", 0))
        ('b', 'a')
    """
    if len(values) < 2:
        return None
    return (min if key[0] in SMALLER_IS_BETTER else max)(values, key=lambda name: values[name])
