"""Read a log as it is: a frame, arrays, or a CSV, TSV, Parquet or NDJSON file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from counterplay.data.assembly import Columns, Duplicates, Features, assemble
from counterplay.data.columns import raise_mixed
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.data.times import TimeUnit

FileFormat = Literal["csv", "tsv", "parquet", "ndjson"]
Progress = Callable[[int, int | None], None]  # rows so far, rows in all where known

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
_COMPRESSED = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
_BATCH_ROWS = 1 << 20


def read(
    source: object,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    time: str | None = None,
    exposed: str | None = None,
    propensity: str | None = None,
    position: str | None = None,
    format: FileFormat | None = None,  # noqa: A002 - the word that everybody looks for
    time_unit: TimeUnit | None = None,
    duplicates: Duplicates = "all",
    user_features: object = None,
    item_features: object = None,
    include_unseen: bool = False,
    name: str | None = None,
    progress: Progress | None = None,
) -> Interactions:
    """Read a log.

    Args:
        source: A path to a CSV, TSV, Parquet or NDJSON file (the text ones also as .gz or
            .zst), a polars, pandas or Arrow frame, or a mapping of names to arrays.
        user: Column of user ids. None looks for a usual name; the same goes for the next six.
        item: Column of item ids.
        rating: Column of ratings; '-' leaves it out, here and below.
        time: Column of times.
        exposed: Column of exposure flags.
        propensity: Column of logged propensities.
        position: Column of positions in the list that was shown.
        format: Format of the file; None goes by its name.
        time_unit: Unit of numeric times: s, ms, us or ns; None goes by their size.
        duplicates: What to do with repeated pairs: keep all, first, last, or error.
        user_features: A frame or a path; the column named as `user` (or 'id') holds the ids.
        item_features: The same for items.
        include_unseen: Take ids that only the feature tables have into the vocabularies too.
        name: What to call the log; by default the file's name.
        progress: Called with the rows read so far and, where known, their total.

    Example:
        >>> log = read({"user": ["b", "a", "b"], "item": [1, 2, 2]})
        >>> log.user, log.item
        (array([0, 1, 1], dtype=int32), array([1, 0, 1], dtype=int32))
    """
    columns = Columns(user, item, rating, time, exposed, propensity, position)
    settings: dict[str, Any] = {
        "duplicates": duplicates,
        "time_unit": time_unit,
        "include_unseen": include_unseen,
    }
    if isinstance(source, str | Path):
        path = Path(source)
        kind = format or format_of(path)
        with readable(path, kind):
            frame = scan(path, kind)
            roles = columns.resolve(frame.collect_schema().names())
            _refuse_mixed_json(path, kind, frame, roles)
            n_rows = pq.read_metadata(path).num_rows if kind == "parquet" else None
            return assemble(
                batches(frame.select(sorted(set(roles.values()))), progress, n_rows),
                roles,
                untyped=kind in ("csv", "tsv"),
                user_features=_features(user_features, roles["user"]),
                item_features=_features(item_features, roles["item"]),
                name=name or path.name.split(".")[0],
                source=str(source),
                **settings,
            )
    table = as_frame(source)
    roles = columns.resolve(table.columns)
    return assemble(
        table.iter_slices(_BATCH_ROWS),
        roles,
        user_features=_features(user_features, roles["user"]),
        item_features=_features(item_features, roles["item"]),
        name=name or "log",
        source=f"a frame of {table.height:,} rows",
        **settings,
    )


def as_frame(source: object) -> pl.DataFrame:
    """Return any frame that speaks Arrow, or a mapping of arrays, as a polars frame."""
    if isinstance(source, pl.DataFrame):
        return source
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if not (isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__")):
        raise ConfigError(
            "a log must be a path, a frame that speaks Arrow or a mapping of arrays; found "
            f"{type(source).__name__}; convert it, for example to a polars or pandas frame"
        )
    try:
        return pl.DataFrame(dict(source) if isinstance(source, Mapping) else source)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, pl.exceptions.PolarsError) as error:
        table: Any = source
        for each in list(getattr(table, "columns", table)):
            values = list(table[each])
            if len({type(value) for value in values}) > 1:
                raise_mixed(each, values, 1)
        raise DataError(
            f"every column must be of one type and the same length; found {_first_line(error)}; "
            "correct the frame"
        ) from None


def format_of(path: Path) -> FileFormat:
    """Tell a file's format by its name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    if suffixes and suffixes[-1] in _SUFFIXES:
        return _SUFFIXES[suffixes[-1]]
    raise DataError(
        f"a log's format must show in its name or be given; found '{path.name}'; say "
        f"format={' or '.join(get_args(FileFormat))}"
    )


def scan(path: Path, kind: FileFormat) -> pl.LazyFrame:
    """Return a lazy frame over a file; text columns stay text until they are checked."""
    _check_content(path, kind)
    if kind == "parquet":
        return pl.scan_parquet(path)
    if kind == "ndjson":
        return pl.scan_ndjson(path, infer_schema_length=1000)
    separator = "\t" if kind == "tsv" else _separator(path)
    return pl.scan_csv(path, separator=separator, infer_schema=False)


def batches(
    frame: pl.LazyFrame, progress: Progress | None = None, n_rows: int | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a lazy frame, in order, without holding all of them."""
    collect_batches = getattr(frame, "collect_batches", None)  # young in polars: do without
    done = 0
    for batch in collect_batches(chunk_size=_BATCH_ROWS) if collect_batches else [frame.collect()]:
        yield batch
        done += batch.height
        if progress:
            progress(done, n_rows)


def _features(source: object, id_column: str) -> Features | None:
    if source is None:
        return None
    if isinstance(source, str | Path):
        path = Path(source)
        kind = format_of(path)
        with readable(path, kind):
            frame = scan(path, kind).collect()
    else:
        frame = as_frame(source)
    name = next((each for each in (id_column, "id") if each in frame.columns), None)
    if name is None:
        raise DataError(
            f"a feature table must have its ids in a column '{id_column}' or 'id'; found the "
            f"columns {', '.join(frame.columns)}; rename one"
        )
    return Features(frame, name)


@contextmanager
def readable(path: Path, kind: str) -> Iterator[None]:
    """Turn what goes wrong while reading a file into one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(
            f"a log must exist to be read; found nothing at '{path}'; check the path"
        ) from None
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,  # what the parser throws at some damaged files
        OSError,
        UnicodeError,
    ) as error:
        what = _first_line(error)
        if isinstance(error, pl.exceptions.NoDataError):
            what = "an empty file"
        elif kind == "ndjson" and "Syntax" in what:
            what = "a line that is not a JSON object"
        elif "unexpected end" in what:
            what = "a file that ends too early"
        raise DataError(
            f"'{path}' must be a whole, valid {kind} file; found {what}; check that it was "
            "copied completely and that its format is the one its name says"
        ) from None


def _check_content(path: Path, kind: FileFormat) -> None:
    """Compare a file's first bytes with its name."""
    if path.is_dir():
        raise DataError(
            f"a log must be a file; found the folder '{path}'; name a file in it, or say which "
            "dataset it holds"
        )
    with path.open("rb") as file:
        head = file.read(4096)
    suffix = path.suffix.lower()
    expected = {"parquet": b"PAR1"}.get(kind, _COMPRESSED.get(suffix, b""))
    found = next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)
    if not head:
        found = "an empty file"
    elif expected and not head.startswith(expected):
        found = found or "something else"
    elif expected:
        return
    elif kind == "ndjson" and not head.lstrip().startswith(b"{"):
        found = found or "lines that are not JSON objects"
    elif kind in ("csv", "tsv") and head.lstrip().startswith(b"{"):
        found = "JSON objects"
    elif b"\0" in head:
        found = found or "binary data"
    if found:
        raise DataError(
            f"'{path}' must be what its name says, {kind}; found {found}; rename it so "
            "that its ending is right, unpack it, or say which format it is"
        )


def _separator(path: Path) -> str:
    """Tell what separates the columns of a CSV file by its header."""
    if path.suffix.lower() in _COMPRESSED:
        return ","
    with path.open("rb") as file:
        header = file.readline(1 << 16)
    return max((",", ";", "\t", "|"), key=lambda sign: header.count(sign.encode()))


def _refuse_mixed_json(
    path: Path, kind: FileFormat, frame: pl.LazyFrame, roles: dict[str, str]
) -> None:
    """Refuse NDJSON whose ids are text in some rows and numbers in others.

    The parser would turn both into the same text, and two users into one.
    """
    if kind != "ndjson":
        return
    schema = frame.collect_schema()
    for column in (roles["user"], roles["item"]):
        if schema[column] != pl.String:
            continue
        escaped = pl.Series([column]).str.escape_regex()[0]
        lines = pl.scan_csv(
            path, has_header=False, schema={"line": pl.String}, separator="\x01", quote_char=None
        )
        numbers = (
            lines.with_row_index("row", offset=1)
            .filter(pl.col("line").str.contains(rf'"{escaped}"\s*:\s*-?\d'))
            .select(pl.len(), pl.col("row").first())
            .collect()
        )
        if numbers["len"][0]:
            raise DataError(
                f"ids must be all integers or all text; found {numbers['len'][0]:,} rows where "
                f"column '{column}' is a number among texts, the first at row "
                f"{numbers['row'][0]:,}; write them all in one type"
            )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
