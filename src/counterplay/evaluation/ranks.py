"""Ranks of targets among their candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.negatives import NegativeSampler
from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions


def ranks_of_first(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rank of each row's first score among all of the row, 1 is best.

    Ties get their expected rank: `1 + greater + equal / 2`.

    Example:
        >>> ranks_of_first(np.array([[2.0, 3.0, 1.0], [1.0, 1.0, 1.0]]))
        array([2., 2.])
    """
    first, others = scores[:, :1], scores[:, 1:]
    ranks: NDArray[np.float64] = 1 + (others > first).sum(1) + (others == first).sum(1) / 2
    return ranks


def sampled_candidates(
    seen: Interactions, targets: Interactions, n: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return each target's item and `n` distinct other items that its user has not seen.

    The paper's protocol: uniform negatives that are neither in `seen` nor the target. Draw once,
    and use the same candidates for every model, `[len(targets), 1 + n]`.
    """
    known = NegativeSampler(_both(seen, targets))
    room = known.n_unseen(targets.user)
    if len(room) and int(room.min()) < n:
        raise DataError(
            f"every user must have {n:,} unseen items to be ranked among; found one with "
            f"{int(room.min()):,}; take fewer negatives, or rank among all items"
        )
    drawn = known.draw(targets.user, n, rng)
    while True:  # items that occur twice in a row are drawn again: the others stay as they are
        order = np.argsort(drawn, axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, order, axis=1)
        again = np.zeros(drawn.shape, dtype=np.bool_)
        np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        rows = np.nonzero(again)[0]
        if not len(rows):
            return np.concatenate([targets.item[:, None], drawn], axis=1)
        drawn[again] = known.draw(targets.user[rows], 1, rng)[:, 0]


def _both(seen: Interactions, targets: Interactions) -> Interactions:
    """Return the pairs of two logs with the same vocabularies as one log."""
    user = np.concatenate([seen.user, targets.user])
    order = np.argsort(user, kind="stable")
    item = np.concatenate([seen.item, targets.item])
    return type(seen)(seen.users, seen.items, user[order], item[order])
