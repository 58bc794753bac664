"""Prepare generated logs of 5 and 50 million rows: time and memory a row must not grow."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

import counterplay as cp

N_USERS, N_ITEMS = 2_000_000, 200_000
SIZES = (5_000_000, 50_000_000)
CHUNK = 2_500_000
GOAL_BYTES = 8 * 2**30

PREPARE = """
import json, sys, time, warnings
from pathlib import Path
import polars, numpy, pyarrow
warnings.simplefilter("ignore")
from counterplay.data.directory import save
from counterplay.data.preparation import prepare
def peak_bytes():  # of this process alone; getrusage would count the parent's too
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) * 1024
before = peak_bytes()
begin = time.perf_counter()
save(prepare(sys.argv[1]), sys.argv[2])
seconds = time.perf_counter() - begin
found = {"seconds": seconds, "peak": peak_bytes(), "before": before}
print(json.dumps(found | {"cpu_seconds": time.process_time()}))
"""


def write_log(path: Path, n_rows: int) -> None:
    """Write a log with text user ids, unequal activity and popularity, and times in no order."""
    rng = cp.Streams(0).numpy("scale", n_rows)
    writer: pq.ParquetWriter | None = None
    for begin in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - begin)
        user = (N_USERS * rng.random(n) ** 2).astype(np.int64)
        frame = pl.DataFrame(
            {
                "user_id": "user-" + pl.Series(user).cast(pl.String).str.zfill(9),
                "item_id": (N_ITEMS * rng.random(n) ** 3).astype(np.int64),
                "rating": rng.integers(1, 6, n).astype(np.float64),
                "timestamp": 1_600_000_000 + rng.integers(0, 10**8, n),
            }
        )
        table = frame.to_arrow()
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
    assert writer is not None
    writer.close()


def run() -> dict[str, Any]:
    measured: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for n_rows in SIZES:
            log = Path(scratch) / f"log-{n_rows}.parquet"
            write_log(log, n_rows)
            command = [sys.executable, "-c", PREPARE, str(log), f"{log}.dataset"]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            measured[n_rows] = json.loads(output)
            log.unlink()
    small, large = (measured[n_rows] for n_rows in SIZES)
    time_small, time_large = (measured[n]["seconds"] / n * 1e9 for n in SIZES)
    memory_small, memory_large = ((measured[n]["peak"] - measured[n]["before"]) / n for n in SIZES)
    return {
        "users": N_USERS,
        "items": N_ITEMS,
        "measured": {str(n): values for n, values in measured.items()},
        "rows": [
            {
                "what": "prepare 50 million rows: peak memory",
                "ours": f"{large['peak'] / 2**30:.2f} GiB in {large['seconds']:.0f} s",
                "yardstick": "8 GiB",
                "ratio": f"{large['peak'] / GOAL_BYTES:.2f}",
                "goal": "below 1",
                "met": large["peak"] < GOAL_BYTES,
            },
            {
                "what": "time a row at 50 million rows",
                "ours": f"{time_large:.0f} ns",
                "yardstick": f"{time_small:.0f} ns at 5 million ({small['seconds']:.1f} s)",
                "ratio": f"{time_large / time_small:.2f}",
                "goal": "at most 1",
                "met": time_large <= time_small,
            },
            {
                "what": "memory a row at 50 million rows",
                "ours": f"{memory_large:.0f} bytes",
                "yardstick": f"{memory_small:.0f} bytes at 5 million",
                "ratio": f"{memory_large / memory_small:.2f}",
                "goal": "at most 1",
                "met": memory_large <= memory_small,
            },
        ],
    }
