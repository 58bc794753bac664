"""Prepare 200 million impressions, 2 % of them clicked: time and peak memory.

A tenth of the size first: memory a row must not grow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

import counterplay as cp
from benchmarks.prepare_scale import PREPARE

N_USERS, N_ITEMS = 5_000_000, 200_000
SIZES = (20_000_000, 200_000_000)
CHUNK = 2_000_000
CLICKED = 0.02
GOAL_BYTES, GOAL_SECONDS = 8 * 2**30, 240


def write_log(path: Path, n_rows: int) -> None:
    """Write impressions in the order of their times, as a server logs them."""
    rng = cp.Streams(0).numpy("impressions", n_rows)
    writer: pq.ParquetWriter | None = None
    for begin in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - begin)
        frame = pl.DataFrame(
            {
                "user": (N_USERS * rng.random(n) ** 2).astype(np.int64),
                "item": (N_ITEMS * rng.random(n) ** 3).astype(np.int64),
                "time": 1_600_000_000 + (begin + np.sort(rng.integers(0, n, n))) // 20,
                "clicked": (rng.random(n) < CLICKED).astype(np.int8),
                "position": rng.integers(1, 21, n).astype(np.int8),
            }
        )
        table = frame.to_arrow()
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
    assert writer is not None
    writer.close()


def measured(n_rows: int, scratch: Path) -> dict[str, float]:
    """Prepare and store a log in a process of its own."""
    log = scratch / f"log-{n_rows}.parquet"
    write_log(log, n_rows)
    command = [sys.executable, "-c", PREPARE, str(log), f"{log}.dataset"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    log.unlink()
    found: dict[str, float] = json.loads(output)
    return found


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        found = {n_rows: measured(n_rows, Path(scratch)) for n_rows in SIZES}
    few, many = (found[n_rows] for n_rows in SIZES)
    per_row = [(found[n]["peak"] - found[n]["before"]) / n for n in SIZES]
    what = f"prepare {SIZES[1] // 10**6} million impressions, 2 % clicked"
    return {
        "users": N_USERS,
        "items": N_ITEMS,
        "load": round(os.getloadavg()[2], 1),  # beside other work it takes longer
        "measured": {str(n): values for n, values in found.items()},
        "rows": [
            {
                "what": f"{what}: peak memory",
                "ours": f"{many['peak'] / 2**30:.2f} GiB",
                "yardstick": "8 GiB",
                "ratio": f"{many['peak'] / GOAL_BYTES:.2f}",
                "goal": "below 1",
                "met": many["peak"] < GOAL_BYTES,
            },
            {
                "what": f"{what}: time",
                "ours": f"{many['seconds']:.0f} s, of it {many['cpu_seconds']:.0f} s of one core",
                "yardstick": f"{GOAL_SECONDS} s",
                "ratio": f"{many['seconds'] / GOAL_SECONDS:.2f}",
                "goal": "below 1",
                "met": many["seconds"] < GOAL_SECONDS,
            },
            {
                "what": f"memory an impression at {SIZES[1] // 10**6} million",
                "ours": f"{per_row[1]:.0f} bytes",
                "yardstick": f"{per_row[0]:.0f} bytes at {SIZES[0] // 10**6} million "
                f"({few['seconds']:.1f} s)",
                "ratio": f"{per_row[1] / per_row[0]:.2f}",
                "goal": "at most 1",
                "met": per_row[1] <= per_row[0],
            },
        ],
    }
