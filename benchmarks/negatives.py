"""Draw four negatives for every training row of MovieLens-1M, against a plain rejection loop."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

import counterplay as cp
from benchmarks.timing import best_of, real_data
from counterplay.data.preparation import prepare

N_NEGATIVES = 4
GOAL_RATE, GOAL_RATIO = 10e6, 20


def run() -> dict[str, Any]:
    folder = real_data("ml-1m")
    if folder is None:
        return {"skipped": "MovieLens-1M is not there; point COUNTERPLAY_DATA at its folder"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        split = prepare(folder)
    assert isinstance(split, cp.Split)
    train = split.train
    n_draws = len(train) * N_NEGATIVES
    rng = cp.Streams(0).numpy("negatives")
    shuffled = train.user[rng.permutation(len(train))]
    uniform, tempered = (
        cp.data.NegativeSampler(train),
        cp.data.NegativeSampler(train, exponent=0.75),
    )
    seen = [set(items.tolist()) for items in np.split(train.item, train.offsets[1:-1])]
    users = train.user.tolist()

    def loop() -> list[int]:
        drawn = []
        for user in users:
            known = seen[user]
            for _ in range(N_NEGATIVES):
                item = int(random.random() * train.n_items)
                while item in known:
                    item = int(random.random() * train.n_items)
                drawn.append(item)
        return drawn

    ours, mixed, popular, plain, built = best_of(
        3,
        lambda: uniform.draw(train.user, N_NEGATIVES, rng),
        lambda: uniform.draw(shuffled, N_NEGATIVES, rng),
        lambda: tempered.draw(train.user, N_NEGATIVES, rng),
        loop,
        lambda: cp.data.NegativeSampler(train),
    )
    drawn = uniform.draw(train.user, N_NEGATIVES, rng)
    pairs = train.user[:, None].astype(np.int64) * train.n_items + drawn
    n_seen = int(np.isin(pairs, train.pair).sum())
    rows = []
    for what, seconds in (
        ("uniform, users in order", ours),
        ("uniform, users shuffled", mixed),
        ("by popularity^0.75, users in order", popular),
    ):
        rate, ratio = n_draws / seconds, plain / seconds
        rows.append(
            {
                "what": f"negatives of MovieLens-1M: {what}",
                "ours": f"{rate / 1e6:.1f} M draws/s",
                "yardstick": f"{n_draws / plain / 1e6:.1f} M draws/s, Python rejection loop",
                "ratio": f"{ratio:.1f}",
                "goal": "10 M draws/s, or a ratio of 20",
                "met": (rate >= GOAL_RATE or ratio >= GOAL_RATIO) and n_seen == 0,
            }
        )
    return {
        "draws": n_draws,
        "draws_seen_in_training": n_seen,
        "seconds": {
            "uniform": ours,
            "uniform_shuffled": mixed,
            "popularity": popular,
            "python_loop": plain,
            "building_the_sampler": built,
        },
        "rows": rows,
    }
