"""Scores by blocks of items, and candidates who are ranked elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.arrays import Doubles, Floats, Integers
    from counterplay.metrics.ranks import Ranks
    from counterplay.metrics.recommendations import Lists
    from counterplay.metrics.scoring import Scores

# Items at a time; more are never scored at once, whatever the memory, so that it changes nothing.
BLOCK = 1 << 20


@runtime_checkable
class InBlocks(Protocol):
    """Scores that are cheaper to get for a block of items than item by item."""

    def of_block(self, users: Integers, block: slice) -> Floats:
        """Return the scores of a range of items, `[B, block]`, free to be changed."""


class Elsewhere(ABC):
    """Scores of a candidate whose ranks and lists are made elsewhere, exactly as here."""

    def __init__(self, here: Scores) -> None:
        self.here = here

    def of(self, users: Integers, items: Integers) -> Floats:
        """Return the scores of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        return self.here.of(users, items)

    def of_all(self, users: Integers) -> Floats:
        """Return the scores of all items for `users` `[B]`, `[B, n_items]`."""
        return self.here.of_all(users)

    @abstractmethod
    def full_ranks(self, targets: Interactions, seen: Interactions, memory: int) -> Ranks:
        """Return what `counterplay.metrics.ranks.full_ranks` does."""

    @abstractmethod
    def sampled_ranks(self, users: Integers, candidates: Integers, memory: int) -> Ranks:
        """Return what `counterplay.metrics.ranks.sampled_ranks` does."""

    @abstractmethod
    def lists(self, users: Integers, seen: Interactions, k: int, memory: int) -> Iterator[Lists]:
        """Yield the `k` best unseen items of `users`, some users at a time."""

    @abstractmethod
    def group_sums(
        self,
        coefficients: Doubles,
        candidates: Sequence[Scores],
        users: Integers,
        weights: Integers,
        shares: Doubles,
        seen: Interactions,
        cuts: Sequence[int],
        *,
        memory: int,
        at_once: int,
    ) -> Iterator[Doubles] | None:
        """Return what `counterplay.metrics.item_sums.group_sums` yields; None to do it here."""

    @abstractmethod
    def probabilities(
        self,
        coefficients: Doubles,
        appeal: Doubles,
        candidates: Sequence[Scores],
        users: Integers,
        folds: Integers,
        seen: Interactions,
        cuts: Sequence[int],
    ) -> Iterator[NDArray[np.float32]] | None:
        """Return what `counterplay.metrics.shown_model.probabilities` yields; None as above."""


def blocks_of(n_items: int, size: int = BLOCK) -> list[slice]:
    """Return ranges of items that follow each other, one or more.

    Example:
        >>> blocks_of(5, 2)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    begins = range(0, max(n_items, 1), size)
    return [slice(begin, min(begin + size, n_items)) for begin in begins]


def block_scores(scores: Scores, users: Integers, block: slice, n_items: int) -> Floats:
    """Return the scores of a block of items for `users` `[B]`, `[B, block]`, free to be changed."""
    if block == slice(0, n_items):
        return scores.of_all(users)
    if isinstance(scores, InBlocks):
        return scores.of_block(users, block)
    items = np.arange(block.start, block.stop)
    return scores.of(users, np.broadcast_to(items, (len(users), len(items))))
