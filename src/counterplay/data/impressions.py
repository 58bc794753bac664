"""Rows that were shown, clicked or not: taken out of a log of clicks, and put in its ids."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.assembly import Table
from counterplay.data.canonical import (
    arranged,
    in_order,
    slices,
    stable_order,
    time_order,
    user_blocks,
)
from counterplay.data.findings import Step
from counterplay.data.interactions import Interactions
from counterplay.data.splits import PARTS, TEST, VALIDATION
from counterplay.data.vocabulary import integers_of
from counterplay.errors import CounterplayWarning, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.filters import Duplicates
    from counterplay.data.splits import Split
    from counterplay.data.vocabulary import Vocabulary

FROM_ZERO = Step("position", "positions count from 0 here, so 1 was added to each")


def taken_apart(
    log: Interactions | Table, *, compact: bool = True
) -> tuple[Interactions, Interactions | None, Interactions | None]:
    """Return the clicks of a log, its impressions without a click, and its random rows, if any.

    Random rows are marked by `random`. All that was shown otherwise is known to the vocabularies,
    clicked or not; without `compact` they stay as they are. A click that was not exposed is organic
    and stays; any other row that was not exposed was not shown, and is left out. The columns of a
    table are given up.
    """
    table = log if isinstance(log, Table) else Table.of(log)
    columns, steps = table.columns, table.steps
    if "clicked" not in columns:
        return (of_clicks(log, "all") if isinstance(log, Table) else log), None, None
    _count_from_one(table)
    clicked = columns.pop("clicked")
    random = columns.pop("random", None)
    kept = np.ones(len(clicked), np.bool_)
    if (exposed := columns.get("exposed")) is not None:
        kept = exposed | clicked if random is None else exposed | (clicked & ~random)
        if n_hidden := len(kept) - int(kept.sum()):
            text = f"left out {n_hidden:,} rows that were not shown: they are not exposed, and no "
            text += "organic clicks"
            steps.append(Step("hidden", text, {"rows": n_hidden}))
    at_random = None
    if random is not None and (n_random := int((random & kept).sum())):
        rows = random & kept
        n_clicks = int((rows & clicked).sum())
        text = f"took out {n_random:,} random rows, {n_clicks:,} of them clicked, to evaluate by"
        steps.append(Step("random", text, {"rows": n_random}))
        taken = {name: column[rows] for name, column in columns.items() if name != "exposed"}
        taken["clicked"] = clicked[rows]
        at_random = table.holding(arranged(taken, table.users, table.items, table.order))
    if random is not None:
        kept &= ~random
    chosen = np.flatnonzero(kept & clicked)
    if not len(chosen):
        raise DataError(
            f"a log must hold clicks beside random rows; found none in {len(kept):,} rows; name "
            "the column that tells what was clicked with --clicked, or take every row for a click "
            "with --clicked -"
        )
    if exposed is not None:
        steps.extend(_organic(exposed[chosen]))
    if n_unclicked := int((kept & ~clicked).sum()):
        text = f"put aside {n_unclicked:,} impressions that were not clicked"
        steps.append(Step("unclicked", text, {"rows": n_unclicked}))
    if compact:
        _keep_what_is_shown(table, kept)
    clicks = {name: column[chosen] for name, column in columns.items()}
    others: dict[str, Any] = {}
    kept &= ~clicked
    for name in list(columns):  # which are many, so none is held longer than needed
        column = columns.pop(name)
        if n_unclicked and name not in ("rating", "exposed"):
            others[name] = column[kept]
        del column
    del exposed, kept
    how = (table.users, table.items, table.order)
    found = table.holding(arranged(clicks, *how))
    unclicked = table.holding(arranged(others, *how)) if n_unclicked else None
    return found, unclicked, at_random


def of_clicks(table: Table, duplicates: Duplicates) -> Interactions:
    """Return a log whose rows are all clicks; one that was not exposed is organic."""
    _count_from_one(table)
    table.steps.extend(_organic(table.columns.get("exposed")))
    return table.ordered(duplicates)


def _count_from_one(table: Table) -> None:
    """Let positions begin with 1."""
    position, exposed = table.columns.get("position"), table.columns.get("exposed")
    if position is None:
        return
    shown = position if exposed is None else position[exposed]  # the others have none
    if shown.min(initial=1) > 0:
        return
    refuse_both_ends(int(position.max()))
    table.columns["position"] = position + position.dtype.type(1)
    table.steps.append(FROM_ZERO)


def refuse_both_ends(highest: int) -> None:
    """Refuse positions that count from 0 and cannot be counted from 1."""
    if highest == np.iinfo(np.int16).max:
        raise DataError(
            "positions must be whole numbers from 1 to 32,767; found both 0 and 32,767; correct "
            "them, or leave the column out with --position -"
        )


def _organic(exposed: NDArray[np.bool_] | None) -> list[Step]:
    """Count the clicks that were not exposed."""
    return [] if exposed is None else organic_step(len(exposed) - int(exposed.sum()), len(exposed))


def organic_step(n: int, n_rows: int) -> list[Step]:
    """Say how many clicks are organic, if any are."""
    text = f"{n:,} of {n_rows:,} clicks are organic: not shown, so learnt from and not evaluated by"
    return [Step("organic", text, {"rows": n})] if n else []


def _keep_what_is_shown(table: Table, shown: NDArray[np.bool_]) -> None:
    """Leave users and items out of the vocabularies that no such row mentions."""
    for role, plural in (("user", "users"), ("item", "items")):
        vocabulary, index = getattr(table, plural), table.columns[role]
        mentioned = np.zeros(len(vocabulary), np.bool_)
        for part in slices(len(index)):
            mentioned[index[part][shown[part]]] = True
        if mentioned.all():
            continue
        new_index = np.cumsum(mentioned, dtype=np.int32) - np.int32(1)
        table.columns[role] = np.empty(len(index), np.int32)
        for part in slices(len(index)):
            table.columns[role][part] = new_index[index[part]]
        kept = np.flatnonzero(mentioned)
        setattr(table, plural, type(vocabulary)(vocabulary.decode(kept)))
        features = getattr(table, f"{role}_features")
        setattr(table, f"{role}_features", features and features.take(kept))


def parts_of(rows: Interactions, split: Split, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return the part that each impression without a click is in, `[n]`.

    By time, where the split goes by it: a held-out part begins with its first click, of the same
    user where each user's last clicks are held out. Otherwise at random, in the shares of the
    clicks; all impressions of a pair are in one part, that of its clicks if it has any.
    """
    log, part = split.interactions, split.part
    found = np.empty(len(rows), np.int8)
    if rows.time is not None and log.time is not None and split.kind != "random":
        begins = np.full((TEST, log.n_users), np.iinfo(np.int64).max)
        for held_out in (VALIDATION, TEST):
            chosen = part == held_out
            users, times = log.user[chosen], log.time[chosen]
            if split.kind == "leave-last-two":
                np.minimum.at(begins[held_out - 1], users, times)
            elif len(times):
                begins[held_out - 1] = times.min()
        for some in slices(len(rows)):
            found[some] = (rows.time[some] >= begins[:, rows.user[some]]).sum(0)
        return found
    shares = np.bincount(part, minlength=len(PARTS)) / len(part)
    order = np.argsort(log.pair, kind="stable")
    known_pairs = log.pair[order]
    for first, last in user_blocks(rows.offsets):
        some = slice(int(rows.offsets[first]), int(rows.offsets[last]))
        numbers = rows.user[some].astype(np.int64) * rows.n_items + rows.item[some]
        pairs, place = np.unique(numbers, return_inverse=True)
        drawn = rng.choice(len(PARTS), size=len(pairs), p=shares).astype(np.int8)
        clicked = np.minimum(np.searchsorted(known_pairs, pairs), len(log) - 1)
        known = known_pairs[clicked] == pairs
        drawn[known] = part[order[clicked[known]]]
        found[some] = drawn[place]
    return found


def impressions_of(split: Split, part: int) -> Interactions:
    """Return what was shown in a part, clicked or not, in the order of users and times.

    A click that is marked as not exposed is organic, and no impression.
    """
    if split.unclicked is None or split.unclicked_part is None:
        raise DataError(
            "impressions must tell which rows were shown and not clicked; found a log of clicks "
            "alone; give a log with a column 'clicked', or choose what learns from clicks"
        )
    clicks = split.interactions.take(split.part == part)
    if clicks.exposed is not None:
        clicks = clicks.take(clicks.exposed)
    others = dict(split.unclicked.take(split.unclicked_part == part).columns())
    columns: dict[str, Any] = {
        name: np.concatenate([column, others[name]])
        for name, column in clicks.columns()
        if name in others
    }
    columns["clicked"] = np.arange(len(columns["user"])) < len(clicks)
    order = time_order(columns)
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
    columns |= {name: None for name, _ in clicks.columns() if name not in columns}
    return replace(clicks, **columns)


def tells_apart(split: Split, part: int) -> bool:
    """Tell whether a user of a part was shown something and clicked it, and something else not."""
    if split.unclicked is None or split.unclicked_part is None:
        return False
    clicks = without_organic(split.interactions.take(split.part == part))
    passed = split.unclicked.user[split.unclicked_part == part]
    return bool(np.isin(clicks.user, passed).any())


def without_organic(rows: Interactions, *, tell: bool = False) -> Interactions:
    """Leave out held-out clicks that were not exposed: no propensity of exposure is theirs."""
    if rows.exposed is None or rows.exposed.all():
        return rows
    if tell:
        n, why = len(rows) - int(rows.exposed.sum()), "organic, clicked without being shown"
        tell_left_out(n, len(rows), f"they are {why}", "held-out clicks")
    return rows.take(rows.exposed)


def held_out_clicks(split: Split, part: str, *, tell: bool = False) -> Interactions:
    """Return the clicks that a part is evaluated by; refuse a part that has none."""
    rows = split.test if part == "test" else split.validation
    if not len(rows):
        raise DataError(
            f"an evaluation needs {part} rows; found none; prepare the data with a split that "
            "holds some out"
        )
    if rows.exposed is not None and not rows.exposed.any():
        raise DataError(
            f"an evaluation needs {part} clicks on what was shown; found {len(rows):,}, all of "
            "them organic (exposed is false); choose another split, or leave the column out with "
            "--exposed - if they were shown"
        )
    return without_organic(rows, tell=tell)


def in_ids_of(rows: Interactions, log: Interactions, *, what: str = "random rows") -> Interactions:
    """Encode rows as a dataset does; those of unknown users or items are left out with a count."""
    columns: dict[str, Any] = dict(rows.columns())
    if rows.users is not log.users or rows.items is not log.items:
        users = _in(log.users, rows.users)[rows.user]
        items = _in(log.items, rows.items)[rows.item]
        known = (users >= 0) & (items >= 0)
        n_lost = len(rows) - int(known.sum())
        tell_left_out(n_lost, len(rows), "their users or items are not in the data", what)
        columns |= {"user": users, "item": items}
        columns = {name: column[known] for name, column in columns.items()}
    if not in_order(columns["user"]):
        order = stable_order(columns["user"])
        columns = {name: column[order] for name, column in columns.items()}
    return Interactions(log.users, log.items, **columns, name=rows.name, source=rows.source)


def tell_left_out(n: int, total: int, why: str, what: str = "random rows") -> None:
    """Warn of rows that are left out, if there are any."""
    if n:
        text = f"left out {n:,} of {total:,} {what}: {why}"
        warnings.warn(text, CounterplayWarning, stacklevel=3)


def _in(known: Vocabulary, other: Vocabulary) -> NDArray[np.int32]:
    """Return the index of each of the other ids, -1 for those that are unknown."""
    ids = other.ids
    if known.is_text != other.is_text:
        ids = ids.cast(pl.String) if known.is_text else integers_of(ids)
    return known.encode(ids)
