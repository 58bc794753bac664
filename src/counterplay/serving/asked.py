"""Ids that somebody asks for: users to recommend to, items to recommend; from a file or a list."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from counterplay.data.formats import format_of
from counterplay.data.headers import header_of
from counterplay.data.refusals import readable
from counterplay.data.roles import is_usual
from counterplay.data.scans import scan
from counterplay.data.vocabulary import integers_of
from counterplay.errors import CounterplayWarning, DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from counterplay.data.vocabulary import Vocabulary

Ids = str | Path | Iterable[object]  # a file of them, or themselves


class Asked(NamedTuple):
    """Ids, each once and in the order in which they were given."""

    known: NDArray[np.int32]  #: Indices of those that the dataset has.
    unknown: pl.Series  #: The others, in the type of the dataset's ids.


def asked_for(given: Ids, role: str, vocabulary: Vocabulary) -> Asked:
    """Return the ids of a file or a list; `role` is user or item.

    A .txt file has an id a line; any other a column of the role's name, or one column alone.
    """
    ids, where = _ids(given, role)
    if isinstance(given, str | Path):
        _refuse_data(ids.name, role, where, vocabulary)
    ids = ids.drop_nulls().unique(maintain_order=True)  # null: an empty line of a CSV file
    if not len(ids):
        raise DataError(
            f"{role}s that are asked for must be one or more; found none{where}; add their ids, or "
            f"leave them out for all {role}s"
        )
    texts = ids.cast(pl.String)
    own = texts if vocabulary.is_text else integers_of(texts)
    if own.null_count():
        first = texts.filter(own.is_null())[0]
        raise DataError(
            f"ids of {role}s must be written as the dataset's are, as integers; found "
            f"{own.null_count():,} of {len(ids):,}{where} that are not, the first is {first!r}; "
            "correct them, or leave them out"
        )
    index = vocabulary.encode(own)
    return Asked(index[index >= 0], own.filter(pl.Series(index < 0)))


def _refuse_data(name: str, role: str, where: str, vocabulary: Vocabulary) -> None:
    """Refuse a column whose name is an id itself: it would be lost; say so where it may be one."""
    if not name or is_usual(role, name):
        return
    own = pl.Series([name]) if vocabulary.is_text else integers_of(pl.Series([name]))
    if vocabulary.is_text and (vocabulary.encode(own) < 0).all():
        warnings.warn(
            f"took the first line{where}, {name!r}, for the name of the column; if it is an id, "
            f"add a first line '{role}', or let the file's name end in .txt",
            CounterplayWarning,
            stacklevel=5,
        )
    elif not own.null_count():  # no column is called by a number
        raise DataError(
            f"a file of {role}s must begin with the name of its column; found the id {name!r}"
            f"{where}; add a first line '{role}', or let the file's name end in .txt"
        )


def _ids(given: Ids, role: str) -> tuple[pl.Series, str]:
    """Return ids as they were given, and where, in words."""
    if isinstance(given, str | Path):
        path = Path(given)
        ids = _lines(path) if path.suffix.lower() == ".txt" else _column(path, role)
        return ids, f" in '{path}'"
    try:
        ids = given if isinstance(given, pl.Series) else pl.Series(list(given))
    except (TypeError, pl.exceptions.PolarsError):
        ids = pl.Series([None], dtype=pl.Object)
    if not (ids.dtype.is_integer() or ids.dtype in (pl.String, pl.Null, pl.Categorical)):
        raise DataError(
            f"ids of {role}s must be all integers or all text; found a list of others; convert them"
        )
    return ids, ""


def _lines(path: Path) -> pl.Series:
    with readable(path, "text"):
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    return pl.Series([line for line in lines if line.strip()], dtype=pl.String)


def _column(path: Path, role: str) -> pl.Series:
    kind = format_of(path)
    with readable(path, kind):
        rows = scan(path, kind)
        schema = rows.frame.collect_schema()
        name = _name_of(path, role, list(schema))
        if schema[name].is_nested():
            raise _without(path, role, f"one of {schema[name]}")
        return rows.collect([name]).to_series()


def check_column(path: Path, role: str) -> None:
    """Refuse a file of ids that lacks a column of them, where a glance tells."""
    names = None if path.suffix.lower() == ".txt" else header_of(path)
    if names is not None:
        _name_of(path, role, names)


def _name_of(path: Path, role: str, names: list[str]) -> str:
    """Return the name of the column of ids."""
    if len(names) == 1:
        return names[0]
    if role not in names:
        raise _without(path, role, f"only {', '.join(names)}")
    return role


def _without(path: Path, role: str, found: str) -> DataError:
    return DataError(
        f"a file of {role}s must have an id a row, in a column '{role}'; found {found} in "
        f"'{path}'; name or convert the column"
    )
