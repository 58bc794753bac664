"""Leave out rare items, unusual users and repeated pairs, and say what was left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.data.canonical import begins, stable_order
from counterplay.data.interactions import Interactions, Step
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Duplicates = Literal["all", "first", "last", "error"]
_EDGES = {"first": "lowest", "last": "highest"}


def filter_by_events(
    log: Interactions,
    *,
    items_above: int = 0,
    users_above: int = 0,
    users_below: int | None = None,
) -> Interactions:
    """Keep items with more than `items_above` events, then users within bounds, once.

    The paper's filter is `items_above=20, users_above=20, users_below=1000`. Items are
    counted first, users on the rows that remain; the bounds are exclusive.
    """
    if users_below is not None and users_below <= users_above + 1:
        raise ConfigError(
            f"users_below must leave room above users_above; found {users_below} and "
            f"{users_above}; raise one or lower the other"
        )
    kept = (np.bincount(log.item, minlength=log.n_items) > items_above)[log.item]
    per_user = np.bincount(log.user[kept], minlength=log.n_users)
    usual = per_user > users_above
    if users_below is not None:
        usual &= per_user < users_below
    kept &= usual[log.user]
    upper = "" if users_below is None else f" and fewer than {users_below:,}"
    rule = f"items with more than {items_above:,} events, users with more than {users_above:,}"
    return _keep(log, kept, f"{rule}{upper}")


def k_core(log: Interactions, k: int) -> Interactions:
    """Keep the largest part in which every user and every item has at least `k` events."""
    if k < 1:
        raise ConfigError(f"k must be 1 or more; found {k}; raise it")
    rows, n_before = np.arange(len(log)), len(log) + 1
    while 0 < len(rows) < n_before:
        n_before = len(rows)
        for index in (log.item, log.user):
            rows = rows[(np.bincount(index[rows]) >= k)[index[rows]]]
    kept = np.zeros(len(log), dtype=np.bool_)
    kept[rows] = True
    return _keep(log, kept, f"the {k}-core: users and items with at least {k:,} events each")


def _keep(log: Interactions, kept: NDArray[np.bool_], rule: str) -> Interactions:
    remaining = log.take(kept).compact() if kept.any() else None
    if remaining is None or remaining.n_users < 2 or remaining.n_items < 2:
        n_users, n_items = (remaining.n_users, remaining.n_items) if remaining else (0, 0)
        raise DataError(
            "a filter must leave at least two users and two items; found "
            f"{n_users:,} users and {n_items:,} items left by {rule}; loosen it"
        )
    dropped = {
        "rows": len(log) - len(remaining),
        "users": log.n_users - remaining.n_users,
        "items": log.n_items - remaining.n_items,
    }
    counts = ", ".join(f"{count:,} {what}" for what, count in dropped.items())
    step = Step("filter", f"kept {rule}; dropped {counts}", dropped)
    return replace(remaining, steps=(*remaining.steps, step))


def without_duplicates(
    log: Interactions, policy: Duplicates, order: NDArray[np.int64] | None = None
) -> Interactions:
    """Keep all rows of a repeated pair, the first or the last, or refuse them; count them.

    `order` tells which row of the input each row was, for the message.
    """
    pairs, n_rows = log.pair, len(log)
    pairs.sort()
    n_repeats = int((pairs[1:] == pairs[:-1]).sum())
    if not n_repeats:
        return log
    found = f"{n_repeats:,} of {n_rows:,} rows repeat a pair of user and item"
    if policy == "all":
        step = Step("duplicates", f"{found}; all kept", {"repeats": n_repeats, "rows": 0})
        return replace(log, steps=(*log.steps, step))
    kept = _first_or_last(log.pair, policy)
    if policy == "error":
        strays = np.flatnonzero(~kept)
        row = int((strays if order is None else order[strays]).min()) + 1
        raise DataError(
            f"every pair of user and item must occur once; found {n_repeats:,} of {n_rows:,} rows "
            f"that repeat one, the first at row {row:,}; choose a policy: all, first or last"
        )
    text, counts = f"{found}; kept the {policy} of each", {"repeats": n_repeats, "rows": n_repeats}
    n_tied = 0 if log.in_file_order else _n_tied(log)
    if n_tied and log.time is None:
        raise DataError(
            f"the {policy} row of a pair must be told by time; found {n_tied:,} rows that repeat a "
            "pair with other values in a log without times; name the time column, say that the "
            "file's order is the time with order='file' (--order file), or keep all"
        )
    if n_tied:
        text += f"; {n_tied:,} of them differ at one time, where the {_EDGES[policy]} value counts"
        counts["tied"] = n_tied
    return log.take(kept, Step("duplicates", text, counts))


def _n_tied(log: Interactions) -> int:
    """Count the rows that repeat a pair at one time, next to each other, and differ otherwise."""
    columns = dict(log.columns())
    keys = [columns.pop(name) for name in ("user", "item", "time") if name in columns]
    differs = begins(*columns.values()) if columns else np.False_
    return int((~begins(*keys) & differs).sum())


def _first_or_last(pair: NDArray[np.int64], which: str) -> NDArray[np.bool_]:
    """Return a mask of the first (or the last) row of each pair, in row order."""
    order = stable_order(pair)
    edge = begins(pair if order is None else pair[order])
    if which == "last":
        edge = np.append(edge[1:], True)
    mask = np.zeros(len(pair), dtype=np.bool_)
    mask[np.flatnonzero(edge) if order is None else order[edge]] = True
    return mask
