"""Read a log as it is: a frame, arrays, or CSV, TSV, Parquet or NDJSON files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import polars as pl

from counterplay.data.assembly import Features, Table, tabulate
from counterplay.data.canonical import Order
from counterplay.data.columns import Decimal
from counterplay.data.dialects import UNSAID, Dialect
from counterplay.data.filters import Duplicates
from counterplay.data.findings import Reading, Step
from counterplay.data.formats import UNTYPED, FileFormat, Progress, format_of
from counterplay.data.frames import as_frame, as_table, column_names, convertible
from counterplay.data.lists import holds_lists, one_a_row
from counterplay.data.refusals import readable, refuse_mixed_ids
from counterplay.data.roles import ABSENT, COLUMNS, IMPRESSION_COLUMNS, SHOWN, columns_of, doubtful
from counterplay.data.scans import BATCH_ROWS, scan, scan_all
from counterplay.data.sources import files_of, is_place
from counterplay.data.time_units import TimeUnit
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions

_CHOICES = {"format": FileFormat, "time_unit": TimeUnit, "duplicates": Duplicates, "order": Order}
_CHOICES["decimal"] = Decimal


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
    random: str | None = ABSENT,
    clicked: str | None = ABSENT,
    format: FileFormat | None = None,  # noqa: A002 - the word that everybody looks for
    header: bool | None = None,
    separator: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    decimal: Decimal | None = None,
    time_unit: TimeUnit | None = None,
    date_format: str | None = None,
    drop_missing: bool = False,
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
        source: A CSV, TSV, Parquet or NDJSON file (also compressed), a folder or a list of such
            files, a pattern such as `logs/*.csv`, an address such as `s3://bucket/log.parquet`, '-'
            for standard input; a polars, pandas, Arrow, Spark, Ray or Hugging Face table, a mapping
            of names to arrays, a list of dicts, or a sparse matrix of users and items.
        user: User-ID column (detected if omitted, as the next six); '-' leaves a role out.
        item: Item-ID column.
        rating: Rating column.
        time: Time column.
        exposed: Column of exposure flags.
        propensity: Column of logged propensities.
        position: Column of positions in the list that was shown.
        random: Column that marks impressions whose item was drawn at random; None looks for one.
        clicked: Column of clicks: flags, or counts of 0 or more. None looks for one; by default
            every row is a click, unless random rows are marked.
        format: File format (detected from the file name, or from how it begins, if omitted).
        header: Whether a text file's first line names the columns (detected if omitted); without
            names, columns are numbered from 1: user='1'.
        separator: Sign between the columns of a text file (detected if omitted).
        quote: Sign around fields (detected if omitted); 'none' if quotes are signs like others.
        encoding: Encoding of a text file (detected where that is certain).
        decimal: Decimal mark of numbers with commas: '.' or ',' (detected where certain).
        time_unit: Unit of numeric times: s, ms, us or ns (detected from their size if omitted).
        date_format: How dates are written, as in '%d.%m.%Y %H:%M' (detected where certain).
        drop_missing: Leave out rows without a user or an item; a step counts them.
        duplicates: What to do with repeated pairs: keep all, first, last, or error.
        order: How rows of one user at one time, or without times, are ordered: by what they say
            (canonical), or as they came (file), if that is the order in which they happened.
        user_features: A frame or a path; the column named as `user` (or 'id') holds the ids.
        item_features: The same for items.
        include_unseen: Add ids that only the feature tables have to the vocabularies.
        name: Name of the log (default: the file's name).
        progress: Called with the rows read so far and, where known, their total.

    Example:
        >>> log = read({"user": ["b", "a", "b"], "item": [1, 2, 2]})
        >>> log.user, log.item
        (array([0, 1, 1], dtype=int32), array([1, 0, 1], dtype=int32))
    """
    _check_choices({"duplicates": duplicates})
    if clicked == ABSENT and random != ABSENT:
        clicked = None  # random rows must tell
    columns = (user, item, rating, time, exposed, propensity, position, random, clicked)
    table = read_table(
        source,
        dict(zip((*COLUMNS, *IMPRESSION_COLUMNS), columns, strict=True)),
        format=format,
        dialect=Dialect(header, separator, quote, encoding),
        features={"user": user_features, "item": item_features},
        progress=progress,
        order=order,
        time_unit=time_unit,
        date_format=date_format,
        decimal=decimal,
        drop_missing=drop_missing,
        include_unseen=include_unseen,
        name=name,
    )
    return table.ordered(duplicates)


def read_impressions(
    source: object, *, user: str | None = None, item: str | None = None
) -> Interactions:
    """Read rows that were shown: users, items, and in a column `clicked` whether they clicked.

    Args:
        source: A file or a frame, as `read` takes it.
        user: User-ID column (detected if omitted).
        item: Item-ID column (detected if omitted).
    """
    return read_table(source, {**SHOWN, "user": user, "item": item}).ordered()


def read_table(
    source: object,
    wanted: Mapping[str, str | None],
    *,
    format: FileFormat | None = None,  # noqa: A002 - as in `read`
    dialect: Dialect = UNSAID,
    features: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    second: bool = False,
    quantities: bool = False,
    **settings: Any,
) -> Table:
    """Read the columns that play the `wanted` roles, in the order of the input; see `read`.

    In a `second` table, what is named for the first one may have a usual name. `quantities` are
    read as ratings where there are none.
    """
    _check_choices({each: settings.get(each) for each in ("time_unit", "order", "decimal")})
    _check_choices({"format": format})
    given = dict(features or {})
    find = partial(columns_of, second=second, quantities=quantities)
    if is_place(source):
        places = (source, format, dialect.checked())
        return _of_files(*places, wanted, find, given, progress, settings)
    return _of_frame(source, wanted, find, given, settings)


def _of_frame(
    source: object,
    wanted: Mapping[str, str | None],
    find: Callable[..., dict[str, str]],
    features: Mapping[str, object],
    settings: dict[str, Any],
) -> Table:
    source = as_table(source)
    names = column_names(source)
    roles = find(wanted, names)
    table = as_frame(source, sorted(roles.values()))
    if holds_lists(table.schema[roles["item"]]):
        roles = find(wanted, names, lists=True)
        table = as_frame(source, sorted(roles.values()))
    settings |= {"name": settings.get("name") or "log"}
    settings |= {"source": f"a frame of {table.height:,} rows"}
    settings["reading"] = Reading({"format": "frame"}, others=_others(names, roles))
    with convertible():
        tables = _feature_tables(features, roles)
        shown = one_a_row(table.schema, roles, wanted)
        rows = shown.rows(table.iter_slices(BATCH_ROWS))
        unsure = doubtful(shown.roles, wanted)
        return tabulate(rows, shown.roles, doubtful=unsure, steps=shown.steps, **tables, **settings)


def _check_choices(values: Mapping[str, object]) -> None:
    for option, value in values.items():
        known = get_args(_CHOICES[option])
        if value is not None and value not in known:
            raise ConfigError(
                f"{option} must be one of {', '.join(known)}; found {value!r}; choose one of them"
            )


def _of_files(
    source: object,
    kind: FileFormat | None,
    dialect: Dialect,
    wanted: Mapping[str, str | None],
    find: Callable[..., dict[str, str]],
    features: Mapping[str, object],
    progress: Progress | None,
    settings: dict[str, Any],
) -> Table:
    with readable(source, kind or "log"):
        str(source).encode()  # a name that is no text cannot be handed on
        files = files_of(source, kind)
    with readable(files.source, files.kind):
        rows = scan_all(files, dialect, wanted)
        wanted = {role: name or rows.numbered.get(role) for role, name in wanted.items()}
        schema = rows.frame.collect_schema()
        roles = find(wanted, schema.names())
        if holds_lists(schema[roles["item"]]):
            roles = find(wanted, schema.names(), lists=True)
        if files.kind == "ndjson":
            for path in files.paths:
                refuse_mixed_ids(path, rows.frame, [roles["user"], roles["item"]])
    tables = _feature_tables(features, roles)
    settings |= {"name": settings.get("name") or files.name, "source": files.source}
    facts = {"format": files.kind, **rows.facts}
    settings["reading"] = Reading(facts, others=_others(schema.names(), roles))
    shown = one_a_row(schema, roles, wanted)
    shown.steps.extend(rows.steps)
    with readable(files.source, files.kind):
        batches = shown.rows(rows.batches(sorted(roles.values()), progress))
        unsure, untyped = doubtful(shown.roles, wanted), files.kind in UNTYPED
        return tabulate(
            batches, shown.roles, doubtful=unsure, untyped=untyped, steps=shown.steps,
            **tables, **settings,
        )  # fmt: skip


def _others(names: Sequence[str], roles: Mapping[str, str]) -> tuple[str, ...]:
    taken = set(roles.values())
    return tuple(name for name in names if name not in taken)


def question_of(rating: NDArray[np.floating], name: str) -> str | None:
    """Return what to ask about ratings of 0 or less; None where there are none."""
    low = np.flatnonzero(rating <= 0)
    if not len(low):
        return None
    return (
        f"a row is a click unless more is said, so ratings must be above 0; found {len(low):,} of "
        f"{len(rating):,} rows where column '{name}' is 0 or less, the first at row "
        f"{low[0] + 1:,} with {rating[low[0]]:g}; choose: --threshold 1 keeps rows of at least 1, "
        "--rating - takes every row, --feedback ratings keeps the numbers (in Python threshold=1, "
        "rating='-', feedback='ratings')"
    )


def _feature_tables(sources: Mapping[str, object], roles: dict[str, str]) -> dict[str, Any]:
    """Read the feature tables of users and items."""
    return {f"{role}_features": read_features(each, roles[role]) for role, each in sources.items()}


def read_features(source: object, id_column: str) -> Features | None:
    """Read a feature table, a file or a frame; None if there is none."""
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
    name, steps = _id_column(frame, id_column), rows.steps
    if kind not in UNTYPED:
        return Features(frame, name, steps=steps)
    bare = frame[name].str.strip_chars()
    n_padded = int((bare != frame[name]).sum())
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
    texts = [column for column in frame if column.name != id_column]
    numbers = ((text, text.cast(pl.Float64, strict=False)) for text in texts)
    return frame.with_columns(
        number for text, number in numbers if number.null_count() == text.null_count() < len(number)
    )
