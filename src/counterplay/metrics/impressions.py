"""How well scores tell the clicks among impressions: numpy in, numpy out.

Whoever shows only some items still learns which of those were clicked, so these do not reward the
imitation of what was shown, as ranks among all items do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from counterplay.metrics.arrays import Doubles, Flags, Integers

_LEAST = 1e-7  # of a probability


def shares_below(user: Integers, scores: Doubles, clicked: Flags) -> Doubles:
    """Return for each click the share of its user's unclicked impressions that score lower.

    Ties count half; a click whose user has no unclicked impression gets NaN. The mean over clicks
    is the area under the curve (AUC) within users, by clicks.

    Example:
        >>> user, clicked = np.array([0, 0, 0, 1]), np.array([True, False, False, True])
        >>> shares_below(user, np.array([0.5, 0.5, 0.1, 9.0]), clicked)
        array([0.75,  nan])
    """
    levels, level = np.unique(scores, return_inverse=True)
    key = user.astype(np.int64) * len(levels) + level
    others, clicks = np.sort(key[~clicked]), key[clicked]
    first = user[clicked].astype(np.int64) * len(levels)
    begin, end = (np.searchsorted(others, each) for each in (first, first + len(levels)))
    lower = np.searchsorted(others, clicks) - begin
    ties = np.searchsorted(others, clicks, side="right") - begin - lower
    n = end - begin
    return np.where(n > 0, (lower + ties / 2) / np.maximum(n, 1), np.nan)


def click_log_losses(logits: Doubles, clicked: Flags, position: Integers | None = None) -> Doubles:
    """Return `−log P(y)` of each impression, with `P(click) = ρ_p · σ(logit)`, `[n]`.

    ρ_p makes expected clicks at each position as many as there were, and is at most 1.
    """
    wanted = expit(logits)
    place = np.zeros(len(logits), np.int64) if position is None else position.astype(np.int64)
    if position is not None:
        clicks, expected = np.bincount(place, clicked), np.bincount(place, wanted)
        wanted = wanted * np.minimum(clicks / np.maximum(expected, _LEAST), 1)[place]
    probability = np.clip(np.where(clicked, wanted, 1 - wanted), _LEAST, 1)
    return np.asarray(-np.log(probability))
