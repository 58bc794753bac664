"""Which items may be on a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.metrics.blocks import block_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.metrics.scoring import Scores


@dataclass(frozen=True, slots=True)
class Shelf:
    """The items that may be recommended, `[n_items]`."""

    open: NDArray[np.bool_]

    @property
    def n_items(self) -> int:
        """How many there are."""
        return int(np.count_nonzero(self.open))

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return bool(self.open.all())

    def scores(self, scores: Scores) -> Scores:
        """Return the same scores with all other items behind everything."""
        return scores if self.is_whole else _OnShelf(scores, ~self.open)

    def best(
        self, scores: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the `k` best items of `[n_items]` scores, or all; among equals the first."""
        items = np.flatnonzero(self.open)
        items = items[np.argsort(-scores[items], kind="stable")[:k]]
        return items, scores[items]


class _OnShelf:
    """Scores whose closed items are as if nobody had scored them."""

    def __init__(self, scores: Scores, closed: NDArray[np.bool_]) -> None:
        self._scores, self._closed = scores, closed

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.floating]:
        """Return the scores of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        return np.where(self._closed[items], -np.inf, self._scores.of(users, items))

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.floating]:
        """Return the scores of all items for `users` `[B]`, `[B, n_items]`."""
        return self.of_block(users, slice(0, len(self._closed)))

    def of_block(self, users: NDArray[np.integer], block: slice) -> NDArray[np.floating]:
        """Return the scores of a range of items for `users` `[B]`, `[B, block]`."""
        found = block_scores(self._scores, users, block, len(self._closed))
        found[:, self._closed[block]] = -np.inf
        return found
