"""Rows that were shown, clicked or not: taken out of a log of clicks, and put in its ids."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.canonical import stable_order, time_order
from counterplay.data.findings import Step
from counterplay.data.interactions import Interactions
from counterplay.data.splits import PARTS, TEST, VALIDATION
from counterplay.data.vocabulary import integers_of
from counterplay.errors import CounterplayWarning, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.splits import Split
    from counterplay.data.vocabulary import Vocabulary


def taken_apart(
    log: Interactions, *, compact: bool = True
) -> tuple[Interactions, Interactions | None, Interactions | None]:
    """Return the clicks of a log, its impressions without a click, and its random rows, if any.

    Random rows are marked by `random`. All that was shown otherwise is known to the vocabularies,
    clicked or not; without `compact` they stay as they are.
    """
    if log.clicked is None:
        return log, None, None
    random = np.zeros(len(log), np.bool_) if log.random is None else log.random
    steps = []
    if n_random := int(random.sum()):
        n_clicks = int((random & log.clicked).sum())
        text = f"took out {n_random:,} random rows, {n_clicks:,} of them clicked, to evaluate by"
        steps.append(Step("random", text, {"rows": n_random}))
    if n_unclicked := int((~random & ~log.clicked).sum()):
        text = f"put aside {n_unclicked:,} impressions that were not clicked"
        steps.append(Step("unclicked", text, {"rows": n_unclicked}))
    shown = replace(log.take(~random, *steps), random=None)
    shown = shown.compact() if compact else shown
    assert shown.clicked is not None
    clicks = replace(shown.take(shown.clicked), clicked=None)
    unclicked = shown.take(~shown.clicked) if n_unclicked else None
    return clicks, unclicked, replace(log.take(random), random=None) if n_random else None


def parts_of(rows: Interactions, split: Split, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return the part that each impression without a click is in, `[n]`.

    By time, where the split goes by it: a held-out part begins with its first click, of the same
    user where each user's last clicks are held out. Otherwise at random, in the shares of the
    clicks; all impressions of a pair are in one part, that of its clicks if it has any.
    """
    log, part = split.interactions, split.part
    if rows.time is not None and log.time is not None and split.kind != "random":
        begins = np.full((TEST, log.n_users), np.iinfo(np.int64).max)
        for held_out in (VALIDATION, TEST):
            chosen = part == held_out
            users, times = log.user[chosen], log.time[chosen]
            if split.kind == "leave-last-two":
                np.minimum.at(begins[held_out - 1], users, times)
            elif len(times):
                begins[held_out - 1] = times.min()
        return np.asarray((rows.time >= begins[:, rows.user]).sum(0), dtype=np.int8)
    pairs, place = np.unique(rows.pair, return_inverse=True)
    shares = np.bincount(part, minlength=len(PARTS)) / len(part)
    found = rng.choice(len(PARTS), size=len(pairs), p=shares).astype(np.int8)
    order = np.argsort(log.pair, kind="stable")
    clicked = np.minimum(np.searchsorted(log.pair[order], pairs), len(log) - 1)
    known = log.pair[order[clicked]] == pairs
    found[known] = part[order[clicked[known]]]
    return found[place]


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


def in_ids_of(rows: Interactions, log: Interactions, *, what: str = "random rows") -> Interactions:
    """Encode rows as a dataset does; those of unknown users or items are left out with a count."""
    users = _in(log.users, rows.users)[rows.user]
    items = _in(log.items, rows.items)[rows.item]
    known = np.flatnonzero((users >= 0) & (items >= 0))
    n_lost = len(rows) - len(known)
    tell_left_out(n_lost, len(rows), "their users or items are not in the data", what)
    columns: dict[str, Any] = {name: column[known] for name, column in rows.columns()}
    columns |= {"user": users[known], "item": items[known]}
    order = stable_order(columns["user"])
    if order is not None:
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
