"""Files of a log: what format they are in, by their names and by how they begin.

Nothing slow is loaded for it, so that what is wrong is told at once.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast, get_args

from counterplay.errors import DataError
from counterplay.places import no_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

FileFormat = Literal["csv", "tsv", "parquet", "ndjson"]
Progress = Callable[[int, int | None], None]  # rows so far, rows in all where known

UNTYPED = ("csv", "tsv")
COMPRESSED = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
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
_PAGES = (b"<!doctype", b"<html")
_WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods")


def format_of(path: Path) -> FileFormat:
    """Tell a file's format by its name, or by how it begins where the name does not say."""
    if not path.exists():
        raise no_file(path)
    if path.is_dir():
        raise DataError(f"a table must be a file; found the folder '{path}'; name a file in it")
    refuse_pipe(path)
    return known_format(path) or _format_within(path)


def refuse_pipe(path: Path) -> None:
    """Refuse what can be read only once."""
    if path.exists() and not path.is_file():
        raise DataError(
            f"a table must be a file, which is read more than once; found a pipe at '{path}'; "
            "write a file, or pipe a log into the command and name it '-'"
        )


def known_format(path: Path) -> FileFormat | None:
    """Tell a file's format by its name alone."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def _format_within(path: Path) -> FileFormat:
    with opened(path) as stream:
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


def opened(path: Path) -> IO[bytes]:
    """Open a file for its bytes, unpacked where its name says that they are packed."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path))
    if suffix == ".zst":
        import pyarrow as pa

        return cast("IO[bytes]", pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


def check_content(path: Path, kind: FileFormat) -> None:
    """Compare a file's first bytes with its name."""
    with path.open("rb") as file:
        head = file.read(4096).removeprefix(BYTE_ORDER_MARK)
    expected = {"parquet": b"PAR1"}.get(kind, COMPRESSED.get(path.suffix.lower(), b""))
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
        import pyarrow.parquet as pq

        pq.read_metadata(path)  # refuses what is cut off, before anything else looks at it
