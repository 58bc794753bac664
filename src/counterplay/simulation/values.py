"""What a ranking is truly worth in a world.

    V_m(f) = Σ_u Σ_i r(u, i) · m(rank_f(u, i))  /  Σ_u Σ_i r(u, i)        over unseen items i

It is the mean, over all clicks that users would give if they saw every item that they have not
clicked yet, of what the metric m gives to the rank of the item. A held-out click weighted by
the inverse of its propensity estimates the same quantity, and so does an online test whose clicks
are divided by the users' demand `Σ_i r(u, i)`.

Where scores tie, m is its mean over all orders of the ties, as for a held-out row; an online test
breaks ties at random, user by user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.formulas import row_metrics
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import hide
from counterplay.metrics.recommendations import relevance_by_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores
    from counterplay.simulation.factors import Indices, Numbers
    from counterplay.simulation.world import World

_AT_ONCE = 1 << 20  # relevances at a time


def gains(metric: str, k: int, n: int) -> Numbers:
    """Return what a metric at `k` gives to the ranks 1 to `n` of one target, `[n]`.

    Example:
        >>> gains("mrr", 2, 3)
        array([1. , 0.5, 0. ])
    """
    if metric not in row_metrics():
        raise ConfigError(
            f"a world values a ranking by {', '.join(row_metrics())}; found {metric!r}; choose one "
            "of them"
        )
    places = np.arange(1.0, n + 1)
    return ranking_metrics(places, np.arange(n), names=[metric], k=[k])[metric, k]


def demand(world: World, users: Indices, seen: Interactions, *, time: float = 0.0) -> Numbers:
    """Return the clicks that each user would give on all unseen items, `[B]`."""
    found = np.empty(len(users))
    size = max(1, _AT_ONCE // world.n_items)
    for begin in range(0, len(users), size):
        part = users[begin : begin + size]
        found[begin : begin + size] = np.nansum(
            hide(world.relevance(part, time=time), part, seen), axis=1
        )
    return found


def true_values(
    world: World,
    scores: Scores,
    seen: Interactions,
    *,
    metrics: Sequence[str] = ("hit", "ndcg"),
    k: Sequence[int] = (10,),
    users: Indices | None = None,
    time: float = 0.0,
    total: Numbers | None = None,
) -> dict[tuple[str, int], float]:
    """Return the true value of ranking by `scores`, by metric and k, and the click rate `ctr`.

    Args:
        world: Whose truth it is.
        scores: What items are ranked by; all orders of ties are equally likely.
        seen: What the users have clicked: it is not ranked.
        metrics: Any of single rows; the ndcg of one target is its dcg.
        k: Cutoffs.
        users: Whose value it is; by default all users.
        time: The round, where tastes drift.
        total: The users' demand, if it is known already.
    """
    users = np.arange(world.n_users) if users is None else users
    wanted = demand(world, users, seen, time=time) if total is None else total
    if wanted.shape != users.shape:
        raise DataError(
            f"the demand must be known of all {len(users):,} users; found {wanted.shape} numbers; "
            "give one for each"
        )
    places = relevance_by_place(scores, Relevance(world, time), users, seen, max(k))
    by_place = places.sum(0)
    values = {
        (metric, cut): float(by_place @ gains(metric, cut, len(by_place)) / wanted.sum())
        for metric in metrics
        for cut in k
    }
    return values | {("ctr", cut): float(by_place[:cut].sum() / (len(users) * cut)) for cut in k}


class Relevance:
    """A world's relevance in one round, as scores: no ranking is worth more."""

    def __init__(self, world: World, time: float) -> None:
        self._world, self._time = world, time

    def of(self, users: Indices, items: Indices) -> Numbers:
        """Return the relevance of `items` `[B, K]`."""
        return self._world.relevance(users, items, time=self._time)

    def of_all(self, users: Indices) -> Numbers:
        """Return the relevance of all items, `[B, n_items]`."""
        return self._world.relevance(users, time=self._time)
