"""implicit's BPR: seconds an iteration."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from implicit.cpu.bpr import BayesianPersonalizedRanking
from scipy.sparse import csr_matrix

given = np.load(sys.argv[1])
ones = np.ones(len(given["user"]), dtype=np.float32)
log = csr_matrix((ones, (given["user"], given["item"])))


def train(iterations: int) -> float:
    model = BayesianPersonalizedRanking(
        factors=32, iterations=iterations, num_threads=2, random_state=1
    )
    begin = time.perf_counter()
    model.fit(log, show_progress=False)
    return time.perf_counter() - begin


train(1)
few, many = 2, 12
short, long = train(few), train(many)
print(json.dumps({"seconds": (long - short) / (many - few)}))
