"""Copies of files that cannot be read as they are: unpacked, in UTF-8, with plain line ends."""

from __future__ import annotations

import bz2
import codecs
import lzma
import re
import shutil
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from counterplay.data.formats import opened
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1 << 20
_LONGEST_LINE = 1 << 26  # signs that are held, though no line ends
_LARGEST = 1 << 38  # bytes of an unpacked file


class Scratch:
    """A folder that goes when nothing needs it any more."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="counterplay-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def take(self, stream: IO[bytes], name: str) -> Path:
        """Copy a stream into a file."""
        path, n_others = self.folder / name, 0
        while path.exists():  # a file of the same name from elsewhere
            n_others += 1
            path = self.folder / f"{n_others}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            shutil.copyfileobj(stream, file, _BLOCK)
        return path


UNPACKED = (".bz2", ".xz", ".zip")


def unpacked(path: Path, scratch: Scratch) -> Path:
    """Unpack what the parsers do not: bzip2, xz, or a zip archive of one file."""
    name = path.stem
    if path.suffix.lower() == ".bz2":
        with bz2.open(path, "rb") as stream:
            return scratch.take(stream, name)
    if path.suffix.lower() == ".xz":
        with lzma.open(path, "rb") as stream:
            return scratch.take(stream, name)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                each for each in archive.infolist()
                if not each.is_dir() and not each.filename.startswith("__MACOSX/")
            ]  # fmt: skip
            names = [each.filename for each in members]
            if "[Content_Types].xml" in names:
                raise DataError(
                    f"'{path}' must be a text file or Parquet; found an Excel workbook; save the "
                    "sheet as CSV"
                )
            if len(members) != 1 or members[0].file_size > _LARGEST:
                shown = ", ".join(sorted(names)[:5])
                raise DataError(
                    f"a zip archive must hold one file of a log; found {len(names)} in '{path}'"
                    f"{': ' if names else ''}{shown}; unpack it and name the file"
                )
            with archive.open(members[0]) as stream:
                return scratch.take(stream, Path(names[0]).name)
    except (zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: it has a password
        raise DataError(
            f"'{path}' must be a whole zip archive without a password; found {error}; unpack it "
            "and name the file"
        ) from None


def rewritten(
    path: Path, scratch: Scratch, *, encoding: str = "utf-8", returns: bool = False,
    ends: str = "", first_only: bool = False, doubled: bool = False,
) -> Path:  # fmt: skip
    """Copy a text in UTF-8, and change what is asked for.

    Carriage returns become line ends (`returns`), what stands at the `ends` of lines goes (of the
    first such line alone, with `first_only`), and `::` becomes a tab (`doubled`).
    """
    target = scratch.folder / f"{path.stem.split('.')[0]}.csv"
    while target.exists():
        target = target.with_name(f"_{target.name}")
    trailing = re.compile(rf"{re.escape(ends)}(?=\r?\n|\Z)") if ends else None
    with target.open("w", encoding="utf-8", newline="") as file:
        for text in _texts(path, encoding):
            if returns:
                text = text.replace("\r\n", "\n").replace("\r", "\n")
            if doubled:
                text = text.replace("::", "\t")
            if trailing:
                text, n_done = trailing.subn("", text, count=int(first_only))
                trailing = None if first_only and n_done else trailing
            file.write(text)
    return target


def _texts(path: Path, encoding: str) -> Iterator[str]:
    """Yield a file as text, in pieces that end where a line does."""
    decoder = codecs.getincrementaldecoder(encoding)()
    held, before = "", 0
    with opened(path) as stream:
        while chunk := stream.read(_BLOCK):
            held += _decoded(decoder, chunk, path, encoding, before)
            before += len(chunk)
            end = max(held.rfind("\n"), held.rfind("\r", 0, -1)) + 1  # a return may be half an end
            if len(held) > _LONGEST_LINE:
                end = len(held)
            yield held[:end]
            held = held[end:]
    yield held + _decoded(decoder, b"", path, encoding, before)


def _decoded(
    decoder: codecs.IncrementalDecoder, chunk: bytes, path: Path, encoding: str, before: int
) -> str:
    try:
        return decoder.decode(chunk, final=not chunk).removeprefix("" if before else "\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(
            f"'{path}' must be text in {encoding}; found the bytes "
            f"{error.object[error.start : error.end].hex(' ')} near byte {before + error.start:,}; "
            "name another with encoding=…, on the command line with --encoding"
        ) from None
