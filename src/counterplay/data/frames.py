"""Frames of any kind, and mappings of arrays, as polars frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from counterplay.data.identifiers import raise_mixed
from counterplay.data.refusals import UNREADABLE, first_line
from counterplay.errors import ConfigError, CounterplayError, DataError


def as_table(source: Any) -> Any:
    """Return a table of another kind as one that speaks Arrow, or as a mapping of arrays.

    Rows may be a list of dicts; a sparse matrix has users as rows, items as columns, and what it
    stores as ratings. Spark, Ray and Hugging Face data say how they become Arrow, polars or pandas.
    """
    if isinstance(source, pl.DataFrame | pl.LazyFrame | Mapping):
        return source
    if isinstance(source, list | tuple):
        return _of_dicts(source)
    if hasattr(source, "tocoo"):
        matrix = source.tocoo()
        if len(matrix.shape) != 2:
            raise DataError(
                f"a matrix must have users and items; found {len(matrix.shape)} dimensions; give "
                "one of two"
            )
        return {"user": matrix.row, "item": matrix.col, "rating": matrix.data}
    if hasattr(source, "__arrow_c_stream__") and _names(source):
        return source
    for name in ("to_arrow", "toArrow", "to_polars", "to_pandas", "toPandas"):
        convert = getattr(source, name, None)
        if callable(convert):
            with convertible():
                return convert()
    return source


def _of_dicts(rows: Sequence[Any]) -> Any:
    other = next((place for place, row in enumerate(rows) if not isinstance(row, Mapping)), None)
    if other is not None or not rows:
        found = (
            "an empty list"
            if not rows
            else f"{type(rows[other or 0]).__name__} at place {(other or 0) + 1:,}"
        )
        raise ConfigError(
            f"a list must hold paths or rows as dicts; found {found}; make it a list of dicts"
        )
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def column_names(source: object) -> list[str]:
    """Return the names of a frame's columns; each must occur once among those that are used."""
    if isinstance(source, pl.LazyFrame):
        with convertible():
            return source.collect_schema().names()
    if isinstance(source, Mapping):
        return [str(name) for name in source]
    if not hasattr(source, "__arrow_c_stream__") or not _names(source):
        raise ConfigError(
            "a log must be a path, a frame that speaks Arrow or a mapping of arrays; found "
            f"{type(source).__name__}; convert it, for example to a polars or pandas frame"
        )
    return _names(source)


def as_frame(source: object, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return some columns of any frame or mapping, by default all, as a polars frame."""
    names = column_names(source)
    wanted = list(names if columns is None else columns)
    repeated = [name for name, count in Counter(names).items() if count > 1 and name in wanted]
    if repeated:
        raise DataError(
            f"a column must have a name of its own; found '{repeated[0]}' "
            f"{names.count(repeated[0])} times; rename one of them"
        )
    with convertible(source, wanted):
        return _convert(source, wanted)


@contextmanager
def convertible(source: object = None, columns: Sequence[str] = ()) -> Iterator[None]:
    """Turn what goes wrong while a frame is converted into one sentence."""
    try:
        yield
    except CounterplayError:
        raise
    except (*UNREADABLE, OverflowError, TypeError) as error:
        _look_for_mixed(source, columns)
        raise DataError(
            "the columns of a frame must each be of one type that Arrow knows, and of one length; "
            f"found {first_line(error)}; correct the frame"
        ) from None


def _names(source: object) -> list[str]:
    names = getattr(source, "column_names", None)  # Arrow; its `columns` are the data
    if names is None:
        schema = getattr(source, "schema", None)
        names = getattr(source, "columns", getattr(schema, "names", None))
    return [] if names is None or callable(names) else [str(name) for name in names]


def _convert(source: Any, columns: list[str]) -> pl.DataFrame:
    if isinstance(source, pl.LazyFrame):
        return source.select(columns).collect()
    if isinstance(source, Mapping):
        arrays = {str(name): values for name, values in source.items() if str(name) in columns}
        for name, values in arrays.items():
            if isinstance(values, np.ndarray) and values.dtype.kind == "M":
                arrays[name] = values.astype("datetime64[us]")  # a unit that polars knows
        return pl.DataFrame(arrays).select(columns)
    if isinstance(source, pa.Table):
        return pl.DataFrame(source.select(columns))
    if hasattr(source, "loc"):  # pandas: leave out what is not wanted before converting
        chosen = source.loc[:, [name for name in source.columns if str(name) in columns]]
        source = chosen.set_axis([str(name) for name in chosen.columns], axis=1)
    return pl.DataFrame(source).select(columns)


def _look_for_mixed(source: Any, columns: Sequence[str]) -> None:
    """Raise for the first column that mixes types, the usual reason why conversion fails."""
    for name in columns if isinstance(source, Mapping) or hasattr(source, "loc") else ():
        values = list(np.atleast_1d(np.asarray(source[name], dtype=object)))
        if len({type(value) for value in values}) > 1:
            raise_mixed(name, values, 1)
