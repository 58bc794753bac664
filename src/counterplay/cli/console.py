"""How the commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from counterplay.notes import noted

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    r"""Return a text with its control characters spelt out: a terminal would obey them.

    Example:
        >>> shown("a\x1b[2Jb")
        'a\\x1b[2Jb'
    """
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def _cell(text: str) -> str:
    """Return a text that stays in its line."""
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")


class _Console(Console):
    """Shows names from outside as they are: neither their controls nor their markup count."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, soft_wrap=True, emoji=False, markup=False)

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(
            *(shown(each) if isinstance(each, str) else each for each in objects), **options
        )

    def out(self, *objects: Any, **options: Any) -> None:
        super().out(*map(shown, objects), **options)


out, err = _Console(), _Console(stderr=True)
_EVERY = 10.0  # seconds between two lines of progress, without a terminal
_WIDEST = 100_000  # characters of a line that goes to a file


class Interrupted(Exception):  # noqa: N818 - it is the user's wish, not an error
    """An interruption that says how the work goes on."""


def say(text: str) -> None:
    """Say why a command ends, in a line of its own."""
    err.print(f"counterplay: {_cell(' '.join(text.split()))}")


def say_understood(rows: dict[str, str]) -> None:
    """Say how a log was understood, before anything is done with it."""
    for name, text in rows.items():
        err.print(f"{name}: {_cell(text)}")


def print_json(value: object) -> None:
    """Print a result for machines."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    out.out(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_pairs(rows: dict[str, str]) -> None:
    """Print a short result for people, a name and a value a line."""
    rows = {_cell(name): _cell(value) for name, value in rows.items()}
    if not out.is_terminal:
        widest = max(map(len, rows), default=0)
        for name, value in rows.items():
            out.out(f"{name:<{widest}}  {value}")
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name, style="bold"), Text(value))  # Text: ids are not markup
    out.print(table)


def print_table(title: str, columns: dict[str, list[str]]) -> None:
    """Print a result for people, a column a name."""
    heading = Text(_cell(title))
    table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):  # names of runs may be long: they are folded
        least = None if place else 6
        table.add_column(Text(_cell(name)), no_wrap=place > 0, overflow="fold", min_width=least)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*(Text(_cell(cell)) for cell in row))
    if not out.is_terminal:
        everything = out.options.update(max_width=_WIDEST)
        table.width = Measurement.get(out, everything, table).maximum
    out.print(table)


@contextmanager
def notes() -> Iterator[list[str]]:
    """Collect the reservations that come up meanwhile, and print them at the end."""
    with noted() as collected:
        yield collected
    for note in collected:
        err.print(f"note: {_cell(note)}")


@contextmanager
def progress(
    text: str, *, unit: str = "rows", clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[..., None]]:
    """Show progress; give what takes the count, the total and, where they change, text and unit.

    It also takes `left`, the seconds until the end of more than this. Without a terminal there is
    a line every ten seconds.
    """
    if not err.is_terminal:
        yield _Lines(text, unit, clock)
        return
    counts: tuple[ProgressColumn, ...] = (_Count(), _Rate(unit))
    if unit == "bytes":
        counts = (DownloadColumn(), TransferSpeedColumn())
    with _moving(BarColumn(bar_width=16), *counts, _Left()) as bar:
        task = bar.add_task(escape(_cell(text)), total=None)

        def show(done: int, total: int | None, text: str = text, **more: Any) -> None:
            if total is None:
                bar.tasks[0].total = None  # which an update leaves as it is
            said = escape(_cell(text))
            bar.update(task, completed=done, total=total, description=said, **more)

        yield show


class _Lines:
    """Says now and then how far work is, where there is no terminal to show it on."""

    def __init__(self, text: str, unit: str, clock: Callable[[], float]) -> None:
        self._text, self._unit, self._clock = text, unit, clock
        self._last = self._began = clock()
        self._stage, self._first = text, 0

    def __call__(
        self,
        done: int,
        total: int | None,
        text: str | None = None,
        *,
        unit: str | None = None,
        left: float | None = None,
    ) -> None:
        now, stage = self._clock(), text or self._text
        if stage != self._stage or done < self._first:
            self._stage, self._began, self._first = stage, now, done
        if now - self._last < _EVERY:
            return
        self._last = now
        counted = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        parts = [f"{counted} {unit or self._unit}"] if done or total else []
        seconds = now - self._began
        speed = (done - self._first) / seconds if seconds else 0.0
        if speed:
            parts.append(_rate(speed))
            if left is None and total is not None:
                left = (total - done) / speed
        if left is not None:
            parts.append(f"{_duration(left)} left")
        err.print(_cell(": ".join(filter(None, [stage, ", ".join(parts)]))))


def _rate(speed: float) -> str:
    return f"{1 / speed:.1f} s each" if speed < 1 else f"{speed:,.0f}/s"


def _duration(seconds: float) -> str:
    return str(dt.timedelta(seconds=round(seconds)))


def stages() -> Callable[[str], None]:
    """Return what says each stage of long work once, where there is no terminal to show it on."""
    last = ""

    def tell(text: str) -> None:
        nonlocal last
        if text != last and not err.is_terminal:
            err.print(_cell(text))
        last = text

    return tell


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show that work of unknown length goes on, and for how long it has."""
    with _moving(TimeElapsedColumn()) as bar:
        bar.add_task(escape(_cell(text)), total=None)
        yield


def _moving(*columns: ProgressColumn) -> Progress:
    """Return a line that moves; where standard error is not a terminal there is none."""
    said = TextColumn("{task.description}", table_column=Column(overflow="fold"))
    return Progress(
        SpinnerColumn(), said, *columns, console=err, transient=True, disable=not err.is_terminal
    )


class _Rate(ProgressColumn):
    """What is counted, and how many a second or, where it is slow, how many seconds each."""

    def __init__(self, unit: str) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self.unit = unit

    def render(self, task: Task) -> Text:
        unit = getattr(task, "fields", {}).get("unit", self.unit)
        speed = task.finished_speed or task.speed
        return Text(f"{unit}, {_rate(speed)}" if speed else unit)


class _Count(MofNCompleteColumn):
    """How many of how many; nothing where neither is known."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.total or task.completed else Text()


class _Left(TimeRemainingColumn):
    """How long it still takes: all of it, where somebody says so."""

    def render(self, task: Task) -> Text:
        left = task.fields.get("left")
        return super().render(task) if left is None else Text(f"{_duration(left)} left")


@contextmanager
def resumable(how: str) -> Iterator[None]:
    """Let an interruption of the work say how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(how) from None
