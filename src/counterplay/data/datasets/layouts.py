"""Tables of a known layout, as the official files of datasets have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import polars as pl

from counterplay.data.assembly import Features, assemble
from counterplay.data.findings import shortened
from counterplay.data.refusals import readable
from counterplay.data.scans import Scan, scan_separated
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from counterplay.data.canonical import Order
    from counterplay.data.formats import Progress
    from counterplay.data.interactions import Interactions


class Reading(TypedDict, total=False):
    """How to read a dataset, whichever it is; as in `read_dataset`."""

    order: Order
    progress: Progress | None


def read_separated(
    path: Path,
    separator: str,
    schema: Mapping[str, type[pl.DataType]],
    roles: dict[str, str],
    how: Reading,
    *,
    header: bool = True,
    **settings: Any,
) -> Interactions:
    """Read a log whose columns are those of `schema`, without quotes.

    The parser takes one sign as a separator, so it sees an empty column between any two for '::'.
    """
    columns = dict(schema)
    if len(separator) > 1:
        for name in schema:
            columns |= {name: columns.pop(name), f"after_{name}": pl.String}
        columns.popitem()
    with readable(path, path.name):
        rows = scan_separated(path, separator, columns, header=header)
        batches = _without_gaps(rows, list(roles.values()), how.get("progress"))
        return assemble(batches, roles, order=how.get("order", "canonical"), **settings)


def _without_gaps(
    rows: Scan, columns: list[str], progress: Progress | None
) -> Iterator[pl.DataFrame]:
    """Yield the rows; what stands between two colons, where nothing may, is refused."""
    gaps = [name for name in rows.frame.collect_schema().names() if name.startswith("after_")]
    done = 0
    for batch in rows.batches([*columns, *gaps], progress):
        filled = pl.any_horizontal(pl.col(gaps).is_not_null()) if gaps else pl.lit(value=False)
        places = batch.select(filled).to_series().arg_true()
        if len(places):
            raise DataError(
                f"fields of '{rows.path}' must be separated by '::'; found a single ':' in "
                f"{len(places):,} rows, the first is row {done + places[0] + 1:,}; fetch it again"
            )
        done += batch.height
        yield batch


def read_features(
    path: Path,
    columns: list[str],
    wanted: Sequence[pl.Expr | str],
    separator: str,
    encoding: str = "utf-8",
    n_optional: int = 0,
) -> Features | None:
    """Return what is `wanted` of a small table with the ids in `id`, if it is there.

    The separator may be longer than one sign; the last `n_optional` fields of a line may be absent.
    """
    if not path.exists():
        return None
    with readable(path, path.name):
        lines = pl.Series(path.read_text(encoding=encoding).rstrip("\r\n").split("\n"))
        n_fields = lines.str.count_matches(separator, literal=True) + 1
        n_least = len(columns) - n_optional
        ragged = ((n_fields > len(columns)) | (n_fields < n_least)).arg_true()
        if len(ragged):
            raise DataError(
                f"every line of '{path}' must have {len(columns)} fields; found {len(ragged):,} of "
                f"{len(lines):,} with more or fewer, the first at line {ragged[0] + 1:,}: "
                f"{shortened(lines[ragged[0]])}; fetch it again"
            )
        parts = lines.str.strip_chars_end("\r").str.split_exact(separator, len(columns) - 1)
        table = parts.struct.rename_fields(columns).struct.unnest()
        return Features(table.select(wanted), "id")


def only_file(folder: Path, pattern: str, what: str, advice: str, *others: str) -> Path:
    """Return the one file of a folder that fits a pattern, `others` left out."""
    found = [path for path in sorted(folder.glob(pattern)) if path.name not in others]
    if len(found) != 1:
        raise DataError(
            f"{what} must hold one file {pattern}; found {len(found)} in '{folder}'; {advice}"
        )
    return found[0]
