"""Leave out rare items and unusual users, and say what was left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.interactions import Interactions, Step
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    kept = (_events(log.item, log.n_items) > items_above)[log.item]
    per_user = _events(log.user[kept], log.n_users)
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
        rows = rows[(_events(log.item[rows], log.n_items) >= k)[log.item[rows]]]
        rows = rows[(_events(log.user[rows], log.n_users) >= k)[log.user[rows]]]
    kept = np.zeros(len(log), dtype=np.bool_)
    kept[rows] = True
    return _keep(log, kept, f"the {k}-core: users and items with at least {k:,} events each")


def _events(index: NDArray[np.int32], n: int) -> NDArray[np.intp]:
    return np.bincount(index, minlength=n)


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
    text = (
        f"kept {rule}; dropped {dropped['rows']:,} rows, {dropped['users']:,} users, "
        f"{dropped['items']:,} items"
    )
    return replace(remaining, steps=(*remaining.steps, Step("filter", text, dropped)))
