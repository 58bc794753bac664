"""Malformed files: each is refused in one sentence, or read as an independent reader reads it."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.faults.campaign import emptied, rng_of, said_wrongly, started

_TOGETHER = 100  # cases that share a process
_N_ROWS = 40
_NASTY = [
    *(b'"', b'""', b'\\"', b",", b";", b"\t", b"\n", b"\r\n", b"\r", b"\n\n", b" ", b"\0", b"'"),
    *(
        b"nan",
        b"NULL",
        b"None",
        b"N/A",
        b"-1",
        b"05",
        b" 5",
        b"1e9",
        b"inf",
        b"9" * 30,
        b"\x1b[31m",
    ),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\xa9", b"\xe9", b"x" * 2_000, b"user,item,time,name\n"),
    *(b"{", b"}", b"[" * 200, b"]", b"::", b"u1,i1\n", b"u1,i1,1,a,b\n", b'u1,i1,1,TV 24"\n'),
]
_BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace() and not "\x1c" <= c <= "\x1f")


class Malformed:
    """Case number n: which format and which damage follow from the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._found: dict[int, dict[str, Any]] = {}

    def prepare(self, folder: Path) -> None:
        """Nothing is there beforehand."""

    def try_case(self, number: int, folder: Path) -> dict[str, Any]:
        """Return what came of a case; some are tried together."""
        if number not in self._found:
            self._found = self._tried(number, folder)
        fallen = {"outcome": "the process died", "fault": "the process died"}
        return self._found.pop(number, fallen)

    def _tried(self, first: int, folder: Path) -> dict[int, dict[str, Any]]:
        found = folder / "found"
        found.unlink(missing_ok=True)
        numbers = range(first, first + _TOGETHER)
        process = started(
            _several_tried, self.seed, numbers, folder / "here", found, log=folder / "w"
        )
        process.join(600)
        process.kill()
        lines = found.read_text().splitlines() if found.exists() else []
        cases = {number: json.loads(line) for number, line in zip(numbers, lines, strict=False)}
        if len(cases) < _TOGETHER:  # the one that it died of is not tried again
            cases[first + len(cases)] = {
                "outcome": "the process died",
                "fault": f"exit code {process.exitcode}: {(folder / 'w').read_text()[-300:]}",
            }
        return cases


def _several_tried(seed: int, numbers: range, folder: Path, found: Path) -> None:
    with patch("os.fsync"), found.open("a") as file:  # no power will be cut here; disks are slow
        for number in numbers:
            print(
                json.dumps(_try(rng_of(seed, "malformed", number), folder)), file=file, flush=True
            )


def _try(rng: np.random.Generator, folder: Path) -> dict[str, Any]:
    from counterplay.cli.main import main

    here = emptied(folder)
    path, content = _malformed(rng, here)
    words, code = io.StringIO(), None
    with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
        try:
            main(["prepare", str(path), "--out", str(here / "data"), "--json"])
        except SystemExit as error:
            code = error.code
        except BaseException as error:  # what main lets through is what is looked for
            code = repr(error)
    said = words.getvalue()
    fault = said_wrongly(said)
    if not fault and code == 2:
        left = sorted(each.name for each in here.iterdir() if each != path)
        if left:
            fault = f"left behind {', '.join(left)}"
        elif said.strip().count("\n") or said.count(";") < 2:
            fault = f"not one sentence in three parts: {said.strip()[:300]}"
    elif not fault and code == 0:
        fault = _misread(path, content, here / "data")
    elif not fault:
        fault = f"exit code {code}: {said.strip()[-300:]}"
    if fault:
        kept = folder.parent / "kept"
        kept.mkdir(exist_ok=True)
        shutil.copy(path, kept)
    return {"outcome": f"{path.suffixes[0]}, exit code {code}", "fault": fault}


def _malformed(rng: np.random.Generator, here: Path) -> tuple[Path, bytes]:
    kind = str(rng.choice(["csv", "tsv", "ndjson", "parquet"], p=[0.5, 0.2, 0.2, 0.1]))
    rows = [
        {"user": f"u{u}", "item": f"i{i}", "time": 1_600_000_000 + t, "name": name}
        for t, (u, i, name) in enumerate(
            zip(
                rng.integers(8, size=_N_ROWS),
                rng.integers(12, size=_N_ROWS),
                rng.choice(["radio", "lamp, green", "a b", "TV"], size=_N_ROWS),
                strict=True,
            )
        )
    ]
    if rng.random() < 0.3:  # ids as integers
        rows = [row | {"user": int(row["user"][1:]), "item": int(row["item"][1:])} for row in rows]
    content = _written(kind, rows)
    for _ in range(int(rng.integers(1, 4))):
        content = _damaged(content, rng)
    path = here / f"log.{kind}"
    if kind != "parquet" and rng.random() < 0.1:
        path = here / f"log.{kind}.gz"
        packed = gzip.compress(content, mtime=0)
        path.write_bytes(_damaged(packed, rng) if rng.random() < 0.3 else packed)
    else:
        path.write_bytes(content)
    return path, content


def _written(kind: str, rows: list[dict[str, Any]]) -> bytes:
    if kind == "ndjson":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind == "parquet":
        import polars as pl

        file = io.BytesIO()
        pl.DataFrame(rows).write_parquet(file)
        return file.getvalue()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter="\t" if kind == "tsv" else ",")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _damaged(content: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(content) + 1))
    end = min(len(content), place + int(rng.integers(1, 30)))
    match int(rng.integers(6)):
        case 0:  # a byte becomes another
            return content[:place] + rng.bytes(1) + content[place + 1 :]
        case 1:  # some are lost
            return content[:place] + content[end:]
        case 2:  # some come twice
            return content[:end] + content[place:]
        case 3:  # the end is lost
            return content[:place]
        case _:  # something nasty comes in
            nasty = _NASTY[int(rng.integers(len(_NASTY)))]
            if rng.random() < 0.3:  # at the beginning of a line
                place = content.rfind(b"\n", 0, place) + 1
            return content[:place] + nasty + content[place:]


def _misread(path: Path, content: bytes, data: Path) -> str | None:
    """Compare what was read with what an independent reader finds; None where they agree."""
    import counterplay as cp

    if ".parquet" in path.suffixes:
        return None  # its bytes are what they are: only a crash would be a fault
    if path.suffix == ".gz":
        with contextlib.suppress(OSError, EOFError):
            content = gzip.decompress(path.read_bytes())
    text = content.decode("utf-8-sig", "surrogateescape")  # what is no text may be in no id
    log = cp.data.load_split(data).interactions
    frame = log.to_frame()
    found = Counter(
        zip(map(str, frame["user"].to_list()), map(str, frame["item"].to_list()), strict=True)
    )
    readings = _json_pairs(text) if ".ndjson" in path.suffixes else _text_pairs(text, path)
    if not any(found == reading for reading in readings):
        nearest = min(readings, key=lambda each: _distance(found, each), default=Counter())
        return (
            f"read {found.total()} rows, an independent reader {[r.total() for r in readings]}; "
            f"only here {list((found - nearest).items())[:2]}, only there "
            f"{list((nearest - found).items())[:2]}"
        )
    return None


def _distance(one: Counter[Any], other: Counter[Any]) -> int:
    return (one - other).total() + (other - one).total()


def _text_pairs(text: str, path: Path) -> list[Counter[tuple[str, str]]]:
    """Return the pairs as quotes are understood, and as if they were plain signs."""
    text = text.lstrip("\r\n").replace("\r\n", "\n")
    text = text.removesuffix("\r").replace("\r", "\v")  # no line ends with it alone but the last
    header = text.split("\n", 1)[0]
    signs = ["\t"] if ".tsv" in path.suffixes else sorted(",;\t|", key=header.count)[-1:]
    found = []
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
        with contextlib.suppress(csv.Error, ValueError):
            reader = csv.reader(
                io.StringIO(text, newline=""), delimiter=signs[0], quoting=quoting, strict=True
            )
            names, *rows = [row for row in reader if row]
            user, item = (_place(names, role) for role in ("user", "item"))
            if all(len(row) == len(names) for row in rows):
                found.append(
                    Counter((_bare(row[user]), _bare(row[item])) for row in rows if row != names)
                )
    return found


def _place(names: list[str], role: str) -> int:
    """Return the column of a role: of names, letters and digits are looked at."""
    return ["".join(filter(str.isalnum, name.lower())) for name in names].index(role)


def _bare(text: str) -> str:
    """Return an id without the blanks around it; to Python, four control characters are blanks."""
    return text.strip(_BLANKS)


def _json_pairs(text: str) -> list[Counter[tuple[str, str]]]:
    """Return the pairs as the last of a repeated key is understood, and as the first is."""
    found = []
    for first in (False, True):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            hook = _first_of_each if first else dict
            lines = [line for line in text.split("\n") if line.strip()]
            rows = [json.loads(line, object_pairs_hook=hook) for line in lines]
            found.append(
                Counter((_bare(str(row["user"])), _bare(str(row["item"]))) for row in rows)
            )
    return found


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))
