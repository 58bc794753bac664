"""The signs of a text file, found out from its first lines: line ends, separator and quotes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from typing import TYPE_CHECKING

from counterplay.data.formats import BYTE_ORDER_MARK, opened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blank"}
N_BEFORE = 30  # lines that may stand before a header
_SAMPLE, _LONGEST = 1 << 16, 1 << 24  # bytes that are looked at; of a first line at most
_N_ROWS = 100  # lines of a sample below them


def sample_of(path: Path) -> bytes:
    """Return the begin of a file, at least its first line."""
    with opened(path) as stream:
        found: bytes = stream.read(_SAMPLE)
        while b"\n" not in found and len(found) < _LONGEST and (more := stream.read(len(found))):
            found += more
        if len(found) >= _SAMPLE and b"\n" in found:
            while len(found) < _LONGEST and found.count(b"\n") < 3:
                more = stream.read(len(found))
                found += more
                if not more:
                    break
            found = found[: found.rfind(b"\n") + 1]  # whole lines
    return found.removeprefix(BYTE_ORDER_MARK)


def lines_of(sample: bytes) -> list[str]:
    """Return the first lines of a sample."""
    lines = sample.decode("utf-8", "replace").split("\n")[: _N_ROWS + N_BEFORE]
    return [line.rstrip("\r") for line in lines]


def has_returns(sample: bytes) -> bool:
    """Tell whether lines end in carriage returns alone, some or all of them."""
    bare = re.sub(rb'"[^"]*"', b"", sample)
    return len(re.findall(rb"[^\r\n]\r(?!\n|\r|$)", bare)) > 0


def is_doubled(lines: Sequence[str]) -> bool:
    """Tell whether :: stands between fields."""
    there = [line for line in lines if line.strip()]
    counts = {line.count("::") for line in there}
    return len(counts) == 1 and min(counts) > 0 and not any("\t" in line for line in there)


def separator_of(lines: Sequence[str], kind: str) -> str:
    """Tell the separator: by the first line, or where that has none, by what lines share."""
    signs = [sign for sign in SEPARATORS if sign != " "]
    if kind == "tsv":
        signs = ["\t", *(sign for sign in signs if sign != "\t")]
    there = [re.sub(r'"[^"]*"', "", line) for line in lines if line.strip()]
    if not there:
        return signs[0]
    first = max(signs, key=there[0].count)
    if kind == "tsv" and "\t" in there[0]:
        return "\t"
    n_alike = Counter(line.count(first) for line in there)
    if there[0].count(first) and n_alike[there[0].count(first)] * 2 >= len(there):
        return first

    def shared(sign: str) -> tuple[int, int]:
        counts = Counter(line.count(sign) for line in there)
        del counts[0]
        most = max(counts.items(), key=lambda each: (each[1], each[0]), default=(0, 0))
        return most[1], most[0]

    best = max(signs, key=shared)
    if not shared(best)[0]:
        n_blanks = {line.strip().count(" ") for line in there}
        return " " if len(n_blanks) == 1 and min(n_blanks) else signs[0]
    return best if shared(best)[0] * 2 > len(there) else first


def is_single(lines: Sequence[str], separator: str) -> bool:
    """Tell whether ' stands around all fields of a column."""
    rows = [line.split(separator) for line in lines if line.strip()][1:]
    if not rows or any('"' in line for line in lines):
        return False
    width = min(map(len, rows))
    return any(
        all(re.fullmatch(r"\s*'[^']*'\s*", row[place]) for row in rows)
        for place in (*range(width), -1)
    )


def fields_of(line: str, separator: str, quote: str | None) -> list[str]:
    """Return the fields of a line."""
    if not quote:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, quotechar=quote), [])
    except csv.Error:  # a very long field
        return line.split(separator)
