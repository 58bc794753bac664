from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import counterplay as cp
from counterplay.data.writing import write_tables, written_as

READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    "a.csv": pl.read_csv,
    "a.ndjson": pl.read_ndjson,
    "a.parquet": pl.read_parquet,
}
TABLE = pl.DataFrame({"user": ['say "a"', "b,c", "d\ne"], "score": [0.5, 1e-12, -3.0]})


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("empty_first", [False, True])
def test_tables_become_one_file(name: str, empty_first: bool, tmp_path: Path) -> None:
    tables = [TABLE.head(0)] * empty_first + [TABLE.head(2), TABLE.tail(1)]
    assert write_tables(tmp_path / name, tables) == 3
    assert READERS[name](tmp_path / name).equals(TABLE)


def test_no_rows_leave_the_columns_where_the_format_has_them(tmp_path: Path) -> None:
    for name in READERS:
        assert write_tables(tmp_path / name, [TABLE.head(0)]) == 0
    assert (tmp_path / "a.csv").read_text() == "user,score\n"
    assert (tmp_path / "a.ndjson").read_bytes() == b""
    assert pl.read_parquet(tmp_path / "a.parquet").schema == TABLE.schema


@pytest.mark.parametrize("name", READERS)
def test_what_fails_midway_leaves_what_was_there(name: str, tmp_path: Path) -> None:
    def tables() -> Iterator[pl.DataFrame]:
        yield TABLE
        raise RuntimeError("out of order")

    (tmp_path / name).write_bytes(b"from the day before")
    with pytest.raises(RuntimeError, match="out of order"):
        write_tables(tmp_path / name, tables())
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [
        (name, b"from the day before")
    ]


@pytest.mark.parametrize("name", ["a", "a.json", "a.csv.gz", ".csv"])
def test_a_name_that_says_no_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match=rf"\.parquet.*; found '{name}'"):
        written_as(tmp_path / name)
    with pytest.raises(cp.ConfigError, match="must end in"):
        write_tables(tmp_path / name, [TABLE])
    assert not list(tmp_path.iterdir())
