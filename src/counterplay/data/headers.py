"""The columns of a file at a glance: what is wrong with them is told before anything is loaded."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

from counterplay.data.dialects import UNSAID, Dialect, written
from counterplay.data.formats import UNTYPED, FileFormat, check_content, format_of
from counterplay.data.roles import columns_of
from counterplay.data.scratch import UNPACKED, Scratch
from counterplay.data.signs import fields_of, lines_of, sample_of
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
        columns_of(numbered, found.names, second=second, quantities=True)


def _glance(
    path: Path, said: Dialect, wanted: Mapping[str, str | None] | None, said_kind: str | None
) -> _Header | None:
    if not path.is_file() or path.suffix.lower() in UNPACKED or said_kind not in (None, *_KNOWN):
        return None  # several files, standard input, an archive, or a public dataset
    try:
        kind = cast("FileFormat | None", said_kind) or format_of(path)
        check_content(path, kind)
        if kind == "parquet":
            import pyarrow.parquet as pq

            return _Header(pq.read_schema(path).names, {})
        return _of_text(path, kind, said, wanted) if kind in UNTYPED else None
    except CounterplayError:
        raise
    except (OSError, ValueError, EOFError, zlib.error):
        return None


def _of_text(
    path: Path, kind: FileFormat, said: Dialect, wanted: Mapping[str, str | None] | None
) -> _Header | None:
    """Read a copy of the file's begin in the way that the file will be read."""
    scratch = Scratch()
    copy = scratch.take(BytesIO(sample_of(path)), f"{path.name.split('.')[0]}.{kind}")
    try:
        found = written(copy, kind, said, wanted)
    except CounterplayError:
        return None  # its reader says it, with the right name
    line = lines_of(sample_of(found.path))[found.skip]
    if "\ufffd" in line or (found.quote and line.count(found.quote) % 2):
        return None
    fields = fields_of(line, found.separator, found.quote)
    if not found.header:
        fields = [str(place) for place in range(1, len(fields) + 1)]
    return _Header(fields, found.numbered)
