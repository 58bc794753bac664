"""Repeated pairs of user and item: keep all, the first or the last of them, or refuse them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.data.ordering import stable_order
from counterplay.data.steps import Step
from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions

Duplicates = Literal["all", "first", "last", "error"]
_EDGES = {"first": "lowest", "last": "highest"}


def without_duplicates(
    interactions: Interactions, policy: Duplicates, order: NDArray[np.int64] | None = None
) -> Interactions:
    """Apply the policy for repeated pairs, and report how many there are.

    `order` tells which row of the input each row was, for the message.
    """
    pairs = interactions.pair
    pairs.sort()
    n_repeats = int((pairs[1:] == pairs[:-1]).sum())
    if not n_repeats:
        return interactions
    n_rows = len(interactions)
    found = f"{n_repeats:,} of {n_rows:,} rows repeat a pair of user and item"
    if policy == "all":
        step = Step("duplicates", f"{found}; all kept", {"repeats": n_repeats, "rows": 0})
        return replace(interactions, steps=(*interactions.steps, step))
    kept = first_or_last(interactions.pair, policy)
    if policy == "error":
        strays = np.flatnonzero(~kept)
        row = int((strays if order is None else order[strays]).min()) + 1
        raise DataError(
            f"every pair of user and item must occur once; found {n_repeats:,} of {n_rows:,} rows "
            f"that repeat one, the first at row {row:,}; choose a policy: all, first or last"
        )
    text, counts = f"{found}; kept the {policy} of each", {"repeats": n_repeats, "rows": n_repeats}
    n_tied = 0 if interactions.in_file_order else _n_tied(interactions)
    if n_tied and interactions.time is None:
        raise DataError(
            f"the {policy} row of a pair must be told by time; found {n_tied:,} rows that repeat a "
            "pair with other values in a log without times; name the time column, say that the "
            "file's order is the time with order='file' (--order file), or keep all"
        )
    if n_tied:
        text += f"; {n_tied:,} of them differ at one time, where the {_EDGES[policy]} value counts"
        counts["tied"] = n_tied
    return interactions.take(kept, Step("duplicates", text, counts))


def _n_tied(log: Interactions) -> int:
    """Count the rows that repeat a pair at one time, and differ in something else.

    In canonical order they stand behind each other.
    """
    columns = dict(log.columns())
    same = np.ones(len(log) - 1, dtype=np.bool_)
    for name in ("user", "item", "time"):
        if name in columns:
            same &= columns[name][1:] == columns[name][:-1]
    differs = np.zeros_like(same)
    for name in columns.keys() - {"user", "item", "time"}:
        differs |= columns[name][1:] != columns[name][:-1]
    return int((same & differs).sum())


def first_or_last(pair: NDArray[np.int64], which: str) -> NDArray[np.bool_]:
    """Return a mask of the first (or the last) row of each pair, in row order."""
    order = stable_order(pair)
    grouped = pair if order is None else pair[order]
    edge = np.ones(len(pair), dtype=np.bool_)
    different = grouped[1:] != grouped[:-1]
    if which == "last":
        edge[:-1] = different
    else:
        edge[1:] = different
    mask = np.zeros(len(pair), dtype=np.bool_)
    mask[np.flatnonzero(edge) if order is None else order[edge]] = True
    return mask
