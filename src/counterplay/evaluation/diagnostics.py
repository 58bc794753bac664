"""Exposure diagnostics of an evaluation: what its weights, its lists and its metrics hang on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.evaluation.gallery import user_gallery
from counterplay.evaluation.list_measures import list_measures
from counterplay.evaluation.records import (
    Calibration,
    DecileMean,
    Diagnostics,
    Popularity,
    Recommended,
    Spread,
)
from counterplay.evaluation.segments import segments
from counterplay.metrics.exposure import (
    calibration,
    deciles_of_items,
    means_by_decile,
    popularity_deciles,
    popularity_of_lists,
    spread_of_propensities,
)
from counterplay.metrics.intervals import resamples_needed
from counterplay.metrics.measures import mean_popularity
from counterplay.metrics.recommendations import top_k
from counterplay.simulation.logs import oracle_propensities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.segments import Followed
    from counterplay.evaluation.stage import Stage

Weights = list[tuple[str, str | None, "NDArray[np.float64]"]]  # estimator, candidate, and theirs

_MOST_USERS = 10_000  # whose lists are looked at
_N_RESAMPLES = 200  # an interval for the eye


def diagnostics(
    stage: Stage,
    contestants: Sequence[Contestant],
    *,
    k: int = 10,
    follows: Followed | None = None,
    n_sampled: int = 0,
) -> Diagnostics:
    """Return the diagnostics of an evaluation.

    - propensities: how those of each estimator are spread; candidate is None where all share them.
    - popularity: what the deciles of items hold, and which of them the lists of `k` draw on, for
      users with rows here, or 10,000 of them; a candidate that can recommend nothing is left out,
      and all are where ratings are predicted.
    - by_decile: the plain mean of each metric, by the decile of the row's item.
    - calibration: propensities against the true ones, in a world; else empty.
    - segments: the metric that decides by part of the audience, where it is said what is followed.
    - gallery: `n_sampled` users with what they did and what each candidate would show them.
    """
    train = stage.train
    events = np.bincount(train.item, minlength=train.n_items)
    deciles = popularity_deciles(events)
    weights = _weights(stage, contestants)
    popularity = {
        "deciles": deciles_of_items(deciles, events),
        "recommended": _recommended(stage, contestants, deciles, events, k),
        "logged_mean_popularity": mean_popularity(train.item, events),
    }
    floor = stage.config.floor
    return Diagnostics(
        propensities=tuple(
            Spread(estimator=name, candidate=whose, **spread_of_propensities(each, floor=floor))
            for name, whose, each in weights
        ),
        popularity=Popularity.model_validate(popularity),
        by_decile=_by_decile(stage, contestants, deciles),
        calibration=_calibration(stage, weights),
        segments=None if follows is None else segments(stage, contestants, follows),
        gallery=user_gallery(stage, contestants, k=k, n_users=n_sampled) if n_sampled else None,
    )


def _weights(stage: Stage, contestants: Sequence[Contestant]) -> Weights:
    """Return the weights of every estimator that has any, once where all candidates share them."""
    return [
        (
            name,
            None if stage.shares(name) else each.name,
            stage.weights(name, each, contestants),
        )
        for name in stage.estimators
        if ESTIMATORS[name].weighs
        for each in (contestants[:1] if stage.shares(name) else contestants)
    ]


def _recommended(
    stage: Stage,
    contestants: Sequence[Contestant],
    deciles: NDArray[np.int64],
    events: NDArray[np.int64],
    k: int,
) -> list[Recommended]:
    if stage.explicit:
        return []
    users = np.unique(stage.targets.user)
    if len(users) > _MOST_USERS:
        rng = stage.streams.numpy("diagnostics", "users")
        users = np.sort(rng.choice(users, _MOST_USERS, replace=False))
    found = []
    measures = list_measures(stage, users)
    for each in contestants:
        lists, _ = top_k(each.scores, users, stage.seen, k, memory=stage.config.memory)
        popularity = popularity_of_lists(lists, deciles, events)
        if popularity is not None:
            popularity |= {"k": k, "n_users": len(users), "measures": measures(lists)}
            found.append(Recommended(candidate=each.name, **popularity))
    return found


def _by_decile(
    stage: Stage, contestants: Sequence[Contestant], deciles: NDArray[np.int64]
) -> tuple[DecileMean, ...]:
    targets = stage.targets
    return tuple(
        DecileMean(candidate=contestant.name, **each)
        for contestant in contestants
        for each in means_by_decile(
            stage.values(contestant),
            deciles[targets.item],
            targets.user,
            stage.streams.numpy("diagnostics", "deciles"),  # the same resamples for all candidates
            level=stage.config.level,
            n_resamples=max(_N_RESAMPLES, resamples_needed(stage.config.level)),
        )
    )


def _calibration(stage: Stage, weights: Weights) -> tuple[Calibration, ...]:
    """Compare propensities as they were used, clipped if so, with the world's own."""
    if stage.world is None:
        return ()
    true = oracle_propensities(stage.world, stage.targets)
    return tuple(
        Calibration(estimator=name, candidate=whose, **calibration(1 / each, true))
        for name, whose, each in weights
        if ESTIMATORS[name].needs != "world"
    )
