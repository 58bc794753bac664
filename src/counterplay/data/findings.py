"""What was found in a table and what was done to its rows, in words and in counts.

Rows count from 1 and do not include header lines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl


SHOWN = 60  # characters of a text that a message shows


def shortened(text: str) -> str:
    """Return a text as a message shows it: in quotes, on one line, and not too long."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done to the rows of a log; the log carries its steps."""

    kind: str
    text: str
    counts: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a source was understood: its file, and which column is what."""

    facts: Mapping[str, str] = field(default_factory=dict)  # of the file, in words
    roles: Mapping[str, str] = field(default_factory=dict)  # the column of each role
    others: tuple[str, ...] = ()  # columns that are not taken
    times: str = ""  # how times are written
    n_rows: int = 0  # rows that were read


FILE_ORDER = Step("order", "rows of one user at one time stand as in the input, as was asked for")


@dataclass(slots=True)
class Findings:
    """The rules that a table breaks, over all of its batches: how often, and where first."""

    n_rows: int = 0
    counted: str = ""  # how rows are counted, if some were left out
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _first: dict[tuple[str, str], tuple[int, object, str]] = field(default_factory=dict)

    def note(
        self, column: str, must: str, advice: str, bad: pl.Series, values: pl.Series, first_row: int
    ) -> None:
        """Count the rows where `bad` is true."""
        count = int(bad.sum() or 0)
        if count:
            place = int(bad.arg_true()[0])
            self.add(column, must, advice, count, first_row + place, values[place])

    def add(self, column: str, must: str, advice: str, count: int, row: int, value: object) -> None:
        """Count some more rows that break a rule, the first of them `row` with `value`."""
        self._counts[column, must] += count
        self._first.setdefault((column, must), (row, value, advice))

    def first(self) -> str | None:
        """Return the rule that the earliest offending row breaks, and what was found; or None."""
        if not self._first:
            return None
        (column, must), found = min(self._first.items(), key=lambda item: item[1][0])
        row, value, _ = found
        shown = shortened(value) if isinstance(value, str) else repr(value)
        return (
            f"{must}; found {self._counts[column, must]:,} of {self.n_rows:,} rows where column "
            f"'{column}' breaks that, the first at row {row:,}{self.counted} with {shown}"
        )

    def raise_first(self) -> None:
        """Raise a DataError for the earliest offending row, if there is any."""
        if found := self.first():
            advice = min(self._first.values(), key=lambda each: each[0])[2]
            raise DataError(f"{found}; {advice}")
