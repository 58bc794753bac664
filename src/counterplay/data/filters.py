"""Leave out rare items, unusual users and repeated pairs, and say what was left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.data.canonical import begins, stable_order
from counterplay.data.interactions import Interactions, Step
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    rule = events_rule(items_above, users_above, users_below)
    kept = (np.bincount(log.item, minlength=log.n_items) > items_above)[log.item]
    kept &= usual_users(log.user[kept], log.n_users, users_above, users_below)[log.user]
    return _keep(log, kept, rule)


def events_rule(items_above: int, users_above: int, users_below: int | None) -> str:
    """Return in words what `filter_by_events` keeps; refuse bounds that leave nothing."""
    if users_below is not None and users_below <= users_above + 1:
        raise ConfigError(
            f"users_below must leave room above users_above; found {users_below} and "
            f"{users_above}; raise one or lower the other"
        )
    upper = "" if users_below is None else f" and fewer than {users_below:,}"
    rule = f"items with more than {items_above:,} events, users with more than {users_above:,}"
    return f"{rule}{upper}"


def usual_users(
    user: NDArray[np.int32], n_users: int, above: int, below: int | None
) -> NDArray[np.bool_]:
    """Tell which users have more rows than `above` and fewer than `below`, `[n_users]`."""
    per_user = np.bincount(user, minlength=n_users)
    usual: NDArray[np.bool_] = per_user > above
    return usual if below is None else usual & (per_user < below)


def k_core(log: Interactions, k: int) -> Interactions:
    """Keep the largest part in which every user and every item has at least `k` events."""
    rule = core_rule(k)
    rows, n_before = np.arange(len(log)), len(log) + 1
    while 0 < len(rows) < n_before:
        n_before = len(rows)
        for index in (log.item, log.user):
            rows = rows[(np.bincount(index[rows]) >= k)[index[rows]]]
    kept = np.zeros(len(log), dtype=np.bool_)
    kept[rows] = True
    return _keep(log, kept, rule)


def core_rule(k: int) -> str:
    """Return in words what `k_core` keeps."""
    if k < 1:
        raise ConfigError(f"k must be 1 or more; found {k}; raise it")
    return f"the {k}-core: users and items with at least {k:,} events each"


def _keep(log: Interactions, kept: NDArray[np.bool_], rule: str) -> Interactions:
    remaining = log.take(kept).compact() if kept.any() else None
    step = filter_step(rule, _counts(log), _counts(remaining))
    assert remaining is not None  # or there would be no step
    return replace(remaining, steps=(*remaining.steps, step))


def _counts(log: Interactions | None) -> dict[str, int]:
    counts = (len(log), log.n_users, log.n_items) if log else (0, 0, 0)
    return dict(zip(("rows", "users", "items"), counts, strict=True))


def filter_step(rule: str, before: Mapping[str, int], after: Mapping[str, int]) -> Step:
    """Say what a filter did, by the number of rows, users and items before it and after it."""
    if after["users"] < 2 or after["items"] < 2:
        raise DataError(
            "a filter must leave at least two users and two items; found "
            f"{after['users']:,} users and {after['items']:,} items left by {rule}; loosen it"
        )
    dropped = {what: before[what] - after[what] for what in ("rows", "users", "items")}
    counts = ", ".join(f"{count:,} {what}" for what, count in dropped.items())
    return Step("filter", f"kept {rule}; dropped {counts}", dropped)


def without_duplicates(
    log: Interactions, policy: Duplicates, order: NDArray[np.int64] | None = None
) -> Interactions:
    """Keep all rows of a repeated pair, the first or the last, or refuse them; count them.

    `order` tells which row of the input each row was, for the message.
    """
    n_repeats = count_repeats(log.pair)
    if not n_repeats:
        return log
    kept = first_or_last(log.pair, policy) if policy != "all" else None
    n_tied = row = 0
    if policy == "error" and kept is not None:
        strays = np.flatnonzero(~kept)
        row = int((strays if order is None else order[strays]).min()) + 1
    elif kept is not None and not log.in_file_order:
        n_tied = count_tied(dict(log.columns()))
    counts = {"rows": len(log), "repeats": n_repeats, "tied": n_tied}
    step = duplicates_step(policy, counts, timed=log.time is not None, row=row)
    if kept is None:
        return replace(log, steps=(*log.steps, step))
    return log.take(kept, step)


def count_repeats(pairs: NDArray[np.int64]) -> int:
    """Count the rows whose pair another row has before them; the pairs are given up."""
    pairs.sort()
    return int((pairs[1:] == pairs[:-1]).sum())


def duplicates_step(
    policy: Duplicates, found: Mapping[str, int], *, timed: bool, row: int = 0
) -> Step:
    """Say what was done about repeated pairs, by the number of rows, repeats and ties.

    `row` is the first that repeats a pair, where it is known.
    """
    n_rows, n_repeats, n_tied = (found[what] for what in ("rows", "repeats", "tied"))
    if policy == "error":
        where = f", the first at row {row:,}" if row else ""
        raise DataError(
            f"every pair of user and item must occur once; found {n_repeats:,} of {n_rows:,} rows "
            f"that repeat one{where}; choose a policy: all, first or last"
        )
    text = f"{n_repeats:,} of {n_rows:,} rows repeat a pair of user and item"
    if policy == "all":
        return Step("duplicates", f"{text}; all kept", {"repeats": n_repeats, "rows": 0})
    text += f"; kept the {policy} of each"
    counts = {"repeats": n_repeats, "rows": n_repeats}
    if n_tied and not timed:
        raise DataError(
            f"the {policy} row of a pair must be told by time; found {n_tied:,} rows that repeat a "
            "pair with other values in a log without times; name the time column, say that the "
            "file's order is the time with order='file' (--order file), or keep all"
        )
    if n_tied:
        text += f"; {n_tied:,} of them differ at one time, where the {_EDGES[policy]} value counts"
        counts["tied"] = n_tied
    return Step("duplicates", text, counts)


def count_tied(columns: dict[str, NDArray[Any]]) -> int:
    """Count the rows that repeat a pair at one time, next to each other, and differ otherwise."""
    keys = [columns.pop(name) for name in ("user", "item", "time") if name in columns]
    differs = begins(*columns.values()) if columns else np.False_
    return int((~begins(*keys) & differs).sum())


def first_or_last(pair: NDArray[np.int64], which: str) -> NDArray[np.bool_]:
    """Return a mask of the first (or the last) row of each pair, in row order."""
    order = stable_order(pair)
    edge = begins(pair if order is None else pair[order])
    if which == "last":
        edge = np.append(edge[1:], True)
    mask = np.zeros(len(pair), dtype=np.bool_)
    mask[np.flatnonzero(edge) if order is None else order[edge]] = True
    return mask
