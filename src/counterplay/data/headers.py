"""The columns of a file at a glance: what is wrong with them is told before anything is loaded."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

from counterplay.data.dialects import UNSAID, Dialect, Written, written
from counterplay.data.formats import (
    BYTE_ORDER_MARK,
    UNTYPED,
    FileFormat,
    check_content,
    format_of,
)
from counterplay.data.roles import columns_of
from counterplay.data.samples import fields_of, lines_of, sample_of
from counterplay.data.scratch import UNPACKED, Scratch
from counterplay.errors import CounterplayError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_KNOWN = get_args(FileFormat)


class _Header(NamedTuple):
    names: list[str]
    numbered: Mapping[str, str]  # roles, where there are no names


def header_of(path: Path) -> list[str] | None:
    """Return the names of a file's columns; None where only its reader can tell."""
    found = _glance(path, UNSAID, None, None)
    return found and found.names


def check_columns(
    path: Path,
    wanted: Mapping[str, str | None],
    said: Dialect = UNSAID,
    kind: str | None = None,
    *,
    second: bool = False,
) -> None:
    """Refuse a file of a log that has not the columns that are wanted, where a glance tells."""
    found = _glance(path, said.checked(), wanted, kind)
    if found is not None:
        numbered = {role: name or found.numbered.get(role) for role, name in wanted.items()}
        columns_of(numbered, found.names, second=second)


def _glance(
    path: Path, said: Dialect, wanted: Mapping[str, str | None] | None, said_kind: str | None
) -> _Header | None:
    if str(path) == "-" or not path.is_file() or path.suffix.lower() in UNPACKED:
        return None  # standard input, several files, or an archive
    if said_kind not in (None, *_KNOWN):
        return None  # a public dataset
    try:
        kind = cast("FileFormat | None", said_kind) or format_of(path)
        check_content(path, kind)
        if kind == "parquet":
            return _of_parquet(path)
        return _of_text(path, kind, said, wanted) if kind in UNTYPED else None
    except CounterplayError:
        raise
    except (OSError, ValueError, EOFError, zlib.error):
        return None


def _of_parquet(path: Path) -> _Header | None:
    import pyarrow.parquet as pq

    names = pq.read_schema(path).names
    told = any("=" in part for part in path.parts[:-1])  # folders say values of columns
    return None if told or len({*names}) < len(names) else _Header(names, {})


def _of_text(
    path: Path, kind: FileFormat, said: Dialect, wanted: Mapping[str, str | None] | None
) -> _Header | None:
    """Read a copy of the file's begin in the way that the file will be read."""
    sample, scratch = sample_of(path), Scratch()
    copy = scratch.take(BytesIO(sample), f"{path.name.split('.')[0]}.{kind}")
    try:
        found = written(copy, kind, said, wanted)
    except CounterplayError:
        return None  # its reader says it, with the right name
    lines = lines_of(sample_of(found.path))
    line = lines[found.skip] if found.skip < len(lines) else ""
    if sample.startswith(BYTE_ORDER_MARK) or "\ufffd" in line or not line.strip():
        return None
    fields = fields_of(line, found.separator, found.quote)
    if not _is_plain(line, fields, found):
        return None
    if found.header:
        return _Header(fields, {}) if len({*fields}) == len(fields) else None
    return _Header([str(place) for place in range(1, len(fields) + 1)], found.numbered)


def _is_plain(line: str, fields: list[str], found: Written) -> bool:
    """Tell whether every parser takes a line for these fields: quotes enclose whole ones."""
    sign, quote = found.separator, found.quote
    if not sign.isascii() or any(sign in each for each in fields):
        return False
    around = f"{sign}{line}{sign}"
    n_enclosed = sum(f"{sign}{quote}{each}{quote}{sign}" in around for each in fields)
    return not quote or line.count(quote) == 2 * n_enclosed
