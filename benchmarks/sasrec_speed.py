"""How fast attn learns by a softmax beside RecTools' SASRec by its softmax: positions a second.

Processor time of one thread, at the size of `benchmarks/sasrec.py`, on the first users of
MovieLens-1M, with as many windows in a batch. Ours and the yardstick take turns; the best turn of
each counts. A position is a row that is predicted: RecTools predicts the last 50 of each user, and its softmax
has only items among those, of these users.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import counterplay as cp
from benchmarks.movielens import ABSENT, movielens
from benchmarks.sasrec import FOLDER, SIZE, given
from benchmarks.yardsticks import measure
from counterplay.data.directory import load_split
from counterplay.learning.methods.softmax import AmongAll, softmax
from counterplay.models.registry import build

N_USERS = 500  # RecTools' softmax takes minutes an epoch on all of them
WINDOWS = 32
N_SHARED = 512
ROUNDS = 2


def run() -> dict[str, Any]:
    data = movielens()
    if data is None:
        return ABSENT
    torch.set_num_threads(1)  # as the yardstick
    FOLDER.mkdir(exist_ok=True)
    split = load_split(data)
    found: dict[str, list[float]] = {"sample": [], "all items": [], "rectools": []}
    asked = SIZE | {"rate": 0.001, "sessions": WINDOWS, "n_users": N_USERS}
    log = replace(split.train, rating=None, user_features=None, item_features=None)
    some = log.take(np.flatnonzero(log.user < N_USERS))
    for _ in range(ROUNDS):
        answer = measure("rectools", "rectools_ranking", given(split, asked), FOLDER)
        found["rectools"].append(answer["positions"] / answer["seconds"])
        found["sample"].append(len(some) / _epoch(some, N_SHARED))
        found["all items"].append(len(some) / _epoch(some, log.n_items))
    rates = {name: max(each) for name, each in found.items()}
    theirs = rates["rectools"]
    return {
        "size": SIZE,
        "settings": {"users": N_USERS, "windows": WINDOWS, "n_shared": N_SHARED, "rounds": ROUNDS},
        "measured": found,
        "rows": [
            {
                "what": f"Attn by a softmax over {over}, positions a second",
                "ours": f"{rates[name]:,.0f}",
                "yardstick": f"{theirs:,.0f}, RecTools SASRec by its softmax over all items",
                "ratio": f"{rates[name] / theirs:.2f}",
                "goal": "at least 2",
                "met": rates[name] >= 2 * theirs,
            }
            for name, over in (
                ("all items", "all items"),
                ("sample", f"{N_SHARED} drawn items"),
            )
        ],
    }


def _epoch(log: cp.Interactions, n_shared: int) -> float:
    """Return the processor time of an epoch, the second one."""
    model = build("attn", log, generator=cp.Streams(0).torch("speed"), **SIZE)
    ends: list[float] = []
    config = AmongAll(n_shared=n_shared, batch_size=WINDOWS * SIZE["length"], epochs=2)
    softmax(model, log, config, callbacks=[lambda _: ends.append(time.process_time())])
    return ends[1] - ends[0]
