"""How a text file is written: its encoding, separator, quotes and header, said or found out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from counterplay.data.encodings import checked, marked_encoding
from counterplay.data.findings import Step, shortened
from counterplay.data.roles import columns_of
from counterplay.data.samples import (
    N_BEFORE,
    SEPARATORS,
    fields_of,
    has_returns,
    is_doubled,
    is_single,
    lines_of,
    sample_of,
    separator_of,
)
from counterplay.data.scratch import Scratch, rewritten
from counterplay.errors import ConfigError, CounterplayError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_WORDS = {name: sign for sign, name in SEPARATORS.items()} | {"\\t": "\t", "space": " "}
_MANY = 10_000  # columns that no log has
_NUMBER = re.compile(r"[+-]?(\d[\d.,]*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
_RULE = re.compile(r"\s*(:?-{2,}:?)?\s*")
_EPOCH = 1e8  # numbers from here on may be seconds since 1970


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is said of a text file; None is found out."""

    header: bool | None = None
    separator: str | None = None
    quote: str | None = None
    encoding: str | None = None

    def checked(self) -> Dialect:
        """Return the same in one spelling; refuse what makes no sense."""
        separator, quote = self.separator, self.quote
        if separator is not None:
            separator = _WORDS.get(separator, separator)
            if separator != "::" and (len(separator) != 1 or separator in '\n\r"'):
                raise ConfigError(
                    "a separator must be one sign, '::', or one of "
                    f"{', '.join(SEPARATORS.values())}; found {self.separator!r}; correct "
                    "separator, on the command line --separator"
                )
        if quote is not None:
            quote = {"none": "", "single": "'", "double": '"'}.get(quote, quote)
            if len(quote) > 1 or quote in ("\n", "\r"):
                raise ConfigError(
                    "a quote must be one sign, or 'none' for none; found "
                    f"{self.quote!r}; correct quote, on the command line --quote"
                )
        encoding = None if self.encoding is None else checked(self.encoding)
        return Dialect(self.header, separator, quote, encoding)


UNSAID = Dialect()


@dataclass(frozen=True, slots=True)
class Written:
    """How a text file is written, and where to read it: the file itself, or a copy of it."""

    path: Path
    separator: str
    quote: str | None = '"'
    header: bool = True
    skip: int = 0  # lines before the header
    encoding: str = "utf-8"
    steps: tuple[Step, ...] = ()
    numbered: Mapping[str, str] = field(default_factory=dict)  # roles, where there are no names
    scratch: Scratch | None = None  # what the copy lies in
    doubled: bool = False  # the copy has tabs where the file has ::

    def shown(self, row: Sequence[str]) -> str:
        """Return a line as a message shows it."""
        return shortened(("::" if self.doubled else self.separator).join(row).strip())

    @property
    def facts(self) -> dict[str, str]:
        """What it is, in words."""
        sign = "tab" if self.separator == "\t" else f"'{self.separator}'"
        sign = "'::'" if self.doubled else sign
        header = f"line {self.skip + 1}" if self.header else "none; columns are numbered from 1"
        quote = "none" if self.quote is None else self.quote
        return {"header": header, "separator": sign, "quote": quote, "encoding": self.encoding}


def written(
    path: Path, kind: str, said: Dialect, wanted: Mapping[str, str | None] | None
) -> Written:
    """Look at the begin of a file, and tell how it is written; `wanted` names columns by role."""
    encoding = said.encoding or marked_encoding(path) or "utf-8"
    scratch, place, steps = None, path, []
    if encoding != "utf-8":
        scratch = Scratch()
        place = rewritten(path, scratch, encoding=encoding)
        if said.encoding is None:
            steps.append(Step("encoding", f"the file is in {encoding}, as its first bytes say"))
    sample = sample_of(place)
    if b"\0" in sample:
        raise DataError(
            f"'{path}' must be text, as its name says; found binary data; rename it so that its "
            "ending is right, or say which format it is with format=…, on the command line with "
            "--format"
        )
    if has_returns(sample):
        scratch = scratch or Scratch()
        place = rewritten(place, scratch, returns=True)
        sample = sample_of(place)
        steps.append(Step("lines", "took carriage returns as line ends"))
    lines = lines_of(sample)
    doubled = said.separator == "::" or (said.separator is None and is_doubled(lines))
    if doubled:
        scratch = scratch or Scratch()
        place = rewritten(place, scratch, doubled=True)
        said, lines = replace(said, separator="\t"), [line.replace("::", "\t") for line in lines]
        steps.append(Step("separator", "took '::' as the separator"))
    first = re.match(r"(?i)sep=(.)\s*$", lines[0]) if lines else None
    skip = next((place for place, line in enumerate(lines) if line.strip()), 0)
    if first:
        said = replace(said, separator=said.separator or first[1])
        skip, lines[0] = 1, ""
    quote = '"' if said.quote is None else said.quote or None
    separator = said.separator or separator_of(lines[skip:], kind)
    if said.quote is None and is_single(lines[skip:], separator):
        quote = "'"
        steps.append(Step("quotes", "took ' as the quote around fields"))
    rows = [fields_of(line, separator, quote) for line in lines]
    _refuse_wide(path, rows, skip)
    found = Written(
        place, separator, quote, True, skip, encoding, tuple(steps), {}, scratch, doubled
    )  # fmt: skip
    found = _with_header(found, path, rows, said, wanted)
    return _without_ends(found, rows)


def _refuse_wide(path: Path, rows: Sequence[Sequence[str]], skip: int) -> None:
    first = rows[skip] if skip < len(rows) else ()
    n_named = max((place + 1 for place, name in enumerate(first) if name.strip()), default=0)
    if n_named > _MANY:
        raise DataError(
            f"a log must have one row an event, and at most {_MANY:,} columns; found {n_named:,} "
            f"in the first line of '{path}', which begins with "
            f"{shortened(', '.join(first[:6]))}; if it is a matrix of users and items, write one "
            "row for each of its entries; if its line ends are lost, export it again"
        )


def _with_header(
    found: Written, path: Path, rows: Sequence[list[str]], said: Dialect,
    wanted: Mapping[str, str | None] | None,
) -> Written:  # fmt: skip
    """Find the header: below some lines of a title, or none at all."""
    if found.skip >= len(rows):
        return found
    first, below = rows[found.skip], [row for row in rows[found.skip + 1 :] if any(row)]
    if wanted is None:
        return replace(found, header=said.header is not False)
    if said.header is False:
        return _without_header(found, path, first, below, wanted)
    if _holds_roles(first, wanted) or said.header:
        _refuse_odd(path, found, first, below, wanted)
        return found
    title = next(
        (place for place, row in enumerate(rows[: found.skip + N_BEFORE]) if place > found.skip
         and len(row) > 1 and _holds_roles(row, wanted)), None,
    )  # fmt: skip
    if title is not None:
        shown = found.shown(first)
        text = f"left out {title - found.skip:,} lines before the header, the first is {shown}"
        step = Step("headers", text, {"lines": title - found.skip})
        _refuse_odd(path, found, rows[title], rows[title + 1 :], wanted)
        return replace(found, skip=title, steps=(*found.steps, step))
    if not _looks_like_data(first, below):
        return found
    named = [wanted.get(role) for role in ("user", "item")]
    if all(name and name.isdecimal() and 0 < int(name) <= len(first) for name in named):
        step = Step("headers", "the first line is data: columns are numbered from 1")
        return replace(found, header=False, steps=(*found.steps, step))
    raise DataError(
        f"the first line of '{path}' must name the columns, or be said not to; found "
        f"{found.shown(first)}, which looks like data; add header=False, on "
        "the command line --no-header: columns are then numbered from 1, as in --user 1 --item 2"
    )


def _refuse_odd(
    path: Path, found: Written, names: list[str], below: Sequence[list[str]],
    wanted: Mapping[str, str | None],
) -> None:  # fmt: skip
    """Refuse a column that is there twice, and a line of dashes below the header."""
    bare = [name.strip() for name in names]
    if (
        below
        and all(_RULE.fullmatch(field) for field in below[0])
        and any(map(str.strip, below[0]))
    ):
        raise DataError(
            f"below the header of '{path}' must be data; found "
            f"{found.shown(below[0])}; remove that line"
        )
    try:
        roles = columns_of(wanted, bare)
    except CounterplayError:
        return  # whoever reads it says so
    twice = next((name for name in roles.values() if bare.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"a column must have a name of its own; found '{twice}' {bare.count(twice)} times in "
            f"'{path}'; rename one of them"
        )


def _holds_roles(names: Sequence[str], wanted: Mapping[str, str | None]) -> bool:
    """Tell whether a line names columns of users and items."""
    try:
        columns_of(wanted, [name.strip() for name in names])
    except DataError as error:
        return "random rows must say" in str(error)  # the others are there
    except CounterplayError:
        return True  # found, though not as they should be
    return True


def _looks_like_data(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Tell whether a first line is of the kind of those below: numbers where they have numbers."""
    for place, value in enumerate(first):
        column = [row[place] for row in below if place < len(row)]
        if _is_typed(value) and all(map(_is_typed, filter(str.strip, column))):
            return True
        if len(value.strip()) > 1 and value in column:
            return True
    return False


def _is_typed(value: str) -> bool:
    bare = value.strip()
    return bool(_NUMBER.fullmatch(bare) or _DATE.fullmatch(bare))


def _without_header(
    found: Written, path: Path, first: list[str], below: list[list[str]],
    wanted: Mapping[str, str | None],
) -> Written:  # fmt: skip
    """Number the columns; where none is named, take them in the order that most logs have."""
    free: Mapping[str, str | None] = dict.fromkeys(wanted)
    if _holds_roles(first, free) and not _looks_like_data(first, below):
        raise ConfigError(
            f"a file without a header must begin with data; found '{path}' to begin with the names "
            f"{found.shown(first)}; leave header=False out, on the command "
            "line --no-header"
        )
    if any(name not in (None, "-") for name in wanted.values()):
        return replace(found, header=False)
    numbered = {"user": "1", "item": "2"}
    for place in range(2, len(first)):
        column = [row[place].strip() for row in [first, *below] if place < len(row)]
        if not all(map(_is_typed, column)):
            continue
        role = "time" if all(map(_may_be_time, column)) else "rating"
        if role not in numbered and wanted.get(role) is None:
            numbered[role] = str(place + 1)
    taken = ", ".join(f"{role} from {name}" for role, name in numbered.items())
    text = f"the file has no header: took {taken}, as most logs have them"
    steps = (*found.steps, Step("columns", text))
    return replace(found, header=False, numbered=numbered, steps=steps)


def _may_be_time(value: str) -> bool:
    if _DATE.fullmatch(value):
        return True
    try:
        return float(value) >= _EPOCH
    except ValueError:
        return False


def _without_ends(found: Written, rows: Sequence[list[str]]) -> Written:
    """Take off separators at the ends of lines, where lines would not be alike otherwise."""
    below = [row for row in rows[found.skip + 1 :] if any(row)]
    if not found.header or not below:
        return found
    first, widths = rows[found.skip], {len(row) for row in below}
    n_named = max((place + 1 for place, name in enumerate(first) if name.strip()), default=0)
    in_header, in_rows = len(first) - n_named, max(widths) - n_named
    if len(widths) > 1 or any(any(row[n_named:]) for row in below):
        return found
    if in_rows < 0 or in_header > in_rows > 0 or (in_header == in_rows < _MANY):
        return found
    scratch = found.scratch or Scratch()
    number = in_rows or in_header
    place = rewritten(found.path, scratch, ends=found.separator * number, first_only=not in_rows)
    text = f"took off {number:,} separators at the ends of {'lines' if in_rows else 'the header'}"
    return replace(
        found, path=place, scratch=scratch, steps=(*found.steps, Step("separator", text))
    )
