"""Files of a log: what format they are in, and whether they are whole."""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, get_args

import polars as pl
import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from counterplay.data.records import BYTE_ORDER_MARK
from counterplay.errors import CounterplayError, DataError
from counterplay.places import no_file

if TYPE_CHECKING:
    from pathlib import Path

FileFormat = Literal["csv", "tsv", "parquet", "ndjson"]
Progress = Callable[[int, int | None], None]  # rows so far, rows in all where known

_SUFFIXES: dict[str, FileFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}
_MAGIC = {
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "compressed with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"PK\x03\x04": "a zip archive",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"SQLite": "a SQLite database",
}
UNREADABLE = (
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),  # panic: at some damaged files
    *(pa.ArrowException, OSError, ValueError),
    *(EOFError, lzma.LZMAError, zlib.error),  # of archives that are cut or damaged
)
_PAGES = (b"<!doctype", b"<html")
_WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods")
_COMPRESSED = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
_JSON_BLOCK = 1 << 30
_CHANGED = r"Column\(/(.*)\) changed from string to (\w+) in row (\d+)"


def format_of(path: Path) -> FileFormat:
    """Tell a file's format by its name, or by how it begins where the name does not say."""
    if not path.exists():
        raise no_file(path)
    if path.is_dir():
        raise DataError(f"a table must be a file; found the folder '{path}'; name a file in it")
    return known_format(path) or _format_within(path)


def known_format(path: Path) -> FileFormat | None:
    """Tell a file's format by its name alone."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def _format_within(path: Path) -> FileFormat:
    with pa.input_stream(str(path), compression="detect") as stream:
        head = stream.read(4096).removeprefix(BYTE_ORDER_MARK)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.lstrip().startswith(b"{"):
        return "ndjson"
    named = next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)
    if path.suffix.lower() in _WORKBOOKS:
        named = "a workbook, whose sheet can be saved as CSV"
    utf16 = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    if named or (b"\0" in head and not utf16) or head.lstrip().startswith((b"[", b"<")):
        begin = head.lstrip()[:20].decode(errors="replace")
        found = named or ("binary data" if b"\0" in head else repr(begin))
        raise DataError(
            f"'{path}' must be {', '.join(get_args(FileFormat))} or a compressed one of these; "
            f"found {found}; convert it, or say which it is with format=…, on the command line "
            "with --format"
        )
    return "csv"


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
        elif re.search("unexpected end|[Tt]runcated", what):
            what = "a file that ends too early"
        elif re.search("data check|[Cc]hecksum", what):
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
        with pa.input_stream(str(path), compression="detect") as stream:
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


def check_content(path: Path, kind: FileFormat) -> None:
    """Compare a file's first bytes with its name."""
    with path.open("rb") as file:
        head = file.read(4096).removeprefix(BYTE_ORDER_MARK)
    expected = {"parquet": b"PAR1"}.get(kind, _COMPRESSED.get(path.suffix.lower(), b""))
    found = next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)
    if not head:
        raise DataError(
            f"'{path}' must have contents; found an empty file; check that its export ended"
        )
    if expected and not head.startswith(expected):
        found = found or "something else"
    elif expected:
        found = None
    elif kind == "ndjson" and not head.lstrip().startswith(b"{"):
        found = found or "lines that are not JSON objects"
    elif kind in ("csv", "tsv") and head.lstrip().startswith(b"{"):
        found = "JSON objects"
    elif kind in ("csv", "tsv") and head.lstrip()[:9].lower().startswith(_PAGES):
        found = "a web page"
    if found:
        raise DataError(
            f"'{path}' must be what its name says, {kind}; found {found}; rename it so that its "
            "ending is right, unpack it, or say which format it is with format=…, on the command "
            "line with --format"
        )
    if kind == "parquet":
        pq.read_metadata(path)  # refuses what is cut off, before anything else looks at it
