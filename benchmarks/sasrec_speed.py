"""How fast attn learns by a softmax beside RecTools' SASRec by its softmax: positions a second.

Processor time of one thread, at the size of `benchmarks/sasrec.py`, as many windows in a batch.
Both learn from the last 51 rows of some users of MovieLens-1M, which are all that RecTools reads of
them. Ours and the yardstick take turns; the best turn of each counts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

import counterplay as cp
from benchmarks.movielens import ABSENT, movielens
from benchmarks.sasrec import FOLDER, SIZE, given
from benchmarks.yardsticks import measure
from counterplay.data.directory import load_split
from counterplay.learning.config import AmongAll
from counterplay.learning.methods.softmax import softmax
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
    log = _last_rows(split.train)
    for _ in range(ROUNDS):
        answer = measure("rectools", "rectools_ranking", given(split, asked), FOLDER)
        found["rectools"].append(answer["positions"] / answer["seconds"])
        found["sample"].append(len(log) / _epoch(log, N_SHARED))
        found["all items"].append(len(log) / _epoch(log, log.n_items))
    rates = {name: max(each) for name, each in found.items()}
    theirs = rates["rectools"]
    return {
        "size": SIZE,
        "settings": {"users": N_USERS, "windows": WINDOWS, "n_shared": N_SHARED},
        "rounds": ROUNDS,
        "items": log.n_items,
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
                ("all items", f"all {log.n_items:,} items"),
                ("sample", f"{N_SHARED} drawn items"),
            )
        ],
    }


def _last_rows(train: cp.Interactions) -> cp.Interactions:
    """Return the rows of some users that RecTools reads, as a log of its own."""
    assert train.time is not None
    back = train.offsets[train.user + 1] - np.arange(len(train))  # 1 for a user's last row
    kept = (train.user < N_USERS) & (back <= SIZE["length"] + 1)
    order = np.arange(kept.sum())
    return cp.read({"user": train.user[kept], "item": train.item[kept], "time": order})


def _epoch(log: cp.Interactions, n_shared: int) -> float:
    """Return the processor time of an epoch, the mean but for the first."""
    model = build("attn", log, generator=cp.Streams(0).torch("speed"), **SIZE)
    ends: list[float] = []
    config = AmongAll(n_shared=n_shared, batch_size=WINDOWS * SIZE["length"], epochs=5)
    softmax(model, log, config, callbacks=[lambda _: ends.append(time.process_time())])
    return float(np.diff(ends).mean())
