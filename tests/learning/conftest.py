"""A checkerboard: even users like even items, odd users odd ones; one item each is withheld."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import counterplay as cp
from counterplay.data.histories import Histories
from counterplay.models.scorer import History, Scorer

N = 20
torch.set_num_threads(1)  # the models are tiny, and tests run side by side


@dataclass(frozen=True)
class Checkerboard:
    log: cp.Interactions
    withheld: NDArray[np.int64]

    def ranks(self, model: Scorer) -> NDArray[np.int64]:
        """Return the rank of each user's withheld item among the unseen ones, 0 is best."""
        users = torch.arange(N)
        history = None
        if model.history_length:
            windows = Histories(self.log).last(np.arange(N), model.history_length)
            history = History.of(torch.from_numpy(windows))
        with torch.no_grad():
            scores = model.eval().score_all(users, history).double().numpy().copy()
        scores[self.log.user, self.log.item] = -np.inf
        target = scores[np.arange(N), self.withheld]
        return np.asarray((scores > target[:, None]).sum(1))


@pytest.fixture(scope="session")
def checkerboard() -> Checkerboard:
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.arange(N * N), N)
    alike = user % 2 == item % 2
    withheld = 2 * rng.integers(0, N // 2, N) + np.arange(N) % 2
    kept = alike & (item != withheld[user])
    time = rng.permutation(N * N)
    rows = {"user": user[kept], "item": item[kept], "time": time[kept]}
    return Checkerboard(cp.read(rows), withheld)


@pytest.fixture(scope="session")
def ratings() -> cp.Interactions:
    """Users rate items of their own kind high; which they rate depends on the item alone."""
    rng = np.random.default_rng(1)
    user, item = np.divmod(np.arange(40 * 30), 30)
    rating = 3.0 + (user % 2 == item % 2) - (user % 2 != item % 2) + 0.1 * rng.normal(size=1200)
    seen = rng.random(1200) < 0.2 + 0.6 * (item / 30)
    return cp.read({"user": user[seen], "item": item[seen], "rating": rating[seen]})
