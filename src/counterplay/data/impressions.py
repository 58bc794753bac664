"""Rows that were shown, clicked or not: taken out of a log of clicks, and put in its ids."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.findings import Step
from counterplay.data.interactions import Interactions
from counterplay.data.vocabulary import integers_of
from counterplay.errors import CounterplayWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.vocabulary import Vocabulary


def taken_apart(log: Interactions) -> tuple[Interactions, Interactions | None]:
    """Return the clicks of a log, as if nothing else had been in it, and its random rows if any.

    Random rows are marked by `random`. Other rows that were not clicked are left out with a count.
    """
    if log.clicked is None:
        return log, None
    random = np.zeros(len(log), np.bool_) if log.random is None else log.random
    steps = []
    if n_random := int(random.sum()):
        n_clicks = int((random & log.clicked).sum())
        text = f"took out {n_random:,} random rows, {n_clicks:,} of them clicked, to evaluate by"
        steps.append(Step("random", text, {"rows": n_random}))
    if n_shown := int((~random & ~log.clicked).sum()):
        text = f"left out {n_shown:,} rows that were not clicked"
        steps.append(Step("clicked", text, {"rows": n_shown}))
    clicks = replace(log.take(~random & log.clicked, *steps), clicked=None, random=None)
    return clicks.compact(), replace(log.take(random), random=None) if n_random else None


def in_ids_of(rows: Interactions, log: Interactions) -> Interactions:
    """Encode random rows as a dataset does; those of unknown users or items are left out."""
    users = _in(log.users, rows.users)[rows.user]
    items = _in(log.items, rows.items)[rows.item]
    known = np.flatnonzero((users >= 0) & (items >= 0))
    tell_left_out(len(rows) - len(known), len(rows), "their users or items are not in the data")
    order = known[np.argsort(users[known], kind="stable")]
    return Interactions(
        log.users,
        log.items,
        users[order],
        items[order],
        clicked=None if rows.clicked is None else rows.clicked[order],
        name=rows.name,
        source=rows.source,
    )


def tell_left_out(n: int, total: int, why: str) -> None:
    """Warn of random rows that are left out, if there are any."""
    if n:
        warnings.warn(
            f"left out {n:,} of {total:,} random rows: {why}", CounterplayWarning, stacklevel=3
        )


def _in(known: Vocabulary, other: Vocabulary) -> NDArray[np.int32]:
    """Return the index of each of the other ids, -1 for those that are unknown."""
    ids = other.ids
    if known.is_text != other.is_text:
        ids = ids.cast(pl.String) if known.is_text else integers_of(ids)
    return known.encode(ids)
