"""What is wrong with a table, counted over all of its batches.

Rows count from 1 and do not include header lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from counterplay.errors import DataError

if TYPE_CHECKING:
    import polars as pl


SHOWN = 60  # signs of a text that a message shows


def shortened(text: str) -> str:
    """Return a text as a message shows it: in quotes, on one line, and not too long."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


@dataclass(slots=True)
class _Finding:
    must: str
    advice: str
    row: int
    value: object
    count: int = 0


@dataclass(slots=True)
class Findings:
    """What is wrong with a table: how often, and where first."""

    n_rows: int = 0
    _found: dict[tuple[str, str], _Finding] = field(default_factory=dict)

    def note(
        self,
        column: str,
        must: str,
        advice: str,
        bad: pl.Series,
        values: pl.Series,
        first_row: int,
    ) -> None:
        """Count the rows where `bad` is true."""
        count = int(bad.sum() or 0)
        if count:
            place = int(bad.arg_true()[0])
            self.add(column, must, advice, count, first_row + place, values[place])

    def add(self, column: str, must: str, advice: str, count: int, row: int, value: object) -> None:
        """Count some more rows that break a rule, the first of them `row` with `value`."""
        found = self._found.setdefault((column, must), _Finding(must, advice, row, value))
        found.count += count

    def raise_first(self) -> None:
        """Raise a DataError for the earliest offending row, if there is any."""
        if not self._found:
            return
        (column, _), found = min(self._found.items(), key=lambda item: item[1].row)
        value = shortened(found.value) if isinstance(found.value, str) else repr(found.value)
        raise DataError(
            f"{found.must}; found {found.count:,} of {self.n_rows:,} rows where column "
            f"'{column}' breaks that, the first at row {found.row:,} with {value}; {found.advice}"
        )
