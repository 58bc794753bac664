"""Doubly robust ranking metrics: a relevance model, corrected by what was observed.

With r̂(u, i) the model's probability that i is relevant to u, and c(rank) a metric's value at a
rank, a user's relevant items add up to

    Σ_i r̂ · c  +  Σ_observed (1 − r̂) · c / q        over        Σ_i r̂  +  Σ_observed (1 − r̂) / q

where i runs over the items that the user has not seen. It is right if either the relevance model
or the propensities are. Only the first k items of a ranking have a value, so the sum on the left
needs k of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import DataError
from counterplay.evaluation.metrics import ranking_metrics
from counterplay.evaluation.ranks import MEMORY, hide, score_matrices
from counterplay.evaluation.recommendations import top_k

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.scoring import Scores


def doubly_robust(
    scores: Scores,
    relevance: Scores,
    targets: Interactions,
    seen: Interactions,
    ranks: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    names: Sequence[str],
    k: Sequence[int],
    memory: int = MEMORY,
) -> tuple[dict[tuple[str, int], NDArray[np.float64]], NDArray[np.float64]]:
    """Return numerators by metric and k and denominators, each one number a user, `[U]`.

    Args:
        scores: The candidate.
        relevance: Probabilities of relevance, in [0, 1].
        targets: Observed rows.
        seen: What is no candidate for recommendation.
        ranks: Full ranks of the targets under `scores`.
        weights: Inverse propensities of the targets.
        names: Metrics that a single target has: hit, dcg, ndcg, mrr.
        k: Cutoffs.
        memory: Bytes of scores at a time.
    """
    users, user = np.unique(targets.user, return_inverse=True)
    believed = _probabilities(relevance.of(targets.user, targets.item[:, None])[:, 0])
    surprise = weights * (1 - believed)
    observed = ranking_metrics(ranks, np.arange(len(ranks)), names=names, k=k)
    items, _ = top_k(scores, users, seen, max(k), memory=memory)
    at_top = _probabilities(relevance.of(users, np.maximum(items, 0))) * (items >= 0)
    by_place = ranking_metrics(
        np.arange(1.0, max(k) + 1), np.arange(max(k)), names=names, k=k
    )  # the value of each place of a list
    totals = np.empty(len(users))
    for part, found in score_matrices(relevance, users, seen.n_items, memory):
        totals[part] = np.nansum(hide(_probabilities(found), users[part], seen), axis=1)
    numerators = {
        key: at_top @ by_place[key] + np.bincount(user, surprise * values, minlength=len(users))
        for key, values in observed.items()
    }
    return numerators, totals + np.bincount(user, surprise, minlength=len(users))


def _probabilities(found: NDArray[np.float32]) -> NDArray[np.float32]:
    if found.size and (found.min() < 0 or found.max() > 1):
        raise DataError(
            "relevance must be probabilities between 0 and 1; found values from "
            f"{found.min():g} to {found.max():g}; put logits through a sigmoid"
        )
    return found
