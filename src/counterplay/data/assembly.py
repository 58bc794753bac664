"""From batches of a raw table to Interactions: name the columns, check, encode, order."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.canonical import Order, canonical_order, time_order
from counterplay.data.columns import FlagColumn, NumberColumn, TimeColumn, TimeUnit
from counterplay.data.features import FeatureTable
from counterplay.data.filters import Duplicates, without_duplicates
from counterplay.data.findings import FILE_ORDER, Findings, Step
from counterplay.data.identifiers import IdColumn
from counterplay.data.interactions import COLUMNS, IMPRESSION_COLUMNS, Interactions
from counterplay.data.vocabulary import integers_of
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from counterplay.data.vocabulary import Vocabulary

ABSENT = "-"
_ALIASES = {
    "user": "user userid uid customer customerid visitor visitorid member memberid client clientid",
    "item": "item itemid iid product productid sku asin movie movieid book bookid article "
    "articleid artist artistid track trackid song songid video videoid content contentid",
    "rating": "rating stars",
    "time": "time timestamp ts datetime date eventtime",
    "exposed": "exposed exposure shown",
    "propensity": "propensity propensityscore pscore",
    "position": "position slot",
    "random": "random israndom",
    "clicked": "clicked click isclick isclicked label",
}
_FLOAT32 = float(np.finfo(np.float32).max)


def columns_of(wanted: Mapping[str, str | None], available: Sequence[str]) -> dict[str, str]:
    """Return which of the available columns plays each role that the table has.

    None looks for a usual name (user, user_id, userId, customer …); '-' leaves the role out. In a
    log every row is a click, unless it marks random rows: then it must say which were clicked.
    """
    chosen: dict[str, str] = {}
    by_form = {"".join(filter(str.isalnum, name.lower())): name for name in reversed(available)}
    for role in (*COLUMNS, *(each for each in IMPRESSION_COLUMNS if each in wanted)):
        name = wanted.get(role)
        if role == "clicked" and name is None and "random" in wanted and "random" not in chosen:
            continue
        if name is None:
            usual = (by_form[alias] for alias in _ALIASES[role].split() if alias in by_form)
            name = next(usual, ABSENT)
        elif name != ABSENT and name not in available:
            raise DataError(_missing(role, name, available))
        if name != ABSENT:
            chosen[role] = name
        elif role in ("user", "item", "clicked"):
            raise DataError(_missing(role, None, available))
    for role, name in chosen.items():
        other = next(each for each, column in chosen.items() if column == name)
        if other != role:
            raise ConfigError(
                f"every role must have a column of its own; found '{name}' for {other} and for "
                f"{role}; name another, or leave one out with '-'"
            )
    return chosen


@dataclass(frozen=True, slots=True)
class Features:
    """A feature table as it was read, before its ids are known to the log.

    With no column but the ids, it only says which ids there are.
    """

    frame: pl.DataFrame
    id_column: str
    untyped: bool = False
    steps: tuple[Step, ...] = ()


def assemble(
    batches: Iterable[pl.DataFrame],
    roles: dict[str, str],
    *,
    untyped: bool = False,
    duplicates: Duplicates = "all",
    time_unit: TimeUnit | None = None,
    user_features: Features | None = None,
    item_features: Features | None = None,
    include_unseen: bool = False,
    order: Order = "canonical",
    name: str = "log",
    source: str = "",
    steps: Sequence[Step] = (),
) -> Interactions:
    """Return the interactions in `batches`, whose columns are named by `roles`.

    `steps` say what was done to the rows before.
    """
    findings = Findings()
    builders = _builders(roles, findings, untyped=untyped, time_unit=time_unit)
    for batch in batches:
        for role, builder in builders.items():
            builder.add(batch[roles[role]], findings.n_rows + 1)
        findings.n_rows += batch.height
    if findings.n_rows == 0:
        raise DataError(
            f"a log must have rows; found none in {source or 'the table'}; check that it is the "
            "right one and that its export ended"
        )
    findings.raise_first()
    for role, features in (("user", user_features), ("item", item_features)):
        if include_unseen and features is not None:
            builders[role].add(_ids_like(features, builders[role]), findings.n_rows + 1)
    findings.raise_first()
    columns = {role: builder.finish() for role, builder in builders.items()}
    vocabularies = {}
    for role in ("user", "item"):
        vocabularies[role], index = columns[role]
        columns[role] = index[: findings.n_rows]  # without those of the features
        if len(vocabularies[role]) < 2:
            raise DataError(
                f"a log must have at least two {role}s; found one, {vocabularies[role].ids[0]!r}, "
                f"in column '{roles[role]}'; check that this is the column of {role}s"
            )
    users, items = vocabularies["user"], vocabularies["item"]
    done = [*steps, *builders["user"].steps, *builders["item"].steps]
    if order == "file":
        rows = time_order(columns)
        done.append(FILE_ORDER)
    else:
        rows = canonical_order(columns, users, items)
    if rows is not None:
        columns = {role: column[rows] for role, column in columns.items()}
    interactions = Interactions(
        users,
        items,
        **columns,
        user_features=_aligned(user_features, users, "user", done),
        item_features=_aligned(item_features, items, "item", done),
        name=name,
        source=source,
        steps=tuple(done),
    )
    if "clicked" in columns:
        return interactions  # a pair that is shown again is no repetition; see `taken_apart`
    return without_duplicates(interactions, duplicates, rows)


def _builders(
    roles: dict[str, str], findings: Findings, *, untyped: bool, time_unit: TimeUnit | None
) -> dict[str, Any]:
    """Return a column builder for each role of the table."""
    ratings = (np.float32, "ratings must be finite numbers", (-_FLOAT32, _FLOAT32))
    propensities = (np.float64, "propensities must be probabilities in (0, 1]", (0.0, 1.0))
    positions = (np.int16, "positions must be whole numbers from 0 to 32,767", (0, 2**15 - 1))
    made: dict[str, Any] = {
        "user": lambda name: IdColumn(name, findings, untyped=untyped),
        "item": lambda name: IdColumn(name, findings, untyped=untyped),
        "rating": lambda name: NumberColumn(name, findings, *ratings),
        "time": lambda name: TimeColumn(name, findings, time_unit),
        "exposed": lambda name: FlagColumn(name, findings),
        "propensity": lambda name: NumberColumn(name, findings, *propensities, open_below=True),
        "position": lambda name: NumberColumn(name, findings, *positions, whole=True),
        "random": lambda name: FlagColumn(name, findings, "marks of random rows"),
        "clicked": lambda name: FlagColumn(name, findings, "clicks"),
    }
    return {role: made[role](column) for role, column in roles.items()}


def _aligned(
    features: Features | None, vocabulary: Vocabulary, role: str, steps: list[Step]
) -> FeatureTable | None:
    if features is None:
        return None
    frame = features.frame
    steps.extend(replace(step, text=f"{role} features: {step.text}") for step in features.steps)
    if frame.width == 1:
        return None
    table, n_unknown = FeatureTable.align(
        frame, features.id_column, vocabulary, untyped=features.untyped
    )
    if n_unknown:
        left_out = f"left out {n_unknown:,} of {frame.height:,} rows of {role} features"
        text = f"{left_out} whose {role} is not in the log"
        steps.append(Step("features", text, {f"{role}_feature_rows": n_unknown}))
    return table


def _ids_like(features: Features, column: IdColumn) -> pl.Series:
    """Return the ids of a feature table in the type of the log's, where one has no types."""
    ids = features.frame[features.id_column]
    if column.is_text and column.untyped and ids.dtype.is_integer():
        return ids.cast(pl.String)
    if not column.is_text and features.untyped:
        return integers_of(ids)
    return ids


def _missing(role: str, name: str | None, available: Sequence[str]) -> str:
    """Return the sentence for a column that is not there, with the nearest that is."""
    shown = ", ".join(f"'{column}'" for column in available[:12])
    more = f" and {len(available) - 12:,} more" if len(available) > 12 else ""
    if role == "clicked":
        return (
            "random rows must say in a column 'clicked' whether the user clicked (1) or not (0); "
            f"found the columns {shown}{more}; name the column clicked, click, is_click or label"
        )
    nearest = difflib.get_close_matches(name or role, available, n=1, cutoff=0.5)
    wanted = f"a column '{name}' for the {role}" if name else f"a column for the {role}"
    advice = f"name it with {role}='{nearest[0]}'" if nearest else f"name it with {role}=…"
    advice += f", on the command line with --{role}"
    meant = f"did you mean '{nearest[0]}'" if name and nearest else advice
    return f"the table must have {wanted}; found the columns {shown}{more}; {meant}"
