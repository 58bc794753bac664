"""Doubly robust ranking metrics: a relevance model, corrected by what happened when shown.

With r̂(u, i) the model's probability that i is relevant to u, and c(rank) a metric's value at a
rank, a user's relevant items add up to

    Σ_i r̂ · c  +  Σ_exposed (y − r̂) · c / q        over        Σ_i r̂  +  Σ_exposed (y − r̂) / q

where i runs over the items that the user has not seen, and y says whether an exposed item was
taken. It is right if either the relevance model or the propensities are. It needs the rows that
were exposed and *not* taken: clicks alone never contradict a relevance model. Only the first k
places have a value, so the sum on the left needs k of them; where scores tie, both sides have the
mean over all orders of the ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import DataError
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import MEMORY, Ranks, hide, with_all_scores
from counterplay.metrics.recommendations import relevance_by_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.arrays import Doubles, Flags, Floats, Integers
    from counterplay.metrics.scoring import Scores


def doubly_robust(
    scores: Scores,
    relevance: Scores,
    exposed: Interactions,
    outcomes: Flags,
    seen: Interactions,
    ranks: Ranks | Doubles,
    weights: Doubles,
    *,
    users: Integers | None = None,
    names: Sequence[str] = ("hit", "ndcg"),
    k: Sequence[int] = (10,),
    memory: int = MEMORY,
) -> tuple[dict[tuple[str, int], Doubles], Doubles]:
    """Return numerators by metric and k and denominators, each one number a user, `[U]`.

    The estimate is the ratio of their sums; `bootstrap` takes both, with users as clusters.

    Args:
        scores: The candidate.
        relevance: Probabilities of relevance, in [0, 1].
        exposed: Rows that were shown, taken or not, none of them in `seen`.
        outcomes: Whether they were taken, `[n]`.
        seen: What is no candidate for recommendation.
        ranks: Full ranks of the exposed rows under `scores`, `[n]`.
        weights: Their inverse propensities, `[n]`.
        users: Whom to sum over, ascending; by default those with exposed rows.
        names: Metrics that a single target has.
        k: Cutoffs.
        memory: Bytes at a time.
    """
    if np.isin(exposed.pair, seen.pair).any():
        raise DataError(
            "exposed rows must not be among those that were seen before; found some that are; "
            "leave them out"
        )
    users = np.unique(exposed.user) if users is None else users
    user = np.searchsorted(users, exposed.user)
    believed = _probabilities(relevance.of(exposed.user, exposed.item[:, None])[:, 0])
    surprise = weights * (outcomes - believed)
    at_rank = ranking_metrics(ranks, np.arange(len(ranks)), names=names, k=k)
    at_top = relevance_by_place(scores, relevance, users, seen, max(k), memory=memory)
    places = np.arange(max(k))
    at_place = ranking_metrics(places + 1.0, places, names=names, k=k)

    def total(part: slice, found: Floats) -> Floats:
        return np.asarray(np.nansum(hide(_probabilities(found), users[part], seen), axis=1))

    totals = np.empty(len(users))
    for part, sums in with_all_scores(total, relevance, users, seen.n_items, memory):
        totals[part] = sums
    numerators = {
        key: at_top @ at_place[key] + np.bincount(user, surprise * values, minlength=len(users))
        for key, values in at_rank.items()
    }
    return numerators, totals + np.bincount(user, surprise, minlength=len(users))


def _probabilities(found: Floats) -> Floats:
    if found.size and (found.min() < 0 or found.max() > 1):
        raise DataError(
            "relevance must be probabilities between 0 and 1; found values from "
            f"{found.min():g} to {found.max():g}; put logits through a sigmoid"
        )
    return found
