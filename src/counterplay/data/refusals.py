"""What goes wrong while a file is read, in one sentence."""

from __future__ import annotations

import lzma
import re
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.json as pa_json

from counterplay.data.formats import opened
from counterplay.errors import CounterplayError, DataError
from counterplay.places import no_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNREADABLE = (
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),  # panic: at some damaged files
    *(pa.ArrowException, OSError, ValueError),
    *(EOFError, lzma.LZMAError, zlib.error),  # of archives that are cut or damaged
)
_JSON_BLOCK = 1 << 30
_CHANGED = r"Column\(/(.*)\) changed from string to (\w+) in row (\d+)"


@contextmanager
def readable(path: object, kind: str) -> Iterator[None]:
    """Turn what goes wrong while reading a file into one sentence."""
    try:
        yield
    except CounterplayError:
        raise
    except FileNotFoundError:
        raise no_file(path) from None
    except UNREADABLE as error:
        what = first_line(error)
        if re.search("type mismatch|did not find column", what):
            raise DataError(
                f"all files of a log must have the same columns, of the same types; found in "
                f"'{path}': {what.split(', consider')[0]}; write them alike, or name those that are"
            ) from None
        if isinstance(error, pl.exceptions.NoDataError):
            what = "an empty file"
        elif kind == "ndjson" and "Syntax" in what:
            what = "a line that is not a JSON object"
        elif isinstance(error, EOFError) or re.search("unexpected end|[Tt]runcated", what):
            what = "a file that ends too early"
        elif re.search("data check|[Cc]hecksum|CRC", what):
            what = "a wrong checksum"
        raise DataError(
            f"'{path}' must be a whole, valid {kind} file; found {what}; check that it was copied "
            "completely and that its format is the one its name says"
        ) from None


def refuse_mixed_ids(path: Path, frame: pl.LazyFrame, columns: list[str]) -> None:
    """Refuse NDJSON whose ids are text in some rows and something else in others.

    The parser would turn both into the same text, and two users into one.
    """
    texts = [name for name in columns if frame.collect_schema()[name] == pl.String]
    if not texts:
        return
    schema = pa.schema([(name, pa.string()) for name in texts])
    try:
        with opened(path) as stream:
            options = pa_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            )
            pa_json.read_json(stream, pa_json.ReadOptions(block_size=_JSON_BLOCK), options)
    except pa.ArrowInvalid as error:
        changed = re.search(_CHANGED, str(error))
        if changed is None:
            return  # whatever it is, the reader itself will judge
        name, other, row = changed[1], changed[2], int(changed[3]) + 1
        raise DataError(
            f"ids must be all integers or all text; found column '{name}' to be a {other} at row "
            f"{row:,}, after texts; write them all in one type"
        ) from None


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
