"""Parts of an audience, told apart by what is known of users and items: each a flag an id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.evaluation.gallery import name_column
from counterplay.metrics.exposure import popularity_deciles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from counterplay.data.features import FeatureTable
    from counterplay.data.interactions import Interactions

    Flags = NDArray[np.bool_]

Role = Literal["user", "item"]
N_LEVELS = 8  # of a feature; what is rarer is taken together
_N_COLUMNS = 12  # features of users, and as many of items
_HEAD = {"tail": (1, 3), "middle": (4, 7), "head": (8, 10)}  # deciles of the training events
_LONGEST = 60  # characters of a label


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Users or items that have something in common; `flags` are of all ids of the role."""

    of: str
    role: Role
    label: str
    flags: Flags


def levels(train: Interactions) -> Iterator[Level]:
    """Yield activity and newness of users, popularity of items, and all feature columns."""
    rows = np.bincount(train.user, minlength=train.n_users).astype(np.float64)
    if not rows.all():
        yield Level("new users", "user", "no training rows", rows == 0)
        yield Level("new users", "user", "with training rows", rows > 0)
    known = np.where(rows > 0, rows, np.nan)
    yield from _binned("activity of users", "user", known, 3, " training rows")
    deciles = popularity_deciles(np.bincount(train.item, minlength=train.n_items))
    for label, (low, high) in _HEAD.items():
        flags = (deciles >= low) & (deciles <= high)
        n = f"{int(flags.sum()):,} items with {high - low + 1}0% of the training rows"
        yield Level("popularity of items", "item", f"{label}: {n}", flags)
    features: tuple[tuple[Role, FeatureTable | None], ...] = (
        ("user", train.user_features),
        ("item", train.item_features),
    )
    for role, table in features:
        if table is not None:
            for column in usable(table)[0]:
                yield from _of_column(table, column, role)


def usable(table: FeatureTable) -> tuple[list[str], list[str]]:
    """Return the columns that tell ids apart into few levels, and why others are left out."""
    found: list[str] = []
    left_out: list[str] = []
    for column in table.frame.columns:
        series = table.frame[column]
        n = series.drop_nulls().n_unique() if column not in table.multivalued else 2
        if column == name_column(table):
            left_out.append(f"{column}, which is a name")
        elif column in table.categorical and n > max(N_LEVELS, len(table) / 2):
            left_out.append(f"{column}, which has nearly as many values as ids")
        elif n < 2:
            left_out.append(f"{column}, which has one value")
        elif len(found) == _N_COLUMNS:
            left_out.append(f"{column}, which comes after {_N_COLUMNS} others")
        else:
            found.append(column)
    return found, left_out


def _of_column(table: FeatureTable, column: str, role: Role) -> Iterator[Level]:
    of = f"{role} feature {column}"
    if column in table.numeric:
        values = table.frame[column].cast(float).fill_null(float("nan")).to_numpy()
        yield from _binned(of, role, values, 4)
        return
    if column in table.categorical:
        codes, categories = table.codes(column)
        ids, values = np.flatnonzero(codes >= 0), codes[codes >= 0]
    else:
        offsets, values, categories = table.bags(column)
        ids = np.repeat(np.arange(len(table)), np.diff(offsets))
    counts = np.bincount(values, minlength=len(categories))
    most = np.argsort(-counts, kind="stable")[:N_LEVELS]
    listed = np.zeros(len(table), np.bool_)
    for code, label in zip(most, categories.decode(most), strict=True):
        flags = np.zeros(len(table), np.bool_)
        flags[ids[values == code]] = True
        listed |= flags
        yield Level(of, role, _cut(str(label)), flags)
    has = np.zeros(len(table), np.bool_)
    has[ids] = True
    if (has & ~listed).any():
        yield Level(of, role, f"{len(counts) - len(most):,} others", has & ~listed)
    if not has.all():
        yield Level(of, role, "unknown", ~has)


def _binned(
    of: str, role: Role, values: NDArray[np.float64], n: int, unit: str = ""
) -> Iterator[Level]:
    """Yield about equal parts of the ids in the order of a number; few numbers are each a level."""
    known = ~np.isnan(values)
    distinct = np.unique(values[known])
    if len(distinct) <= (N_LEVELS if not unit else n):
        bins = np.searchsorted(distinct, values)
    else:
        edges = np.unique(np.quantile(values[known], np.arange(1, n) / n))
        bins = np.searchsorted(edges, values)  # a value at an edge belongs below it
    for each in np.unique(bins[known]):
        flags = known & (bins == each)
        low, high = values[flags].min(), values[flags].max()
        label = f"{low:,.6g}" if low == high else f"{low:,.6g} to {high:,.6g}"
        yield Level(of, role, label + unit, flags)
    if not unit and not known.all():
        yield Level(of, role, "unknown", ~known)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
