"""The rows of a file, in batches, every record of it and nothing else."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq

from counterplay.data.formats import (
    FileFormat,
    Progress,
    check_content,
    format_of,
    readable,
    separator_of,
)
from counterplay.data.records import Records, count_lines, count_records
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from counterplay.data.findings import Step

BATCH_ROWS = 1 << 20
_AROUND = ' \t\r"\ufeff'  # what names may have around them, as `records` counts them


@dataclass(frozen=True, slots=True)
class Scan:
    """A file as a lazy frame, and the number of rows that it must give."""

    frame: pl.LazyFrame
    path: Path
    n_rows: int  # records that it holds by its bytes
    steps: tuple[Step, ...] = ()  # what had to be repaired or left out

    def batches(
        self, columns: Sequence[str] | None = None, progress: Progress | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows, in order, without holding all of them; not one more or fewer.

        The empty lines that a text file may end in are no rows.
        """
        frame = self.frame if columns is None else self.frame.select(columns)
        done = 0
        for batch in frame.collect_batches(chunk_size=BATCH_ROWS):
            kept = batch.head(self.n_rows - done)
            beyond = batch.tail(batch.height - kept.height)
            if any(column.null_count() < len(column) for column in beyond):
                self._refuse(done + batch.height)
            done += kept.height
            yield kept
            if progress:
                progress(done, self.n_rows)
        if done != self.n_rows:
            self._refuse(done)

    def collect(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return all rows."""
        empty = self.frame if columns is None else self.frame.select(columns)
        return pl.concat([empty.head(0).collect(), *self.batches(columns)])

    def _refuse(self, n_parsed: int) -> None:
        raise DataError(
            f"every record of '{self.path}' must become a row; found {self.n_rows:,} records but "
            f"{n_parsed:,} rows; check its quotes, or write it as Parquet"
        )


def scan(path: Path, kind: FileFormat) -> Scan:
    """Look a file through and return its rows; columns of CSV and TSV are text for now."""
    check_content(path, kind)
    if kind == "parquet":
        frame = pl.scan_parquet(path, glob=False)
        return Scan(frame, path, pq.read_metadata(path).num_rows)
    if kind == "ndjson":
        return scan_ndjson(path)
    return scan_separated(path, "\t" if kind == "tsv" else separator_of(path))


def header_of(path: Path) -> list[str] | None:
    """Return the names of a file's columns at a glance; None where all rows must be looked at."""
    kind = format_of(path)
    if kind == "ndjson":
        return None
    with readable(path, kind):
        check_content(path, kind)
        if kind == "parquet":
            return pl.scan_parquet(path, glob=False).collect_schema().names()
        separator = "\t" if kind == "tsv" else separator_of(path)
        frame = pl.scan_csv(path, separator=separator, infer_schema=False, glob=False)
        return [name.strip(_AROUND) for name in frame.collect_schema().names()]


def scan_separated(
    path: Path,
    separator: str,
    schema: Mapping[str, type[pl.DataType]] | None = None,
    *,
    header: bool = True,
) -> Scan:
    """Return the rows of a separated file, as text or in the types of a `schema`.

    A file with a schema is of a known layout, without quotes. For a separator that is a sign
    twice, the schema has a column for the nothing between.
    """
    n_fields, quotes = (len(schema), False) if schema else (None, True)
    records = count_records(path, separator, n_fields=n_fields, header=header, quotes=quotes)
    frame = pl.scan_csv(
        path,
        separator=separator[0],
        has_header=header,
        schema=schema,
        infer_schema=False,
        quote_char='"' if records.quoted else None,
        glob=False,
    )
    if schema is None:
        frame = _repaired(frame, records)
    return Scan(frame, path, records.n_rows, records.steps)


def scan_ndjson(path: Path, schema: dict[str, type[pl.DataType]] | None = None) -> Scan:
    """Return the rows of NDJSON; without a schema, all lines are looked at for one."""
    frame = pl.scan_ndjson(glob.escape(str(path)), schema=schema, infer_schema_length=None)
    return Scan(frame, path, count_lines(path))


def _repaired(frame: pl.LazyFrame, records: Records) -> pl.LazyFrame:
    """Take off quotes that the parser was told to leave, and leave out repeated headers."""
    names = frame.collect_schema().names()
    if not records.quoted:
        bare = pl.select(_unquoted(pl.lit(pl.Series(names, dtype=pl.String)))).to_series()
        frame = frame.select(
            _unquoted(pl.col(name)).alias(new) for name, new in zip(names, bare, strict=True)
        )
        names = bare.to_list()
    if records.n_headers:
        same = pl.all_horizontal(
            pl.col(name).str.strip_chars(_AROUND).str.to_lowercase().fill_null("")
            == name.strip(_AROUND).lower()
            for name in names
        )
        frame = frame.filter(~same)
    return frame


def _unquoted(text: pl.Expr) -> pl.Expr:
    r"""Return what the quotes around a field enclose; in it, `\"` and `""` are one quote."""
    enclosed = text.str.contains(r'(?s)^".*"$') & (text.str.len_bytes() > 1)
    inner = text.str.strip_prefix('"').str.strip_suffix('"')
    for doubled in ('\\"', '""'):
        inner = inner.str.replace_all(doubled, '"', literal=True)
    return pl.when(enclosed).then(inner).otherwise(text)
