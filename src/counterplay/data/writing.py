"""Tables to files, in the format that the name's ending says, some rows at a time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Literal

from counterplay.data.publishing import new_file
from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import polars as pl

_ENDINGS: dict[str, Literal["csv", "ndjson", "parquet"]] = {
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def written_as(path: Path) -> Literal["csv", "ndjson", "parquet"]:
    """Tell in which format a file is written, by its name; refuse a name that does not say it."""
    try:
        return _ENDINGS[path.suffix.lower()]
    except KeyError:
        raise ConfigError(
            f"the name of a table must end in {', '.join(_ENDINGS)}; found '{path.name}'; let it "
            "end in one of them"
        ) from None


def write_tables(path: Path, tables: Iterable[pl.DataFrame]) -> int:
    """Write tables of the same columns into one file, all of them or nothing; return the rows."""
    kind, n_rows = written_as(path), 0
    with new_file(path) as beside, beside.open("wb") as file, _writer(kind, file) as write:
        for table in tables:
            write(table)
            n_rows += table.height
    return n_rows


@contextmanager
def _writer(kind: str, file: BinaryIO) -> Iterator[Callable[[pl.DataFrame], object]]:
    """Give what appends a table to a file."""
    if kind == "ndjson":
        yield lambda table: table.write_ndjson(file)
    elif kind == "csv":
        yield lambda table: table.write_csv(file, include_header=not file.tell())
    else:
        import pyarrow.parquet as pq

        writers: list[pq.ParquetWriter] = []  # one, as soon as the columns are known

        def append(table: pl.DataFrame) -> None:
            rows = table.to_arrow()
            if not writers:
                writers.append(pq.ParquetWriter(file, rows.schema, compression="zstd"))
            writers[0].write_table(rows)

        try:
            yield append
        finally:
            for each in writers:
                each.close()
