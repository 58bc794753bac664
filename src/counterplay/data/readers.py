"""Read a log as it is: a frame, arrays, or a CSV, TSV, Parquet or NDJSON file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from counterplay.data.assembly import Columns, Features, assemble
from counterplay.data.canonical import Order
from counterplay.data.duplicates import Duplicates
from counterplay.data.formats import FileFormat, Progress, format_of, readable, refuse_mixed_ids
from counterplay.data.frames import as_frame, column_names, convertible
from counterplay.data.scans import BATCH_ROWS, scan
from counterplay.data.steps import Step
from counterplay.data.times import TimeUnit
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterplay.data.interactions import Interactions

_UNTYPED = ("csv", "tsv")


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
    order: Order = "canonical",
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
        order: How rows of one user at one time, or without times, are ordered: by what they say
            (canonical), or as they came (file), if that is the order in which they happened.
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
    for option, value, known in (
        ("format", format, get_args(FileFormat)),
        ("time_unit", time_unit, get_args(TimeUnit)),
        ("duplicates", duplicates, get_args(Duplicates)),
        ("order", order, get_args(Order)),
    ):
        if value is not None and value not in known:
            raise ConfigError(
                f"{option} must be one of {', '.join(known)}; found {value!r}; choose one of them"
            )
    columns = Columns(user, item, rating, time, exposed, propensity, position)
    settings: dict[str, Any] = {
        "duplicates": duplicates,
        "order": order,
        "time_unit": time_unit,
        "include_unseen": include_unseen,
    }
    features = {"user": user_features, "item": item_features}
    if isinstance(source, str | Path):
        return _read_file(Path(source), format, columns, features, name, progress, settings)
    roles = columns.resolve(column_names(source))
    table = as_frame(source, sorted(roles.values()))
    with convertible():
        return assemble(
            table.iter_slices(BATCH_ROWS),
            roles,
            **_feature_tables(features, roles),
            name=name or "log",
            source=f"a frame of {table.height:,} rows",
            **settings,
        )


def _read_file(
    path: Path,
    kind: FileFormat | None,
    columns: Columns,
    features: Mapping[str, object],
    name: str | None,
    progress: Progress | None,
    settings: dict[str, Any],
) -> Interactions:
    with readable(path, kind or "log"):
        str(path).encode()  # a name that is no text cannot be handed on
        kind = kind or format_of(path)
    with readable(path, kind):
        rows = scan(path, kind)
        roles = columns.resolve(rows.frame.collect_schema().names())
        if kind == "ndjson":
            refuse_mixed_ids(path, rows.frame, [roles["user"], roles["item"]])
    tables = _feature_tables(features, roles)
    with readable(path, kind):
        return assemble(
            rows.batches(sorted(roles.values()), progress),
            roles,
            untyped=kind in _UNTYPED,
            **tables,
            name=name or path.name.split(".")[0],
            source=str(path),
            steps=rows.steps,
            **settings,
        )


def _feature_tables(sources: Mapping[str, object], roles: dict[str, str]) -> dict[str, Any]:
    """Read the feature tables of users and items."""
    return {f"{role}_features": _features(sources[role], roles[role]) for role in ("user", "item")}


def _features(source: object, id_column: str) -> Features | None:
    if source is None:
        return None
    if not isinstance(source, str | Path):
        frame = as_frame(source)
        return Features(frame, _id_column(frame, id_column))
    path = Path(source)
    kind = format_of(path)
    with readable(path, kind):
        rows = scan(path, kind)
        frame = rows.collect()
    name = _id_column(frame, id_column)
    if kind not in _UNTYPED:
        return Features(frame, name, steps=rows.steps)
    bare = frame[name].str.strip_chars()
    n_padded = int((bare != frame[name]).sum())
    steps = rows.steps
    if n_padded:
        text = f"took off the blanks around {n_padded:,} ids in column '{name}'"
        steps += (Step("blanks", text, {"ids": n_padded}),)
    return Features(_typed(frame.with_columns(bare), name), name, untyped=True, steps=steps)


def _id_column(frame: pl.DataFrame, id_column: str) -> str:
    name = next((each for each in (id_column, "id") if each in frame.columns), None)
    if name is None:
        raise DataError(
            f"a feature table must have its ids in a column '{id_column}' or 'id'; found the "
            f"columns {', '.join(frame.columns)}; rename one"
        )
    return name


def _typed(frame: pl.DataFrame, id_column: str) -> pl.DataFrame:
    """Make the columns that hold nothing but numbers numeric; the ids stay text."""
    numbers = {
        column.name: column.cast(pl.Float64, strict=False)
        for column in frame
        if column.name != id_column
    }
    return frame.with_columns(
        number
        for name, number in numbers.items()
        if number.null_count() == frame[name].null_count() < len(number)
    )
