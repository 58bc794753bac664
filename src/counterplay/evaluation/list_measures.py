"""Novelty, diversity and popularity lift of candidates' lists, with intervals over users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.evaluation.records import ListMeasure
from counterplay.metrics.beyond_accuracy import (
    intra_list_diversity,
    means_of_lists,
    novelty,
    with_interval,
)
from counterplay.metrics.estimation import finite
from counterplay.metrics.intervals import resamples_needed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from counterplay.evaluation.stage import Stage
    from counterplay.metrics.arrays import Doubles, Integers

_MOST_LISTS = 1_000  # whose diversity is looked at
_MOST_USERS = 20_000  # whose rows say which items go together
_N_RESAMPLES = 200  # an interval for the eye


def list_measures(
    stage: Stage, users: Integers
) -> Callable[[NDArray[np.int32]], tuple[ListMeasure, ...]]:
    """Return what measures lists of these users, the same way for every candidate.

    Diversity is that of 1,000 of them at most, by the training rows of 20,000 users at most.
    """
    train, level = stage.train, stage.config.level
    pairs = train.distinct_pairs
    who, what = pairs // train.n_items, pairs % train.n_items
    n_users_of = np.bincount(what, minlength=train.n_items)
    n_users = len(np.unique(who))
    events = np.bincount(train.item, minlength=train.n_items)
    of_histories = _means_by_user(train.user, events[train.item], train.n_users)[users]
    some = np.arange(len(users))
    if len(some) > _MOST_LISTS:
        rng = stage.streams.numpy("diagnostics", "diversity")
        some = np.sort(rng.choice(some, _MOST_LISTS, replace=False))
    if n_users > _MOST_USERS:
        rng = stage.streams.numpy("diagnostics", "together")
        kept = np.isin(who, rng.choice(np.unique(who), _MOST_USERS, replace=False))
        who, what = who[kept], what[kept]

    def measured(lists: NDArray[np.int32]) -> tuple[ListMeasure, ...]:
        varied = intra_list_diversity(lists[some], who, what, train.n_items)
        new = novelty(lists, n_users_of, n_users)
        popular = means_of_lists(lists, events)
        return (
            of("novelty", new, np.ones(len(new))),
            of("diversity", varied, np.ones(len(varied))),
            of("popularity lift", popular, of_histories, minus=1),
        )

    def of(name: str, above: Doubles, below: Doubles, minus: float = 0) -> ListMeasure:
        rng = stage.streams.numpy("diagnostics", name)  # the same resamples for all candidates
        n_resamples = max(_N_RESAMPLES, resamples_needed(level))
        n, *numbers = with_interval(above, below, rng, level=level, n_resamples=n_resamples)
        value, low, high = (finite(each - minus) for each in numbers)
        return ListMeasure.model_validate(
            {"name": name, "n": n, "value": value, "low": low, "high": high, "level": level}
        )

    return measured


def _means_by_user(user: Integers, numbers: Integers, n_users: int) -> Doubles:
    """Return the mean of each user's rows, NaN without any, `[n_users]`."""
    counts = np.bincount(user, minlength=n_users)
    found = np.full(n_users, np.nan)
    np.divide(np.bincount(user, numbers, n_users), counts, out=found, where=counts > 0)
    return found
