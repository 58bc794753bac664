"""A small log with features of users and items, and candidates that are scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import counterplay as cp
from counterplay.data.features import FeatureTable
from counterplay.evaluation.propensities import Contestant
from counterplay.evaluation.stage import Evaluation, Stage

N_USERS, N_ITEMS = 40, 30


@dataclass
class Matrix:
    """Scores `[n_users, n_items]`; what is −∞ cannot be ranked."""

    scores: NDArray[np.float64]

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.scores[users[:, None], items]
        return found

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.scores[users]
        return found


def make_split(*, features: bool = True, times: bool = True, ratings: bool = False) -> cp.Split:
    rng = np.random.default_rng(5)
    n = 900
    columns: dict[str, Any] = {
        "user": rng.integers(0, N_USERS - 4, n),
        "item": [f"<b>{each}</b>" for each in (rng.beta(1, 2, n) * N_ITEMS).astype(int)],
    }
    late = np.arange(n) >= 700
    columns["user"][late & (np.arange(n) % 9 == 0)] = N_USERS - 2  # who is new
    if times:
        columns["time"] = np.arange(n)
    if ratings:
        columns["rating"] = rng.integers(1, 6, n)
    log = cp.read(columns)
    if features:
        items = pl.DataFrame(
            {
                "id": log.items.ids,
                "Title": [f"<i>{each}</i> {'long ' * 40}" for each in range(log.n_items)],
                "genres": [["a", "b"] if each % 2 else ["b"] for each in range(log.n_items)],
                "year": [None if each == 3 else 1990 + each % 11 for each in range(log.n_items)],
            }
        )
        users = pl.DataFrame(
            {
                "id": log.users.ids,
                "town": [f"town {min(each % 15, 11)}" for each in range(log.n_users)],
                "same": ["x"] * log.n_users,
            }
        )
        log = replace(
            log,
            item_features=FeatureTable.align(items, "id", log.items)[0],
            user_features=FeatureTable.align(users, "id", log.users)[0],
        )
    return (
        cp.data.split_by_time(log, fractions=(0.1, 0.2))
        if times
        else cp.data.split_at_random(log, rng=np.random.default_rng(0))
    )


def contestants(split: cp.Split, *names: str) -> list[Contestant]:
    """Return candidates of random scores; `partly` can rank few, `never` is always wrong."""
    log = split.interactions
    found = []
    for place, name in enumerate(names or ("one", "other")):
        scores = np.random.default_rng(place).normal(size=(log.n_users, log.n_items))
        if name == "partly":
            scores[:, 4:] = -np.inf
            scores[::2] = -np.inf
        if name == "never":
            scores[split.test.user, split.test.item] = -100
        found.append(Contestant(name, Matrix(scores), None))
    return found


def make_stage(split: cp.Split, *estimators: str, explicit: bool = False) -> Stage:
    how = Evaluation(estimators=estimators or ("standard",), k=(5,), n_resamples=200)
    return Stage(split, how, explicit=explicit)
