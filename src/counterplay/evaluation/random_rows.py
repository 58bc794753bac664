"""Random rows: impressions whose item was drawn at random, in the ids of a dataset.

On items drawn at random from those that a user has not seen, a click is as likely as the item is
relevant. So the clicked rows are a sample of what users want, without weights. They are never
trained on: they are kept beside the split, and evaluation alone looks at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.impressions import in_ids_of, tell_left_out
from counterplay.data.interactions import Interactions
from counterplay.data.readers import read_impressions
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from counterplay.data.splits import Split


def random_rows_of(
    source: object, split: Split, *, user: str | None = None, item: str | None = None
) -> Interactions | None:
    """Return the random rows that are given, or else those of the log; None if there are none."""
    if source is None:
        source = split.random
    elif split.random is not None and not isinstance(source, Interactions):
        raise ConfigError(
            "random rows must come from one place; found a column 'random' in the data and other "
            "rows beside it; leave one of them out"
        )
    if source is None:
        return None
    return read_random_rows(source, split.interactions, user=user, item=item)


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
    _check(found)
    rows = in_ids_of(found, log)
    _check(rows)
    return rows


def unseen_random_rows(rows: Interactions, seen: Interactions) -> Interactions:
    """Leave out pairs that users have seen: only unseen items are ranked."""
    unseen = ~np.isin(rows.pair, seen.distinct_pairs)
    tell_left_out(int((~unseen).sum()), len(rows), "their users had clicked these items before")
    left = rows.take(unseen)
    _check(left)
    return left


def _check(rows: Interactions) -> None:
    """Refuse rows that are all clicked, or none of them."""
    n_clicks = 0 if rows.clicked is None else int(rows.clicked.sum())
    if not 0 < n_clicks < len(rows):
        raise DataError(
            "random rows must hold clicked ones and others, of users and items of the data; found "
            f"{n_clicks:,} clicks in {len(rows):,} rows; give all that was shown at random, "
            "clicked or not"
        )
