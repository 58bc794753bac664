"""Twenty files as people have them: how many are read right with no option, and with one.

A file is right if the log is the one that it was made from: the same users, items, ratings and
times. It is wrong without a word if another log comes out and no step says anything of it.
"""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import counterplay as cp
from counterplay.data.preparation import Preparation, prepare

GOALS = {"no option": 16, "one option": 20, "never wrong without a word": 20}
_N = 300
_WIDE = 1_000_000


@dataclass(frozen=True)
class Case:
    """A file, what it holds, and the option that helps where the file alone does not tell."""

    what: str
    name: str
    write: Callable[[pl.DataFrame], bytes | dict[str, bytes]]  # of a folder, by name
    option: dict[str, Any] = field(default_factory=dict)
    holds: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame


def base() -> pl.DataFrame:
    """Return a log of users, items, half-star ratings and whole minutes of 2023."""
    rng = np.random.default_rng(7)
    minutes = np.sort(rng.integers(0, 300 * 24 * 60, _N))
    begin = np.datetime64("2023-01-31T00:00", "us")
    return pl.DataFrame(
        {
            "user": rng.integers(1, 40, _N),
            "item": [f"P-{number}" for number in rng.integers(100, 160, _N)],
            "rating": rng.integers(2, 11, _N) / 2,
            "time": begin + minutes.astype("timedelta64[m]"),
        }
    )


def _texts(frame: pl.DataFrame, form: str = "%Y-%m-%d %H:%M:%S") -> pl.DataFrame:
    return frame.with_columns(pl.col("time").dt.strftime(form))


def _csv(frame: pl.DataFrame, separator: str = ",", **options: Any) -> str:
    return str(frame.write_csv(separator=separator, **options))


def _with_names(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    return _texts(frame).with_columns(title=pl.lit(name) + pl.col("item"))


def _inches(frame: pl.DataFrame) -> bytes:
    lines = _csv(_texts(frame)).splitlines()
    head, *rows = (f"{line},{text}" for line, text in zip(lines, _inch_texts(), strict=False))
    return "\n".join([head, *rows, ""]).encode()


def _inch_texts() -> list[str]:
    return ["title", *('TV 24" wide' if place % 3 else '"a ""quoted"" one"' for place in range(_N))]


def _decimals(frame: pl.DataFrame) -> bytes:
    rating = pl.col("rating").cast(pl.String).str.replace(".", ",", literal=True)
    return _csv(_texts(frame, "%d.%m.%Y %H:%M").with_columns(rating), ";").encode()


def _excel(frame: pl.DataFrame) -> bytes:
    rows = _with_names(frame, "Größe „M“ – 5 € ")
    return b"sep=;\r\n" + _csv(rows, ";", line_terminator="\r\n").encode("cp1252")


def _titles(frame: pl.DataFrame) -> bytes:
    text = _csv(_texts(frame), ";")
    return ("Orders of the shop;;;\nmade on 2024-01-01;;;\n;;;\n" + text).encode()


def _dear(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("rating") * 500)


def _thousands(frame: pl.DataFrame) -> bytes:
    amounts = [f"{each:,.2f}" for each in _dear(frame)["rating"]]
    return _csv(_texts(frame).with_columns(rating=pl.Series(amounts))).encode()


def _glued(frame: pl.DataFrame) -> bytes:
    return _csv(_texts(frame)).replace("\n", "\r").encode()


def _padded(frame: pl.DataFrame) -> bytes:
    """Return few rows, each with a million empty columns after its own."""
    lines = _csv(_texts(frame[:8])).splitlines()
    return "".join(f"{line}{',' * _WIDE}\n" for line in lines).encode()


def _single(frame: pl.DataFrame) -> bytes:
    """Return rows with quotes around texts, and some without a customer among them."""
    rows = _texts(frame).rows()
    lines = [f"'{user}','{item}',{rating},'{time}','it, too'" for user, item, rating, time in rows]
    strays = ["'','P-1',1.0,'2023-02-01 00:00:00','it, too'"] * 40
    return "\n".join(["user,item,rating,time,note", *lines[:9], *strays, *lines[9:], ""]).encode()


def _mixed_ends(frame: pl.DataFrame) -> bytes:
    lines = _csv(_texts(frame)).splitlines()
    ends = ("\n", "\r\n", "\r")
    return "".join(f"{line}{ends[place % 3]}" for place, line in enumerate(lines)).encode()


def _days(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("time").dt.truncate("1d"))


def _partitioned(frame: pl.DataFrame) -> dict[str, bytes]:
    """Return a folder for each day, as Spark and Hive write them."""
    files = {"_SUCCESS": b""}
    for (day,), rows in frame.group_by(pl.col("time").dt.date()):
        file = io.BytesIO()
        rows.drop("time").write_parquet(file)
        files[f"date={day}/part-00000.snappy.parquet"] = file.getvalue()
    return files


def _gzip(frame: pl.DataFrame) -> bytes:
    return gzip.compress(_csv(_texts(frame)).encode())


def _early(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same with days from 1 to 12 alone."""
    day = (pl.col("time").dt.day() - 1) % 12 + 1
    return frame.with_columns(pl.col("time").dt.replace(day=day))


def _zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


CASES = (
    Case("inch marks in texts", "inches.csv", _inches),
    Case("a byte order mark", "bom.csv", lambda f: b"\xef\xbb\xbf" + _csv(_texts(f)).encode()),
    Case("latin-1", "latin.csv", lambda f: _csv(_with_names(f, "Größe ")).encode("latin-1")),
    Case("UTF-16", "unicode.csv", lambda f: _csv(_with_names(f, "Größe "), "\t").encode("utf-16")),
    Case("European decimals and dates", "europe.csv", _decimals),
    Case(
        "no header", "bare.csv", lambda f: _csv(_texts(f), include_header=False).encode(),
        {"header": False},
    ),
    Case("an Excel export in cp1252 with sep=;", "excel.csv", _excel),
    Case("title rows above the header", "titled.csv", _titles),
    Case("thousands separators", "thousands.csv", _thousands, holds=_dear),
    Case("ISO dates, separated by bars", "iso.txt", lambda f: _csv(_texts(f), "|").encode()),
    Case("US dates", "us.csv", lambda f: _csv(_texts(f, "%-m/%-d/%Y %-H:%M")).encode()),
    Case(
        "US dates of the first days of months", "ambiguous.csv",
        lambda f: _csv(_texts(_early(f), "%-m/%-d/%Y %-H:%M")).encode(),
        {"date_format": "%m/%d/%Y %H:%M"}, _early,
    ),
    Case(
        "milliseconds since 1970", "epoch.csv",
        lambda f: _csv(f.with_columns(pl.col("time").dt.epoch("ms"))).encode(),
    ),
    Case(
        "separators at the ends of lines", "trailing.csv",
        lambda f: _csv(_texts(f)).replace("\n", ",\n").replace(",\n", "\n", 1).encode(),
    ),
    Case("a million empty columns", "wide.csv", _padded, holds=lambda f: f[:8]),
    Case("one line, which carriage returns divide", "glued.csv", _glued),
    Case("gzip under a name that says no format", "export.gz", _gzip),
    Case("zstd, with line ends of three kinds", "log.csv.zst", lambda f: _zstd(_mixed_ends(f))),
    Case("single quotes, and missing customers", "single.csv", _single, {"drop_missing": True}),
    Case("partitioned Parquet", "clicks", _partitioned, holds=_days),
)  # fmt: skip


def _read(path: Path, **options: Any) -> tuple[cp.Interactions | None, str]:
    """Return the log of a file as a study would read it, or the sentence that refuses it."""
    try:
        made = prepare(path, Preparation(split="none", **options))
    except (cp.DataError, cp.ConfigError) as error:
        return None, str(error)
    assert isinstance(made, cp.Interactions)
    return made, " | ".join(str(step) for step in made.steps if step.kind != "duplicates")


def outcome(case: Case, frame: pl.DataFrame, folder: Path) -> dict[str, Any]:
    """Read a file with no option and with one; tell what came out."""
    path, written = folder / case.name, case.write(frame)
    for name, content in written.items() if isinstance(written, dict) else (("", written),):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    expected = cp.read(case.holds(frame))
    first, said = _read(path)
    second = _read(path, **case.option)[0] if case.option else first
    silent = first is not None and first != expected and not said
    return {
        "file": case.what,
        "no option": first == expected,
        "one option": second == expected,
        "never wrong without a word": not silent,
        "said": said.replace(f"{folder}/", ""),
        "option": ", ".join(f"{name}={value!r}" for name, value in case.option.items()),
    }


def run() -> dict[str, Any]:
    frame = base()
    with tempfile.TemporaryDirectory() as scratch:
        found = [outcome(case, frame, Path(scratch)) for case in CASES]
    counts = {name: sum(bool(each[name]) for each in found) for name in GOALS}
    return {
        "files": found,
        "rows": [
            {
                "what": f"hostile files: {name}",
                "ours": f"{counts[name]} of {len(found)}",
                "yardstick": "the log that each file was made from",
                "ratio": f"{counts[name] / len(found):.2f}",
                "goal": f"at least {goal}",
                "met": counts[name] >= goal,
            }
            for name, goal in GOALS.items()
        ],
    }
