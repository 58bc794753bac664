"""How the commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from counterplay.errors import CounterplayWarning

if TYPE_CHECKING:
    from pathlib import Path

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    """Print a result for machines."""
    out.out(json.dumps(value, indent=2, ensure_ascii=False))


def write_json(value: object, path: Path) -> None:
    """Write a result for machines, all of it or nothing."""
    beside = path.with_name(f"{path.name}.part")
    try:
        beside.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def print_pairs(rows: dict[str, str]) -> None:
    """Print a short result for people, a name and a value a line."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, style="bold"), Text(value))  # Text: ids are not markup
    out.print(table)


def print_table(title: str, columns: dict[str, list[str]]) -> None:
    """Print a result for people, a column a name."""
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):  # names of runs may be long: they are folded
        table.add_column(name, no_wrap=place > 0, overflow="fold", min_width=None if place else 6)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    whole = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    out.print(table, width=None if out.is_terminal else max(whole, out.width))


@contextmanager
def notes() -> Iterator[list[str]]:
    """Collect the reservations that come up meanwhile, and print them at the end."""
    collected: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CounterplayWarning)
        yield collected
    for warning in caught:
        if issubclass(warning.category, CounterplayWarning):
            collected.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    for note in dict.fromkeys(collected):
        err.print(f"note: {note}", markup=False)


@contextmanager
def progress(text: str, *, unit: str = "rows") -> Iterator[Callable[[int, int | None], None]]:
    """Show how far long work has come; silent when standard error is not a terminal."""
    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn()]
    if unit == "bytes":
        columns += [DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
    else:
        columns += [MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn()]
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
