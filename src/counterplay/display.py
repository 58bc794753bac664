"""How results show themselves: a line in a terminal, a table in a notebook, a frame for others.

What they show comes from logs, so it is text and never markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import isnan
from typing import TYPE_CHECKING, Any

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

RANGE = ("low", "mean", "high")
NOTHING = "–"
_FIRST = ("value", "low", "high", "candidate", "first")  # of a frame
_LAST = ("n", "second", "estimator", "metric", "k")
_LONGEST = 80  # characters of a cell
_LEFT = ' style="text-align: left"'  # notebooks put numbers and words to the right


class Shown:
    """An object with a title in words and a table, as columns by name."""

    __slots__ = ()

    def _title(self) -> str:
        raise NotImplementedError

    def _columns(self) -> Mapping[str, Sequence[object]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._title()}>"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return html_table(f"{type(self).__name__} {self._title()}", self._columns())


class Convertible:
    """A result that is a row of a frame, or several."""

    __slots__ = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of its frame: flat values by column."""
        raise NotImplementedError

    def to_polars(self) -> pl.DataFrame:
        """Return the result as a polars frame."""
        return to_polars(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return the result as a pandas frame; needs the extra `pandas`."""
        return to_pandas(self)


Result = Convertible | Mapping[str, Any] | tuple[str, str, Convertible]
Results = Convertible | Mapping[str, Any] | Sequence[Result]


def to_polars(results: Results) -> pl.DataFrame:
    """Return results of one kind as a polars frame, with a column for each of their values.

    They may be objects such as `Estimate` and `Epoch`, their plain values as a run's record holds
    them, or what `compare` returns. A value that some of them lack is null.

    Example:
        >>> to_polars([{"metric": "hit", "value": 0.5}, {"metric": "ndcg", "value": 0.25}]).shape
        (2, 2)
    """
    import polars as pl

    several: Sequence[Result] = [results] if isinstance(results, Convertible | Mapping) else results
    rows = [row for result in several for row in _rows(result)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame(
        {name: pl.Series(name, [row.get(name) for row in rows], strict=False) for name in names}
    )


def to_pandas(results: Results) -> pd.DataFrame:
    """Return results of one kind as a pandas frame, as `to_polars` does."""
    try:
        import pandas  # noqa: F401 - polars would miss it in other words
    except ImportError:
        raise ConfigError(
            "a pandas frame needs pandas; found none installed; install counterplay[pandas], or "
            "take the polars frame"
        ) from None
    return to_polars(results).to_pandas()


def html_table(title: str, columns: Mapping[str, Sequence[object]]) -> str:
    """Return a title and a table as HTML, everything escaped, in the colours of the page."""
    head = "".join(f"<th{_LEFT}>{_cell(name)}</th>" for name in columns)
    head = f"<thead><tr>{head}</tr></thead>" if any(map(str.strip, columns)) else ""
    rows = "".join(
        "<tr>" + "".join(f"<td{_LEFT}>{_cell(value)}</td>" for value in row) + "</tr>"
        for row in zip(*columns.values(), strict=True)
    )
    return (
        f"<div><p>{_cell(title, longest=4 * _LONGEST)}</p>"
        f"<table>{head}<tbody>{rows}</tbody></table></div>"
    )


def pairs(values: Mapping[str, object]) -> dict[str, list[object]]:
    """Return names and values as the two columns of a table that needs no head."""
    return {"": list(values), " ": list(values.values())}


def flat(
    values: Mapping[str, Any], parts: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """Return the values one level deep, as columns of a frame; `parts` names those of sequences.

    Example:
        >>> flat({"n": 2, "range": (1, 3), "by": {"a": 4}}, {"range": ("low", "high")})
        {'n': 2, 'range_low': 1, 'range_high': 3, 'by_a': 4}
    """
    columns: dict[str, Any] = {}
    for name, value in values.items():
        if parts and name in parts:  # they have their columns even where the value is missing
            found = [None] * len(parts[name]) if value is None else value
            columns |= {
                f"{name}_{part}": each for part, each in zip(parts[name], found, strict=True)
            }
        elif isinstance(value, Mapping):
            columns |= {f"{name}_{part}": each for part, each in value.items()}
        else:
            columns[name] = value
    return columns


def value_first(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a frame so that what a terminal shows of it is what one looks for.

    The value and its ends come first and then whose they are; what it is of comes last, since
    frames that are too wide are shown without their middle.

    Example:
        >>> list(value_first({"k": 10, "level": 0.95, "value": 1, "candidate": "a", "low": 0}))
        ['value', 'low', 'candidate', 'level', 'k']
    """
    first = [name for name in _FIRST if name in row]
    last = [name for name in _LAST if name in row]
    middle = [name for name in row if name not in _FIRST and name not in _LAST]
    return {name: row[name] for name in (*first, *middle, *last)}


def named(metric: str, k: int) -> str:
    """Return a metric with its cutoff, if it has one."""
    return f"{metric}@{k}" if k else metric


def between(low: float, high: float, level: float, sign: str = "") -> str:
    """Return an interval in words.

    Example:
        >>> between(0.1, 0.25, 0.95)
        '[0.1000, 0.2500] at 95%'
    """
    if isnan(low) or isnan(high):
        return "without an interval"
    return f"[{low:{sign}.4f}, {high:{sign}.4f}] at {level:.0%}"


def _cell(value: object, longest: int = _LONGEST) -> str:
    if value is None or (isinstance(value, float) and isnan(value)):
        text = NOTHING
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= longest else text[: longest - 1] + "…")


def _rows(result: Result) -> list[dict[str, Any]]:
    if isinstance(result, Convertible):
        return result.to_rows()
    if isinstance(result, Mapping):
        return [dict(result)]
    if isinstance(result, tuple) and len(result) == 3:
        first, second, difference = result
        return [{"first": first, "second": second} | row for row in _rows(difference)]
    raise DataError(
        "a frame is made of results, such as estimates or epochs; found one that is "
        f"{type(result).__name__}; give a list of results of one kind"
    )
