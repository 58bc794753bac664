r"""Count the records of a text file by its bytes, before any parser has its own idea of them.

A block of whole lines is reduced to its separators, line ends and quotes; in a regular file
what remains repeats one pattern, which is compared in one go. Only other blocks are looked at
sign by sign, in two readings at once:

- *lines*: each line is a record, and a quote is a sign like others;
- *quoted*: a quote opens at the begin of a field and closes at its end, and line ends and
  separators in between belong to the field (RFC 4180).

If every record has as many fields as the header in the quoted reading, that is how the file is
parsed. Where only the lines are regular (`TV 24"`, or `\"` for a quote), they are taken as they
stand, and a step says so. Otherwise the file is refused. Nothing is left to a guess of the parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.findings import SHOWN, Step, shortened
from counterplay.data.formats import BYTE_ORDER_MARK, opened
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_BLOCK = 1 << 20
_LINE_END, _RETURN = b"\n\r"
_BLANK_BEGINS = (b"\n\n", b"\n\r", b"\n ", b"\n\t")


@dataclass(frozen=True, slots=True)
class Records:
    """What a file holds, by its bytes."""

    n_rows: int  # without header lines and without the empty lines at the end
    quoted: bool = True  # quotes enclose fields; else they are signs like others
    n_headers: int = 0  # lines further down that repeat the header
    steps: tuple[Step, ...] = ()  # what had to be repaired or left out


def count_records(
    path: Path, separator: str, *, n_fields: int | None = None, header: bool = True,
    quote: str | None = '"', skip: int = 0,
) -> Records:  # fmt: skip
    """Count the records of a separated file, and refuse one in which rows would be lost.

    The separator is one sign, or the same twice; then `n_fields` counts the empty ones between
    too. By default, every record has as many fields as the first. `skip` lines stand before it.
    """
    tally: _Tally | None = None
    for block in _blocks(path, skip):
        if tally is None:
            first = _first_record(block, quote)
            n_fields = n_fields or _n_fields(first, separator.encode(), quote)
            tally = _Tally(separator, n_fields, first if header else b"", quote, skip)
        if not block.isascii():
            _check_utf8(block, skip + tally.n_lines + 1)
        tally.add(block)
    return Records(0) if tally is None else tally.judged(path)


class NotUtf8(Exception):  # noqa: N818 - a finding, which whoever reads the file deals with
    """A line that is not UTF-8."""

    def __init__(self, line: int, text: bytes) -> None:
        super().__init__(line, text)
        self.line, self.text = line, text


def _check_utf8(block: bytes, first_line: int) -> None:
    try:
        block.decode()
    except UnicodeDecodeError as error:
        begin = block.rfind(b"\n", 0, error.start) + 1
        number = first_line + block.count(b"\n", 0, error.start)
        raise NotUtf8(number, block[begin : block.find(b"\n", error.start)]) from None


def count_lines(path: Path) -> int:
    """Count the lines of a file that hold anything."""
    n_lines = 0
    for block in _blocks(path):
        if any(begin in b"\n" + block for begin in _BLANK_BEGINS):
            n_lines += sum(1 for line in block.split(b"\n") if line.strip())
        else:
            n_lines += block.count(b"\n")
    return n_lines


def _blocks(path: Path, skip: int = 0) -> Iterator[bytes]:
    """Yield whole lines in blocks, each ended by a line end; empty ones at the file's end left out.

    Empty lines at the end of a block wait for what follows: they may be the last.
    """
    with opened(path) as stream:
        held = stream.read(_BLOCK).removeprefix(BYTE_ORDER_MARK)
        if skip:
            held = (held.split(b"\n", skip) + [b""] * skip)[skip]
        while held and not (held := held.lstrip(b"\r\n")):
            held = stream.read(_BLOCK)
        while held:
            chunk = stream.read(max(_BLOCK, len(held)))  # twice as much where a line is that long
            end = held.rfind(b"\n") + 1 if chunk else len(held)
            content = held[:end].rstrip(b"\r\n")
            if content:
                yield content + b"\n"
                held = held[len(content) : end].partition(b"\n")[2] + held[end:]
            held = held + chunk if chunk else b""


def _first_record(block: bytes, quote: str | None) -> bytes:
    """Return the first record without its line end; quoted names may hold line ends."""
    found = None
    if quote:
        sign = re.escape(quote.encode())
        found = re.match(rb"(?:[^%b\n]|%b[^%b]*%b)*\n" % (sign, sign, sign, sign), block)
    return (found[0] if found else block.partition(b"\n")[0]).rstrip(b"\r\n")


def _n_fields(record: bytes, separator: bytes, quote: str | None) -> int:
    sign = (quote or "").encode()
    if sign and record.count(sign) % 2 == 0:
        record = re.sub(re.escape(sign) + rb".*?" + re.escape(sign), b"", record, flags=re.S)
    return record.count(separator) + 1


@dataclass(slots=True)
class _Strays:
    """Lines that are not as they must be: how many, and the first of them."""

    count: int = 0
    line: int = 0
    text: str = ""
    n_fields: int = 0

    def see(
        self, places: NDArray[np.intp], first_line: int, block: bytes, *n_fields: NDArray[np.intp]
    ) -> None:
        """Take the places of such lines in a block whose first line has the number `first_line`."""
        if len(places) and not self.count:
            place = int(places[0])
            self.line = first_line + place
            line = block.split(b"\n", place + 1)[place].rstrip(b"\r")
            self.text = line[: 8 * SHOWN].decode("utf-8", "replace")
            self.n_fields = int(n_fields[0][0]) if n_fields else 0
        self.count += len(places)

    def __str__(self) -> str:
        return f"the first at line {self.line:,}: {shortened(self.text)}"


@dataclass(slots=True)
class _Tally:
    """The two readings of a file, as far as it was read."""

    signs: str  # of a separator
    n_fields: int
    header: bytes
    quote: str | None
    before: int = 0  # lines that are not looked at
    separator: int = 0  # its first sign
    n_lines: int = 0
    n_records: int = 0
    ragged_lines: _Strays = field(default_factory=_Strays)
    ragged_records: _Strays = field(default_factory=_Strays)
    odd_lines: _Strays = field(default_factory=_Strays)
    headers: _Strays = field(default_factory=_Strays)
    is_quoted: bool = True  # the quoted reading holds so far
    is_open: bool = False  # a quoted field goes on beyond the block
    n_before: int = 0  # separators of a record that goes on
    _others: bytes = b""
    _name: bytes = b""
    _pattern: bytes = b""
    _sign: int = -1  # of a quote

    def __post_init__(self) -> None:
        self.separator = ord(self.signs[0])
        marks = bytes([self.separator, _LINE_END]) + (self.quote or "").encode()
        self._sign = ord(self.quote) if self.quote else -1
        self._others = bytes(sign for sign in range(256) if sign not in marks)
        self._pattern = bytes([self.separator]) * (self.n_fields - 1) + b"\n"
        self._name = max(self._names(self.header), key=len)  # the rarest, one may hope

    def add(self, block: bytes) -> None:
        """Take the next block of whole lines."""
        marks = block.translate(None, self._others)
        n_lines, rest = divmod(len(marks), self.n_fields)
        regular = rest == 0 and not self.is_open and marks == self._pattern * n_lines
        if regular:
            self.n_records += n_lines
        else:
            n_lines = self._look_at(block)
        if self.header and self._name in block.lower():
            same = [self._names(line) == self._names(self.header) for line in block.split(b"\n")]
            same[0] &= self.n_lines > 0  # the header itself
            self.headers.see(np.flatnonzero(same), self.before + self.n_lines + 1, block)
        self.n_lines += n_lines

    def _names(self, line: bytes) -> list[bytes]:
        """Return the fields of a header whatever their quotes, blanks and case."""
        signs = b' \t\r"' + (self.quote or "").encode() + BYTE_ORDER_MARK
        return [name.strip(signs).lower() for name in line.split(bytes([self.separator]))]

    def _look_at(self, block: bytes) -> int:
        """Read a block in both ways; return the number of its lines."""
        signs = np.frombuffer(block, dtype=np.uint8)
        is_end = signs == _LINE_END
        marks = np.flatnonzero(is_end | (signs == self.separator))
        ends = np.flatnonzero(is_end[marks])  # places among the marks
        n_fields = np.diff(ends, prepend=-1)
        ragged = np.flatnonzero(n_fields != self.n_fields)
        first_line = self.before + self.n_lines + 1
        self.ragged_lines.see(ragged, first_line, block, n_fields[ragged])
        quotes = np.flatnonzero(signs == self._sign) if self.quote else marks[:0]
        before = np.searchsorted(quotes, marks) + self.is_open  # quotes before each mark
        outside = np.flatnonzero(before % 2 == 0)
        line_of_quote = np.searchsorted(marks[ends], quotes)
        self._see_records(outside, ends, first_line, block)
        if len(quotes):
            rank = np.arange(len(quotes))
            in_line = rank - np.searchsorted(line_of_quote, line_of_quote)
            stray = line_of_quote[self._strays(signs, quotes, in_line)]
            n_quotes = np.bincount(line_of_quote, minlength=len(ends))
            odd = np.union1d(stray, np.flatnonzero(n_quotes % 2))
            self.odd_lines.see(odd, first_line, block)
            self.is_quoted &= not self._strays(signs, quotes, rank + self.is_open).any()
            self.is_open ^= bool(len(quotes) % 2)
        return len(ends)

    def _strays(
        self, signs: NDArray[np.uint8], quotes: NDArray[np.intp], rank: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Tell which quotes neither begin a field (even ranks) nor end one (odd ranks).

        A doubled quote within a field closes and opens again.
        """
        beside = np.where(rank % 2 == 0, quotes - 1, quotes + 1)
        sign = np.where(beside < 0, _LINE_END, signs[beside])
        good = (sign == self.separator) | (sign == _LINE_END) | (sign == self._sign)
        after = signs[np.minimum(quotes + 2, len(signs) - 1)]
        good |= (sign == _RETURN) & (after == _LINE_END) & (rank % 2 == 1)
        return np.asarray(~good)

    def _see_records(
        self, outside: NDArray[np.intp], ends: NDArray[np.intp], first_line: int, block: bytes
    ) -> None:
        """Count the fields between line ends that no quotes enclose."""
        is_end = np.isin(outside, ends, assume_unique=True)
        record_ends = np.flatnonzero(is_end)
        if not len(record_ends):
            self.n_before += len(outside)
            return
        n_fields = np.diff(record_ends, prepend=-1)
        n_fields[0] += self.n_before
        ragged = np.flatnonzero(n_fields != self.n_fields)
        last_line = np.searchsorted(ends, outside[record_ends])  # of each record, in the block
        begin = np.concatenate([[0], last_line[:-1] + 1])
        self.ragged_records.see(begin[ragged], first_line, block, n_fields[ragged])
        self.n_records += len(record_ends)
        self.n_before = len(outside) - 1 - int(record_ends[-1])

    def judged(self, path: Path) -> Records:
        """Choose the reading in which every record is whole, or refuse the file."""
        quoted = self.is_quoted and not self.is_open and not self.ragged_records.count
        lines = not self.ragged_lines.count
        if not (quoted or lines):
            raise DataError(self._refusal(path))
        as_lines = not quoted or (
            lines and self.n_records < self.n_lines and self.n_fields > 1
        )  # a quoted line end, yet every line is whole by itself: two strays, not one long field
        n_headers, n_odd = self.headers.count, self.odd_lines.count
        steps: list[Step] = []
        if as_lines:
            where = f"{n_odd:,} of {self.n_lines:,} lines where they do not enclose a field"
            text = f"took the quotes as they stand in {where}, {self.odd_lines}"
            steps.append(Step("quotes", text, {"lines": n_odd}))
        if n_headers:
            text = f"left out {n_headers:,} lines that repeat the header, {self.headers}"
            steps.append(Step("headers", text, {"lines": n_headers}))
        n_records = self.n_lines if as_lines else self.n_records
        n_rows = n_records - n_headers - bool(self.header)
        return Records(n_rows, not as_lines and self.quote is not None, n_headers, tuple(steps))

    def _refusal(self, path: Path) -> str:
        if self.is_quoted and not self.is_open:
            ragged = self.ragged_records
            expected, found = (
                (n - 1) // len(self.signs) + 1 for n in (self.n_fields, ragged.n_fields)
            )
            return (
                f"every record of '{path}' must have {expected} fields; found {ragged.count:,} of "
                f"{self.n_records:,} records with more or fewer, the first at line "
                f"{ragged.line:,} with {found}: {shortened(ragged.text)}; correct or remove those "
                "lines"
            )
        return (
            f"quotes in '{path}' must enclose whole fields, or every line must have "
            f"{self.n_fields} fields; found {self.odd_lines.count:,} of {self.n_lines:,} lines "
            f"with other quotes, {self.odd_lines}, and {self.ragged_lines.count:,} with more or "
            f"fewer fields, {self.ragged_lines}; correct those lines, or write a quote in a "
            "quoted field twice"
        )
