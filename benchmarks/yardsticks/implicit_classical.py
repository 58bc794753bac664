"""implicit's ALS and cosine neighbours: seconds a sweep, its objective, seconds of a fit."""

from __future__ import annotations

import json
import os
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as it advises

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from implicit.nearest_neighbours import CosineRecommender
from scipy.sparse import csr_matrix

given = np.load(sys.argv[1])
names = ("dim", "sweeps", "neighbours", "threads")
dim, sweeps, neighbours, threads = (int(given[name]) for name in names)
alpha, ridge = float(given["confidence"]), float(given["ridge"])
ones = np.ones(len(given["user"]), dtype=np.float32)
log = csr_matrix((ones, (given["user"], given["item"])))
confidence = log * np.float32(1 + alpha)


def train(iterations: int) -> tuple[float, AlternatingLeastSquares]:
    model = AlternatingLeastSquares(
        factors=dim,
        regularization=ridge,
        iterations=iterations,
        num_threads=threads,
        random_state=1,
    )
    begin = time.perf_counter()
    model.fit(confidence, show_progress=False)
    return time.perf_counter() - begin, model


train(1)
short, _ = train(1)
long, model = train(sweeps)
users, items = model.user_factors.astype(float), model.item_factors.astype(float)
scores = (users[given["user"]] * items[given["item"]]).sum(1)
everywhere = ((users.T @ users) * (items.T @ items)).sum()
observed = ((1 + alpha) * (1 - scores) ** 2 - scores**2).sum()
held = ridge * ((users**2).sum() + (items**2).sum())
cosine = float("inf")
for _ in range(2):
    begin = time.perf_counter()
    CosineRecommender(K=neighbours, num_threads=threads).fit(log, show_progress=False)
    cosine = min(cosine, time.perf_counter() - begin)
print(
    json.dumps(
        {
            "sweep": (long - short) / (sweeps - 1),
            "objective": everywhere + observed + held,
            "cosine": cosine,
        }
    )
)
