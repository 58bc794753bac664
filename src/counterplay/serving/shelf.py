"""Which items may be recommended."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import ConfigError, CounterplayWarning
from counterplay.metrics.shelf import Shelf
from counterplay.serving.asked import asked_for

if TYPE_CHECKING:
    from counterplay.data.vocabulary import Vocabulary
    from counterplay.serving.asked import Ids


def shelf_of(items: Vocabulary, only: Ids | None, without: Ids | None) -> Shelf:
    """Return the items of `only`, by default all, that are not among `without`."""
    is_open = np.full(len(items), only is None)
    for given, word, value in ((only, "only_items", True), (without, "without_items", False)):
        if given is None:
            continue
        asked = asked_for(given, "item", items)
        is_open[asked.known] = value
        if len(asked.unknown):
            warnings.warn(
                f"{len(asked.unknown):,} of {len(asked.known) + len(asked.unknown):,} items of "
                f"{word} are not in the dataset, and change nothing; the first is "
                f"{asked.unknown[0]!r}",
                CounterplayWarning,
                stacklevel=4,
            )
    if not is_open.any():
        raise ConfigError(
            "a list needs an item that may be on it; found none of the dataset's "
            f"{len(items):,} left by only_items and without_items; let one more in"
        )
    return Shelf(is_open)
