"""Two workers against one, a thread each, with the same number of rows a worker and step.

What is measured is the last of two epochs; turns alternate, and the best of each counts. Bytes are
those that a worker sends in a step. On a machine that does other work too, seconds say little;
those of the processor say what workers compute, without what they wait for.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import counterplay as cp
from benchmarks.movielens import WORK

N_ROWS, N_USERS, N_ITEMS = 4_000_000, 200_000, 20_000
ROWS_A_WORKER = 65_536
SHARDS, ROUNDS = 8, 3
GOAL = 1.6
METHODS = ("erm", "acl")
SIZES = (1, 2)


def run() -> dict[str, Any]:
    data = log_of("workers-4m", N_ROWS, N_ITEMS)
    measured: dict[str, dict[Any, Any]] = {}
    for method in METHODS:
        batches = {size: ROWS_A_WORKER * size for size in SIZES}
        turns = [
            {size: measured_by(data, method, size, batches[size]) for size in SIZES}
            for _ in range(ROUNDS)
        ]
        measured[method] = {
            size: {
                key: min(turn[size][key] for turn in turns)  # of seconds, the least
                for key in turns[0][size]
            }
            for size in SIZES
        }
        measured[method]["turns"] = [
            {size: turn[size]["seconds"] for size in SIZES} for turn in turns
        ]  # fmt: skip
    return {
        "log": {"rows": N_ROWS, "users": N_USERS, "items": N_ITEMS, "shards": SHARDS},
        "measured": measured,
        "rows": [_row(method, found) for method, found in measured.items()],
    }


def log_of(name: str, n_rows: int, n_items: int) -> Path:
    """Make a log in which few items have most rows, and all of them one."""
    data = WORK / name
    if not data.exists():
        rng = cp.Streams(0).numpy("workers")
        user = (N_USERS * rng.random(n_rows) ** 2).astype(np.int32)
        item = (n_items * rng.random(n_rows) ** 3).astype(np.int32)
        item[:n_items] = rng.permutation(n_items)
        log = cp.read(pl.DataFrame({"user": user, "item": item}))
        cp.data.save(cp.Split(log, np.zeros(len(log), dtype=np.int8), "nothing held out"), data)
    return data


def _row(method: str, found: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    one, two = (found[size]["rows"] / found[size]["seconds"] for size in SIZES)
    computing = found[1]["cpu seconds"] / found[2]["cpu seconds"]
    sent = found[2]["bytes a step"] / 2**20
    return {
        "what": f"GMF, {method}, rows a second of 2 workers, 65,536 rows a worker and step, "
        f"20,000 items; {sent:.1f} MiB a worker and step; by seconds of the processor "
        f"{computing:.2f} times",
        "ours": f"{two:,.0f}",
        "yardstick": f"{one:,.0f}, 1 worker",
        "ratio": f"{two / one:.2f}",
        "goal": f"at least {GOAL}",
        "met": two / one >= GOAL,
    }


def measured_by(
    data: Path, method: str, size: int, batch_size: int, *, own_items: bool = False
) -> dict[str, Any]:
    """Run a training by some workers, and return what the first one printed."""
    training = {"epochs": 2, "batch_size": batch_size}
    job = {
        "data": str(data),
        "shards": SHARDS,
        "own_items": own_items,
        "config": {"method": method, "candidate": {"name": "gmf"}, "training": training},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared: dict[str, Any] = {
            "WORLD_SIZE": size,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        if size == 1:  # alone, with nobody to meet
            shared = {}
        workers = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.workers_job", str(path)],
                env=os.environ
                | {name: str(value) for name, value in shared.items()}
                | ({"RANK": str(rank)} if shared else {})
                | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
        said = [each.communicate()[0] for each in workers]
    if any(each.returncode for each in workers):
        raise RuntimeError(f"a worker failed: {[each.returncode for each in workers]}")
    found: dict[str, Any] = json.loads(said[0])
    return found
