"""In which encoding a text is, where its bytes tell it for certain."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from counterplay.data.findings import Step, shortened
from counterplay.data.formats import opened
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.records import NotUtf8

_BLOCK = 1 << 20
_MARKS = {
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
_HIGH = re.compile(rb"[\x80-\xff]+")
_UNUSED = b"\x81\x83\x88\x8d\x8f\x90\x98\x9d"  # in cp1252, or hardly ever
_IN_WORD = re.compile(rb"[A-Za-z][\x80-\xff]+|[\x80-\xff]+[A-Za-z]")
_IN_WORDS = re.compile(rb"[A-Za-z][\xa1-\xbf][A-Za-z]")  # signs there, letters in other encodings
_OTHERS = ("cp1252", "cp1250", "cp1251", "gb18030", "shift_jis")
_ALONE, _TOGETHER = 1.5, 2.2  # such signs in a row, on average: among others, and within words
_LATIN_WORDS = 0.8  # share of such rows that stand beside a letter of ASCII, in western words


def checked(encoding: str) -> str:
    """Return the usual name of an encoding; refuse one that is not known."""
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)
    except (LookupError, TypeError, ValueError):
        raise ConfigError(
            f"an encoding must be a known one, such as cp1252 or utf-16; found {encoding!r}; "
            "correct encoding, on the command line --encoding"
        ) from None
    return {"utf-8-sig": "utf-8", "iso8859-1": "latin-1"}.get(name, name)


def marked_encoding(path: Path) -> str | None:
    """Tell UTF-16 and UTF-32 by their mark, or by the zeros between the letters."""
    with opened(path) as stream:
        head = stream.read(4096)
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    even, odd = head[::2].count(0), head[1::2].count(0)
    n = max(1, len(head) // 2)
    if odd > 0.4 * n and even < 0.05 * n:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 * n and odd < 0.05 * n else None


def western_encoding(path: Path, first: NotUtf8) -> tuple[str, Step]:
    """Return latin-1 or cp1252 where a text that is not UTF-8 can hardly be in another; or refuse.

    In both, letters beyond ASCII stand alone among others; in most other encodings they do not.
    """
    n_high = n_runs = n_in_words = n_lines = n_utf8 = 0
    used: set[int] = set()
    in_words = False
    with opened(path) as stream:
        while block := stream.read(_BLOCK):
            if block.isascii():
                continue
            runs = _HIGH.findall(block)
            n_runs += len(runs)
            n_high += sum(map(len, runs))
            n_in_words += len(_IN_WORD.findall(block))
            used.update(b"".join(runs))
            in_words = in_words or _IN_WORDS.search(block) is not None
            lines = [line for line in block.split(b"\n") if not line.isascii()]
            n_lines += len(lines)
            n_utf8 += sum(map(_is_utf8, lines))
    if n_utf8 * 10 > n_lines:
        raise DataError(
            f"'{path}' must be in one encoding; found {n_utf8:,} lines in UTF-8 and "
            f"{n_lines - n_utf8:,} in another, the first at line {first.line:,}; write it again, "
            "or name one with encoding=…, on the command line with --encoding"
        )
    together = _TOGETHER if n_in_words >= _LATIN_WORDS * n_runs else _ALONE
    if in_words or used & set(_UNUSED) or n_high > together * n_runs:
        raise _unknown(path, first)
    name = "cp1252" if any(sign < 0xA0 for sign in used) else "latin-1"
    line = shortened(first.text.decode(name, "replace").rstrip("\r"))
    text = (
        f"the file is not UTF-8 and was read as {name}: {n_lines:,} lines have letters beyond "
        f"ASCII, the first at line {first.line:,}: {line}"
    )
    return name, Step("encoding", text, {"lines": n_lines})


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unknown(path: Path, first: NotUtf8) -> DataError:
    readings = []
    for name in _OTHERS:
        try:
            readings.append(f"{shortened(first.text.decode(name).strip())} in {name}")
        except UnicodeDecodeError:
            continue
    return DataError(
        f"'{path}' must be in UTF-8, or its encoding must be said; found other bytes at line "
        f"{first.line:,}, which is {', '.join(readings) or 'in none of the usual ones'}; name it "
        "with encoding=…, on the command line with --encoding"
    )
