"""The rows of a file, in batches, every record of it and nothing else."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq

from counterplay.data.dialects import UNSAID, Dialect, Written, written
from counterplay.data.encodings import western_encoding
from counterplay.data.findings import Step
from counterplay.data.formats import FileFormat, Progress, check_content
from counterplay.data.records import NotUtf8, Records, count_lines, count_records
from counterplay.data.roles import columns_of
from counterplay.data.scratch import Scratch, rewritten
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from counterplay.data.sources import Files

BATCH_ROWS = 1 << 20
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")
_AROUND = ' \t\r"\ufeff'  # what names may have around them, as `records` counts them


@dataclass(frozen=True, slots=True)
class Scan:
    """A file as a lazy frame, and the number of rows that it must give."""

    frame: pl.LazyFrame
    path: Path
    n_rows: int  # records that it holds by its bytes
    steps: tuple[Step, ...] = ()  # what had to be repaired or left out
    facts: Mapping[str, str] = field(default_factory=dict)  # how the file is written
    numbered: Mapping[str, str] = field(default_factory=dict)  # roles of columns without names
    scratch: object = None  # what a copy lies in, for as long as it is needed

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


def scan(
    path: Path,
    kind: FileFormat,
    said: Dialect = UNSAID,
    wanted: Mapping[str, str | None] | None = None,
) -> Scan:
    """Look a file through and return its rows; columns of CSV and TSV are text for now.

    `said` is what is known of a text file; `wanted` are its columns by role, where it is a log.
    """
    check_content(path, kind)
    if kind == "parquet":
        frame = pl.scan_parquet(path, glob=False)
        return Scan(frame, path, pq.read_metadata(path).num_rows)
    if kind == "ndjson":
        if said.encoding in (None, "utf-8"):
            return scan_ndjson(path)
        scratch = Scratch()
        copy = rewritten(path, scratch, encoding=said.encoding)
        return replace(scan_ndjson(copy), path=path, scratch=scratch)
    found = written(path, kind, said, wanted)
    try:
        return _scan_written(found, path)
    except NotUtf8 as error:
        if said.encoding is not None:
            raise DataError(
                f"'{path}' must be in {said.encoding}; found other bytes at line {error.line:,}; "
                "name another with encoding=…, on the command line with --encoding"
            ) from None
        encoding, step = western_encoding(path, error)
    found = written(path, kind, replace(said, encoding=encoding), wanted)
    return _scan_written(replace(found, steps=(step, *found.steps)), path)


def _scan_written(found: Written, path: Path) -> Scan:
    """Return the rows of a text file as it is written."""
    records = count_records(
        found.path, found.separator, header=found.header, quote=found.quote, skip=found.skip
    )
    frame = pl.scan_csv(
        found.path,
        separator=found.separator,
        has_header=found.header,
        skip_lines=found.skip,
        infer_schema=False,
        quote_char=found.quote if records.quoted else None,
        glob=False,
    )
    if not found.header:
        names = frame.collect_schema().names()
        frame = frame.rename({name: str(place) for place, name in enumerate(names, start=1)})
    frame = _repaired(frame, records, found.quote)
    steps = (*found.steps, *records.steps)
    return Scan(frame, path, records.n_rows, steps, found.facts, found.numbered, found.scratch)


@dataclass(frozen=True, slots=True)
class Several:
    """The rows of several files, one after the other."""

    scans: tuple[Scan, ...]
    scratch: object = None  # what copies lie in
    left_out: tuple[Step, ...] = ()  # files that are none of a log

    @property
    def frame(self) -> pl.LazyFrame:
        """The first of them, whose columns the others have too."""
        return self.scans[0].frame

    @property
    def numbered(self) -> Mapping[str, str]:
        """Roles of columns without names."""
        return self.scans[0].numbered

    @property
    def facts(self) -> dict[str, str]:
        """How the files are written."""
        return {"files": f"{len(self.scans):,}", **self.scans[0].facts}

    @property
    def steps(self) -> tuple[Step, ...]:
        """What had to be repaired or left out, and in which file."""
        within = (
            replace(step, text=f"{each.path.name}: {step.text}")
            for each in self.scans for step in each.steps
        )  # fmt: skip
        return (*self.left_out, *within)

    def batches(
        self, columns: Sequence[str], progress: Progress | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows, in order, without holding all of them."""
        total, done = sum(each.n_rows for each in self.scans), 0
        for each in self.scans:
            for batch in each.batches(columns):
                done += batch.height
                yield batch
                if progress:
                    progress(done, total)


def scan_all(files: Files, said: Dialect, wanted: Mapping[str, str | None]) -> Scan | Several:
    """Look all files of a log through, and return their rows."""
    if files.kind == "parquet" and (len(files.paths) > 1 or files.values):
        return _scan_parts(files, wanted)
    scans = tuple(scan(path, files.kind, said, wanted) for path in files.paths)
    steps = files.steps
    if files.values:
        said_by = ", ".join(f"'{name}'" for name in files.values)
        text = f"the names of folders say {said_by}, which only Parquet files are read with"
        steps = (*steps, Step("columns", text))
    found = Several(scans, files.scratch, steps)
    if len(scans) > 1:
        names = {each.path: each.frame.collect_schema().names() for each in scans}
        _refuse_unlike(names, wanted, {each.path: each.numbered for each in scans})
        return found
    scratches = (scans[0].scratch, files.scratch)
    return replace(scans[0], scratch=scratches, steps=(*steps, *scans[0].steps))


def _scan_parts(files: Files, wanted: Mapping[str, str | None]) -> Scan:
    """Return the rows of Parquet files, and what the names of their folders say of them."""
    n_rows, names = 0, {}
    for path in files.paths:
        check_content(path, "parquet")
        metadata = pq.read_metadata(path)
        n_rows += metadata.num_rows
        names[path] = metadata.schema.to_arrow_schema().names
    values, own = files.values, names[files.paths[0]]
    steps = files.steps
    if twice := sorted(values.keys() & set(own)):  # the parser would take the folder's alone
        values = {}
        text = f"took '{twice[0]}' from the files, and nothing from the names of their folders"
        steps = (*steps, Step("columns", text))
    _refuse_unlike({path: [*each, *values] for path, each in names.items()}, wanted)
    frame = pl.scan_parquet(
        list(files.paths), glob=False, hive_partitioning=bool(values), extra_columns="ignore",
        hive_schema={name: _type_of(each) for name, each in values.items()} or None,
    )  # fmt: skip
    facts = {"files": f"{len(files.paths):,}"}
    return Scan(frame, Path(files.source), n_rows, steps, facts, scratch=files.scratch)


def _type_of(values: set[str]) -> type[pl.DataType]:
    """Return integers for what reads the same as a number, else text: 01 and 1 are two ids."""
    return pl.Int64 if all(map(_INTEGER.fullmatch, values)) else pl.String


def _refuse_unlike(
    names: Mapping[Path, Sequence[str]], wanted: Mapping[str, str | None],
    numbered: Mapping[Path, Mapping[str, str]] | None = None,
) -> None:  # fmt: skip
    """Refuse files of one log whose columns are not called the same."""
    found = {}
    for path, each in names.items():
        places = (numbered or {}).get(path, {})
        own = {role: name or places.get(role) for role, name in wanted.items()}
        try:
            found[path] = columns_of(own, each)
        except DataError as error:
            raise DataError(f"in '{path}', {error}") from None
    first = next(iter(found))
    for path, roles in found.items():
        if roles != found[first]:
            raise DataError(
                f"all files of a log must have the same columns; found {_said(found[first])} in "
                f"'{first}' and {_said(roles)} in '{path}'; name the files that belong together"
            )


def _said(roles: Mapping[str, str]) -> str:
    return ", ".join(f"{role} in '{column}'" for role, column in roles.items())


def scan_separated(
    path: Path,
    separator: str,
    schema: Mapping[str, type[pl.DataType]] | None = None,
    *,
    header: bool = True,
) -> Scan:
    """Return the rows of a file of a known layout, as text or in the types of a `schema`.

    A file with a schema has no quotes. For a separator that is a sign twice, the schema has a
    column for the nothing between.
    """
    if schema is None:
        return _scan_written(Written(path, separator, header=header), path)
    n_fields = len(schema)
    records = count_records(path, separator, n_fields=n_fields, header=header, quote=None)
    frame = pl.scan_csv(
        path,
        separator=separator[0],
        has_header=header,
        schema=schema,
        infer_schema=False,
        quote_char=None,
        glob=False,
    )
    return Scan(frame, path, records.n_rows, records.steps)


def scan_ndjson(path: Path, schema: dict[str, type[pl.DataType]] | None = None) -> Scan:
    """Return the rows of NDJSON; without a schema, all lines are looked at for one."""
    frame = pl.scan_ndjson(glob.escape(str(path)), schema=schema, infer_schema_length=None)
    return Scan(frame, path, count_lines(path))


def _repaired(frame: pl.LazyFrame, records: Records, quote: str | None) -> pl.LazyFrame:
    """Take off quotes that the parser was told to leave, and leave out repeated headers."""
    names = frame.collect_schema().names()
    if not records.quoted and quote:
        bare = pl.select(_unquoted(pl.lit(pl.Series(names, dtype=pl.String)), quote)).to_series()
        frame = frame.select(
            _unquoted(pl.col(name), quote).alias(new) for name, new in zip(names, bare, strict=True)
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


def _unquoted(text: pl.Expr, quote: str) -> pl.Expr:
    r"""Return what the quotes around a field enclose; in it, `\"` and `""` are one quote."""
    sign = re.escape(quote)
    enclosed = text.str.contains(rf"(?s)^{sign}.*{sign}$") & (text.str.len_bytes() > 1)
    inner = text.str.strip_prefix(quote).str.strip_suffix(quote)
    for doubled in (f"\\{quote}", quote * 2):
        inner = inner.str.replace_all(doubled, quote, literal=True)
    return pl.when(enclosed).then(inner).otherwise(text)
