"""Random rows: impressions whose item was drawn at random, in the ids of a dataset.

On items drawn at random from those that a user has not seen, a click is as likely as the item is
relevant. So the clicked rows are a sample of what users want, without weights. They are never
trained on: they are kept beside the split, and evaluation alone looks at them.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.interactions import Interactions
from counterplay.data.readers import read_impressions
from counterplay.data.vocabulary import integers_of
from counterplay.errors import CounterplayWarning, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.vocabulary import Vocabulary


def read_random_rows(
    source: object, log: Interactions, *, user: str | None = None, item: str | None = None
) -> Interactions:
    """Read random rows and encode them as a dataset does; rows of unknown ids are left out.

    Args:
        source: A file or a frame with the columns user, item and clicked, or what was read of one.
        log: The dataset: its ids.
        user: User-ID column (detected if omitted).
        item: Item-ID column (detected if omitted).
    """
    found = source
    if not isinstance(found, Interactions):
        found = read_impressions(source, user=user, item=item)
    check_random_rows(found)
    clicked = np.asarray(found.clicked)
    users = _in(log.users, found.users)[found.user]
    items = _in(log.items, found.items)[found.item]
    known = np.flatnonzero((users >= 0) & (items >= 0))
    _tell_left_out(len(found) - len(known), len(found), "their users or items are not in the data")
    order = known[np.argsort(users[known], kind="stable")]
    rows = Interactions(
        log.users, log.items, users[order], items[order], clicked=clicked[order],
        name=found.name, source=found.source,
    )  # fmt: skip
    check_random_rows(rows)
    return rows


def unseen_random_rows(rows: Interactions, seen: Interactions) -> Interactions:
    """Leave out pairs that users have seen: only unseen items are ranked."""
    unseen = ~np.isin(rows.pair, seen.distinct_pairs)
    _tell_left_out(int((~unseen).sum()), len(rows), "their users had clicked these items before")
    left = rows.take(unseen)
    check_random_rows(left)
    return left


def check_random_rows(rows: Interactions) -> None:
    """Refuse rows that are all clicked, or none of them."""
    n_clicks = 0 if rows.clicked is None else int(rows.clicked.sum())
    if not 0 < n_clicks < len(rows):
        raise DataError(
            "random rows must hold clicked ones and others, of users and items of the data; found "
            f"{n_clicks:,} clicks in {len(rows):,} rows; give all that was shown at random, "
            "clicked or not"
        )


def _in(known: Vocabulary, other: Vocabulary) -> NDArray[np.int32]:
    """Return the index of each of the other ids, -1 for those that are unknown."""
    ids = other.ids
    if known.is_text != other.is_text:
        ids = ids.cast(pl.String) if known.is_text else integers_of(ids)
    return known.encode(ids)


def _tell_left_out(n: int, total: int, why: str) -> None:
    if n:
        warnings.warn(
            f"left out {n:,} of {total:,} random rows: {why}", CounterplayWarning, stacklevel=3
        )
