"""What a ranking is truly worth in a world.

    V_m(f) = Σ_u Σ_i r(u, i) · m(rank_f(u, i))  /  Σ_u Σ_i r(u, i)        over unseen items i

Of all clicks that the users would give if they saw every item that they have not clicked yet,
each is worth what the metric m gives its rank: the value is the mean. A held-out click weighted by
the inverse of its propensity estimates the same quantity, and so does an online test whose clicks
are divided by the users' demand `Σ_i r(u, i)`.

Where scores tie, m is its mean over all orders of the ties, as it is for a held-out row; an online
test breaks ties at random, user by user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.ranks import hide
from counterplay.metrics.recommendations import relevance_by_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores
    from counterplay.simulation.world import World

_AT_ONCE = 1 << 20  # relevances at a time


def gains(metric: str, k: int, n: int) -> NDArray[np.float64]:
    """Return what a metric at `k` gives to the places 1 to `n` of one target, `[n]`.

    Example:
        >>> gains("mrr", 2, 3)
        array([1. , 0.5, 0. ])
    """
    place = np.arange(1.0, n + 1)
    formulas = {"hit": np.ones(n), "dcg": 1 / np.log2(1 + place), "mrr": 1 / place}
    formulas |= {"ndcg": formulas["dcg"]}
    if metric not in formulas:
        raise ConfigError(
            f"a world values a ranking by {', '.join(sorted(formulas))}; found {metric!r}; choose "
            "one of them"
        )
    return np.where(place <= k, formulas[metric], 0.0)


def demand(
    world: World, users: NDArray[np.integer], seen: Interactions, *, time: float = 0.0
) -> NDArray[np.float64]:
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
    users: NDArray[np.integer] | None = None,
    time: float = 0.0,
    total: NDArray[np.float64] | None = None,
) -> dict[tuple[str, int], float]:
    """Return the true value of ranking by `scores`, by metric and k, and the click rate `ctr`.

    Args:
        world: Whose truth it is.
        scores: What items are ranked by; among equal ones all orders are as likely.
        seen: What the users have clicked: it is not ranked.
        metrics: hit, ndcg (a target's dcg), dcg or mrr.
        k: Cutoffs.
        users: Whose value it is; by default all users'.
        time: The round, where tastes drift.
        total: The users' demand, where it is known already.
    """
    users = np.arange(world.n_users) if users is None else users
    wanted = demand(world, users, seen, time=time) if total is None else total
    if wanted.shape != users.shape:
        raise DataError(
            f"the demand must be known of all {len(users):,} users; found {wanted.shape} numbers; "
            "give one for each"
        )
    places = relevance_by_place(scores, _Relevance(world, time), users, seen, max(k))
    by_place = places.sum(0)
    values = {
        (metric, cut): float(by_place @ gains(metric, cut, len(by_place)) / wanted.sum())
        for metric in metrics
        for cut in k
    }
    return values | {("ctr", cut): float(by_place[:cut].sum() / (len(users) * cut)) for cut in k}


class _Relevance:
    """A world's relevance at one time, as scores."""

    def __init__(self, world: World, time: float) -> None:
        self._world, self._time = world, time

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float64]:
        return self._world.relevance(users, items, time=self._time)

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float64]:
        return self._world.relevance(users, time=self._time)


def values_at_random(
    world: World,
    seen: Interactions,
    *,
    metrics: Sequence[str] = ("hit", "ndcg"),
    k: Sequence[int] = (10,),
    time: float = 0.0,
) -> dict[tuple[str, int], float]:
    """Return what ranking the unseen items at random is worth in truth, in expectation.

    Every place then has the mean relevance of what the user has not seen.
    """
    users = np.arange(world.n_users)
    wanted = demand(world, users, seen, time=time)
    pairs = np.unique(seen.user.astype(np.int64) * world.n_items + seen.item)
    unseen = world.n_items - np.bincount(pairs // world.n_items, minlength=world.n_users)
    a_place = wanted / np.maximum(unseen, 1)
    values = {}
    for metric in metrics:
        for cut in k:
            up_to = np.concatenate([[0.0], gains(metric, cut, cut).cumsum()])
            filled = up_to[np.minimum(unseen, cut)]  # short lists end early
            values[metric, cut] = float(a_place @ filled / wanted.sum())
    return values
